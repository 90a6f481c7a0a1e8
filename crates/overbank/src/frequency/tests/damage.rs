//! The byte census: one bit of every byte of every file of a sketch.

use super::*;
use crate::device::{Access, Device};

#[test]
fn a_flipped_bit_is_corrupt_or_harmless_but_never_a_wrong_answer() {
    [4, 32].into_iter().for_each(flip_bits);
}

fn flip_bits(cell_bits: u32) {
    let device = Arc::new(SimDevice::new(9));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let options = small().cell_bits(cell_bits).bytes(3 << 12, 5).group_pages(2).pending(3);
    let sketch = store.frequency("f", options).unwrap();
    let probes = keys(&store, 0..50);
    for turn in 0..3 {
        sketch.update(&probes, None).unwrap();
        sketch.update(&probes, Some(&[7; 50])).unwrap();
        if turn == 1 { sketch.apply().unwrap() } else { sketch.sketch.flush().unwrap() }
    }
    store.commit(b"x").unwrap();
    let expected = sketch.estimate(&probes).unwrap();
    drop((sketch, store));
    let (mut bytes, mut corrupt) = (0, 0);
    for name in device.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")) {
        let len_bytes = device.fork().open(&name, Access::Read).unwrap().len_bytes().unwrap();
        for byte in (0..len_bytes).step_by(3) {
            let image = device.fork();
            assert!(image.flip_bit(&name, byte * 8 + byte % 8));
            bytes += 1;
            let ask = || {
                let store = Store::open_read_only_on(Arc::new(image.clone()), store_options())?;
                store.frequency("f", FrequencyOptions::new())?.estimate(&probes)
            };
            match ask() {
                Ok(answers) => assert_eq!(answers, expected, "byte {byte} of {name}: a wrong answer"),
                Err(Error::Corrupt { .. }) => corrupt += 1,
                Err(error) => panic!("byte {byte} of {name}: {error}"),
            }
        }
    }
    println!("{bytes} bytes flipped, {corrupt} corrupt");
    assert!(corrupt > 0 && corrupt < bytes, "{corrupt} of {bytes}: pages that nobody asks for are harmless");
}

#[test]
fn state_that_no_commit_wrote_is_corrupt_and_nothing_else() {
    use crate::frequency::format::State;
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", small()).unwrap();
    sketch.update(&keys(&store, 0..9), None).unwrap();
    store.commit(b"x").unwrap();
    let bytes = store.record("f").unwrap().record.state;
    assert!(State::decode(&bytes).is_ok_and(|state| state.encode() == bytes));
    for len in 0..bytes.len() {
        assert!(matches!(State::decode(&bytes[..len]), Err(Error::Corrupt { .. })), "{len} bytes");
    }
    for (at, value) in (0..bytes.len()).flat_map(|at| [(at, 0u8), (at, 1), (at, 0xff)]) {
        let mut forged = bytes.clone();
        forged[at] = value;
        match State::decode(&forged) {
            // Of the version before, and without logs, it reads the same.
            Ok(state) => assert_eq!(state.encode()[8..], forged[8..]),
            Err(Error::Corrupt { .. } | Error::UnsupportedVersion { .. }) => {}
            Err(error) => panic!("byte {at} = {value}: {error}"),
        }
    }
}

#[test]
fn the_version_before_is_read_without_logs_and_refused_by_name_with_some() {
    use crate::frequency::format::State;
    let older = |logs: bool| {
        let store = Store::in_memory(store_options()).unwrap();
        let sketch = store.frequency("f", small()).unwrap();
        sketch.update(&keys(&store, 0..9), None).unwrap();
        if !logs {
            sketch.apply().unwrap();
        }
        store.commit(b"x").unwrap();
        let mut bytes = store.record("f").unwrap().record.state;
        let now = State::decode(&bytes).unwrap();
        assert_eq!((&bytes[4..8], now.logs.len()), (&4u32.to_le_bytes()[..], usize::from(logs)));
        bytes[4] = 3;
        (State::decode(&bytes), now)
    };
    let (found, now) = older(false);
    assert_eq!(found.unwrap(), now);
    let refused = older(true).0.unwrap_err();
    assert!(matches!(refused, Error::UnsupportedVersion { found: 3, supported: 4, .. }), "{refused}");
    assert!(refused.to_string().contains("updates in logs"), "{refused}");
}

#[test]
fn a_reader_beside_a_writer_answers_from_its_snapshot_or_not_at_all() {
    let device = Arc::new(SimDevice::new(2));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch = store.frequency("f", small()).unwrap();
    let probes = keys(&store, 0..50);
    let step = |turn: u64| {
        sketch.update(&probes, Some(&[turn + 1; 50])).unwrap();
        sketch.apply().unwrap();
        store.commit(&turn.to_le_bytes()).unwrap();
    };
    step(0);
    let snapshot = Store::open_read_only_on(device.clone(), store_options()).unwrap();
    let reader = snapshot.frequency("f", FrequencyOptions::new()).unwrap();
    let before = reader.estimate(&probes).unwrap();
    let mut refused = 0;
    for turn in 1..6 {
        step(turn);
        match reader.estimate(&probes) {
            Ok(answers) => assert_eq!(answers, before),
            Err(Error::Outdated { held: 1, newest, .. }) if newest > 1 => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0, "the writer came to use the snapshot's extents");
}

#[test]
fn the_bytes_are_those_of_format_version_4() {
    let found = GOLDEN.map(|(cell_bits, _)| (cell_bits, digest(cell_bits)));
    assert_eq!(found, GOLDEN, "{found:#018x?}: other bytes need another version");
}

fn digest(cell_bits: u32) -> u64 {
    let device = Arc::new(SimDevice::new(5));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch = store.frequency("f", small().cell_bits(cell_bits)).unwrap();
    for turn in 0..3 {
        sketch.update(&keys(&store, 0..500 * turn), None).unwrap();
        sketch.update(&keys(&store, 100..120), Some(&[1 << 40; 20])).unwrap();
        if turn == 1 { sketch.apply().unwrap() } else { sketch.sketch.flush().unwrap() }
    }
    store.commit(b"x").unwrap();
    let entry = store.record("f").unwrap();
    let mut digest = xxhash_rust::xxh3::Xxh3::new();
    digest.update(&entry.record.state);
    for file in &entry.record.files {
        let mut bytes = vec![0; file.bytes as usize];
        store.files().open(file).unwrap().read(0, &mut bytes).unwrap();
        digest.update(&bytes);
    }
    assert_eq!(entry.record.files.len(), 3, "table, pages and one log");
    digest.digest()
}

const GOLDEN: [(u32, u64); 4] = [
    (4, 0x042f_ff19_4d89_cd99),
    (8, 0x39bb_0516_0d3f_4a12),
    (32, 0x65a3_0aad_536e_027d),
    (64, 0x259e_b289_3d12_d685),
];
