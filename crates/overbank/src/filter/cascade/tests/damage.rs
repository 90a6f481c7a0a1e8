//! The byte census: one bit of every third byte of every file of a filter; states that no commit wrote; the bytes of this version.

use super::super::format::{self, State};
use super::*;
use crate::Error;
use crate::device::{Access, Device};
use crate::lsm::{Merging, Size};
use crate::store::{FileRef, Participant, Prepared, Record, Structure};

/// A filter of some runs of insertions and of removals, with counts, and its counts of 60 keys.
fn committed() -> (Arc<SimDevice>, Vec<u64>) {
    committed_with(true)
}

/// With runs of removals, or what is removed being removed before it comes to flash.
fn committed_with(has_removals: bool) -> (Arc<SimDevice>, Vec<u64>) {
    let (device, store) = simulated(0);
    let options = FilterOptions { policy: Policy::Tiered { fan_out: 4 }, ..small() };
    let filter = store.filter("f", options).unwrap();
    for turn in 0..6 {
        filter.insert(&keys(&store, 0..60)).unwrap();
        filter.insert(&keys(&store, turn * 700..(turn + 1) * 700)).unwrap();
        if has_removals {
            filter.flush().unwrap();
        }
        filter.remove(&keys(&store, 40..40 + 2 * turn)).unwrap();
        filter.flush().unwrap();
    }
    filter.settle().unwrap();
    let runs = filter.report().runs;
    assert!(runs.iter().any(|run| !run.is_removals), "{runs:?}");
    assert_eq!(runs.iter().any(|run| run.is_removals), has_removals, "{runs:?}");
    store.commit(b"x").unwrap();
    let counts = filter.count_many(&keys(&store, 0..60)).unwrap();
    (device, counts)
}

#[test]
fn a_flipped_bit_is_corrupt_or_harmless_but_never_a_wrong_answer() {
    let (device, expected) = committed();
    let (mut bytes, mut corrupt) = (0, 0);
    for name in device.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")) {
        let len_bytes = device.fork().open(&name, Access::Read).unwrap().len_bytes().unwrap();
        for byte in (0..len_bytes).step_by(3) {
            let image = device.fork();
            assert!(image.flip_bit(&name, byte * 8 + byte % 8));
            bytes += 1;
            let ask = || {
                let store = Store::open_read_only_on(Arc::new(image.clone()), store_options(0))?;
                let filter = store.filter("f", small())?;
                let counts = filter.count_many(&keys(&store, 0..60))?;
                assert!(!store.verify()?.is_whole(), "byte {byte} of {name} is not verified");
                crate::Result::Ok(counts)
            };
            match ask() {
                Ok(counts) => assert_eq!(counts, expected, "byte {byte} of {name}: a wrong answer"),
                Err(Error::Corrupt { .. }) => corrupt += 1,
                Err(error) => panic!("byte {byte} of {name}: {error}"),
            }
        }
    }
    println!("{bytes} bytes flipped, {corrupt} corrupt");
    assert!(corrupt > 0 && corrupt <= bytes);
}

#[test]
fn a_merge_of_a_damaged_run_is_corrupt_and_loses_nothing() {
    let (device, _) = committed();
    let store = Store::open_on(device.clone(), store_options(0)).unwrap();
    let filter = store.filter("f", small()).unwrap();
    let name = device.list().unwrap().into_iter().find(|name| name.ends_with(".seg")).unwrap();
    assert!(device.flip_bit(&name, 999));
    let (files, runs) = (device.list().unwrap(), filter.report().runs);
    for _ in 0..2 {
        assert!(matches!(filter.compact(), Err(Error::Corrupt { .. })));
    }
    assert_eq!((device.list().unwrap(), filter.report().runs), (files, runs));
}

#[test]
fn state_that_no_commit_wrote_is_corrupt_and_nothing_else() {
    let (device, _) = committed();
    let store = Store::open_on(device, store_options(0)).unwrap();
    let Record { state: bytes, files } = store.record("f").unwrap().record;
    let encode = |state: &State| format::encode(&state.options, &state.writes, &state.tree);
    let state = State::decode(&bytes, &files).unwrap();
    assert!(encode(&state) == bytes && state.tree.runs.len() >= 3);
    // A merge of two runs to the third that is half done.
    let mut half = state.clone();
    half.tree.merges.push(Merging { inputs: vec![0, 1], output: 2, border: 1 << 63 });
    half.tree.runs[1].replaced = Size { entries: 3, tombstones: 1, occurrences: 2, ..Size::default() };
    assert_eq!(State::decode(&encode(&half), &files).unwrap(), half);
    for bytes in [bytes, encode(&half)] {
        no_other_state(&bytes, &files);
    }
}

