//! Fronts, what verify finds, and the search without the index.

use super::*;
use crate::Error;
use crate::device::block::{self, Seal};
use crate::device::sim::SimDevice;
use crate::device::{Access, BLOCK_BYTES};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_run_is_what_it_says_and_is_searched_without_its_index(
        model in models(), page_blocks in prop_oneof![Just(1u32), Just(4)], compression in compressions(), front_bits in prop_oneof![Just(None), (3u32..11).prop_map(Some)],
        absent in prop::collection::vec(bytes_of(0usize..20), 10), border in any::<u64>(), has_ranks: bool,
    ) {
        let device = SimDevice::new(1);
        let store = store_on(Arc::new(device.clone()));
        let written = run_of(store.files(), RunShape { page_blocks, compression, front_bits, has_ranks }, &model);
        written.verify().unwrap();
        let run = RunSegment::open(store.files(), &written.file_ref(), hasher()).unwrap();
        run.verify().unwrap();
        let clipped = run.clipped(border);
        for (place, (hash, _)) in model.keys().enumerate() {
            prop_assert_eq!(run.rank(*hash), has_ranks.then_some(place as u64));
        }
        for key in model.keys().map(|(_, key)| key).chain(&absent) {
            let hash = hasher().hash(key);
            run.prefetch(hash);
            prop_assert_eq!(run.may_have(hash), written.may_have(hash));
            let there = model.get(&(hash, key.clone()));
            prop_assert!(there.is_none() || run.may_have(hash));
            let search = |run: &RunSegment| {
                let mut found = None;
                run.search(hash, key, &mut |value| {
                    found = value.map(Owned::of);
                    Ok(())
                }).unwrap();
                found
            };
            device.reset_counts();
            prop_assert_eq!(search(&run), there.cloned());
            // Each guess reads a page, and first the block that tells where it is.
            let most = 2 * (3 * (run.written_blocks() + 1).ilog2() + 3);
            prop_assert!(device.io_counts().reads <= u64::from(most), "{:?} of {}", device.io_counts(), run.written_blocks());
            if let Some(clipped) = &clipped {
                prop_assert_eq!(search(clipped), there.filter(|_| hash.high() >= border).cloned());
            }
        }
    }
}

#[test]
fn a_search_of_random_hashes_takes_few_reads() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let model = plain(60_000, 12, 4);
    let run = run_of(store.files(), SHAPE, &model);
    let (mut asked, mut missed) = (0, 0);
    device.reset_counts();
    for ((hash, key), value) in model.iter().step_by(97) {
        asked += 1;
        run.search(*hash, key, &mut |found| {
            missed += u64::from(found.map(Owned::of).as_ref() != Some(value));
            Ok(())
        })
        .unwrap();
    }
    let reads = device.io_counts().reads as f64 / f64::from(asked);
    println!("{reads:.2} reads a search among {} pages", run.written_blocks());
    // The place of a hash among 60,000 random ones is known up to 245 / 2 at most, as a standard deviation: half a page of 240. Two
    // reads on average leave room for six deviations and the pages' borders.
    assert!(missed == 0 && reads <= 2.5, "{missed} missed, {reads} reads");
}

#[test]
fn a_front_lets_few_pass() {
    let store = store();
    let model = plain(40_000, 12, 4);
    let run = run_of(store.files(), RunShape { front_bits: Some(10), ..SHAPE }, &model);
    assert!(run.memory_bytes() >= 40_000 * 10 / 8);
    let others = plain(80_000, 13, 0);
    let passed = others.keys().filter(|(hash, _)| run.may_have(*hash)).count();
    // 0.0096 of them; that so many more pass has a probability below e^-26 (Chernoff, 768 expected).
    assert!((500..1050).contains(&passed), "{passed} of 80,000 pass");
}

#[test]
fn sealed_damage_is_corrupt_or_a_key_less() {
    damage_sealed(Compression::None);
}

#[cfg(feature = "lz4")]
#[test]
fn sealed_damage_of_lz4_is_corrupt_or_a_key_less() {
    damage_sealed(Compression::Lz4);
}

#[cfg(feature = "zstd")]
#[test]
fn sealed_damage_of_zstd_is_corrupt_or_a_key_less() {
    damage_sealed(Compression::Zstd);
}

/// The file of a run in memory, its blocks sealed again after each change, so that only what is in them can tell.
fn damage_sealed(compression: Compression) {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let files = store.files();
    let model = {
        let mut model = plain(600, 12, 4);
        model.extend(plain(30, 20, 300));
        model.extend(model_of([
            (b"long".to_vec(), Owned::Put(vec![7; 9000])),
            (b"gone".to_vec(), Owned::Deleted),
        ]));
        model
    };
    let before = device.list().unwrap();
    let run = run_of(files, RunShape { front_bits: Some(5), compression, has_ranks: true, ..SHAPE }, &model);
    let name = device.list().unwrap().into_iter().find(|name| !before.contains(name)).unwrap();
    let file = device.open(&name, Access::Write).unwrap();
    let (file_ref, blocks) = (run.file_ref(), run.file_ref().bytes / BLOCK_BYTES as u64);
    let owner = files.owner(file_ref.id);
    let ask = |run: &RunSegment| {
        for (hash, key) in model.keys().step_by(5) {
            let wanted = [(run, run.find(*hash))];
            let answer = read_pages(files, &wanted, READS, &mut |_, page| page.find(*hash, key).map(|_| ()));
            assert!(matches!(answer, Ok(()) | Err(Error::Corrupt { .. })), "{answer:?}");
        }
        let scan = run.scan(0..=u64::MAX, PIECE_BYTES, false).and_then(scanned);
        assert!(matches!(scan, Ok(_) | Err(Error::Corrupt { .. })));
    };
    for number in 0..blocks {
        let mut good = vec![0; BLOCK_BYTES];
        file.read(number * BLOCK_BYTES as u64, &mut good).unwrap();
        let seal = block::check(&good, owner, number, std::path::Path::new("f")).unwrap();
        let places = (0..90).chain((90..4080).step_by(399));
        for (round, place) in places.enumerate() {
            let mut bad = good.clone();
            bad[place] ^= [1, 0x80, 0xff, 0x10][round % 4];
            block::seal(&mut bad, owner, number, Seal { tag: seal.tag, sequence: seal.sequence });
            file.write(number * BLOCK_BYTES as u64, &bad).unwrap();
            let opened = RunSegment::open(files, &file_ref, hasher());
            if let Ok(run) = opened {
                // Values are not told by anything else in the file, nor is the rest of the last block.
                let _ = run.verify();
                ask(&run);
            } else {
                assert!(matches!(
                    opened,
                    Err(Error::Corrupt { .. }
                        | Error::Incompatible { .. }
                        | Error::UnsupportedVersion { .. })
                ));
            }
        }
        file.write(number * BLOCK_BYTES as u64, &good).unwrap();
    }
    RunSegment::open(files, &file_ref, hasher()).unwrap().verify().unwrap();
}

#[test]
fn another_hash_is_incompatible() {
    let store = store();
    let run = run_of(store.files(), SHAPE, &plain(30, 12, 4));
    let other = ItemHasher::new(KeyHasher::new(HashKind::Xxh3, Seed(2)));
    assert!(matches!(
        RunSegment::open(store.files(), &run.file_ref(), other),
        Err(Error::Incompatible { .. })
    ));
}