fn no_other_state(bytes: &[u8], files: &[FileRef]) {
    for len in 0..bytes.len() {
        assert!(matches!(State::decode(&bytes[..len], files), Err(Error::Corrupt { .. })), "{len} bytes");
    }
    for (at, value) in (0..bytes.len()).flat_map(|at| [(at, 0u8), (at, 1), (at, 0x7f), (at, 0xff)]) {
        let mut forged = bytes.to_vec();
        forged[at] = value;
        match State::decode(&forged, files) {
            Ok(state) => {
                let again = format::encode(&state.options, &state.writes, &state.tree);
                assert_eq!(again, forged, "byte {at} = {value}");
            }
            Err(Error::Corrupt { .. } | Error::UnsupportedVersion { .. }) => {}
            Err(error) => panic!("byte {at} = {value}: {error}"),
        }
    }
}

#[test]
fn the_store_tells_of_a_filter_and_verifies_it() {
    let (device, _) = committed();
    for read_only in [false, true] {
        let open = if read_only { Store::open_read_only_on } else { Store::open_on };
        let store = open(device.clone(), store_options(0)).unwrap();
        let [info] = &store.summaries()[..] else { panic!("one summary") };
        let files = store.record("f").unwrap().record.files;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        assert_eq!((info.name.as_str(), info.structure.id, info.files), ("f", 19, files.len()));
        assert_eq!(info.bytes, bytes + store.record("f").unwrap().record.state.len() as u64);
        let report = store.verify().unwrap();
        assert!(report.is_whole() && report.unchecked_blocks == 0, "{report:?}");
        assert!(report.blocks >= bytes / 4096, "{report:?}");
        let options = Filter::stored_options(&store, "f").unwrap();
        assert_eq!(options, FilterOptions { policy: Policy::Tiered { fan_out: 4 }, ..small() });
    }
}

#[test]
fn the_bytes_are_those_of_format_version_2() {
    let (device, _) = committed();
    let store = Store::open_on(device, store_options(0)).unwrap();
    let entry = store.record("f").unwrap();
    let mut digest = xxhash_rust::xxh3::Xxh3::new();
    digest.update(&entry.record.state);
    for file in &entry.record.files {
        let mut bytes = vec![0; file.bytes as usize];
        store.files().open(file).unwrap().read(0, &mut bytes).unwrap();
        digest.update(&bytes);
    }
    let found = (entry.record.files.len(), digest.digest());
    assert_eq!(found, GOLDEN, "{found:#018x?}: other bytes need another version");
}

/// The number of runs, and XXH3 of the state and of their bytes, which are segments and runs of version 3.
const GOLDEN: (usize, u64) = (8, 0x3d53_d298_4258_2bc5);

/// A filter that was committed by version 1.
struct Old(Record);

impl Participant for Old {
    fn structure(&self) -> Structure {
        Structure { id: 19, version: 1 }
    }

    fn prepare(&self) -> crate::Result<Prepared> {
        Ok(Prepared::Changed(self.0.clone()))
    }

    fn committed(&self) {}
}

/// As version 1 wrote a state.
fn encode_1(state: &State) -> Vec<u8> {
    let mut bytes = format::encode(&state.options, &state.writes, &state.tree)[..48].to_vec();
    bytes[4] = 1;
    bytes.extend(state.tree.memtables.to_le_bytes());
    bytes.extend(state.writes.generation.to_le_bytes());
    bytes.extend((state.tree.runs.len() as u32).to_le_bytes());
    bytes.extend(state.writes.pane.to_le_bytes());
    for run in &state.tree.runs {
        bytes.extend(run.level.to_le_bytes());
        bytes.extend((run.class.bits as u16).to_le_bytes());
        bytes.extend((run.files.len() as u16).to_le_bytes());
        bytes.extend(run.class.pane.to_le_bytes());
        bytes.extend(run.span.oldest.to_le_bytes());
        bytes.extend(run.span.newest.to_le_bytes());
    }
    bytes
}

#[test]
fn a_filter_of_format_version_1_is_read_and_becomes_one_of_version_2() {
    let (device, expected) = committed_with(false);
    let store = Store::open_on(device.clone(), store_options(0)).unwrap();
    let Record { state, files } = store.record("f").unwrap().record;
    let new = State::decode(&state, &files).unwrap();
    let old = encode_1(&new);
    assert_eq!(State::decode(&old, &files).unwrap(), new);
    store.attach("f", Arc::new(Old(Record { state: old, files }))).unwrap();
    store.commit(b"old").unwrap();
    drop(store);
    for version in [1, 2] {
        let store = Store::open_on(device.clone(), store_options(0)).unwrap();
        assert_eq!(store.record("f").unwrap().structure.version, version);
        let filter = store.filter("f", small()).unwrap();
        assert_eq!(filter.count_many(&keys(&store, 0..60)).unwrap(), expected);
        filter.insert(&keys(&store, [1_000_000])).unwrap();
        store.commit(b"new").unwrap();
    }
}
