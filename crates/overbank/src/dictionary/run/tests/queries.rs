//! What runs answer, and how many reads it takes.

use super::*;
use crate::device::sim::SimDevice;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn runs_answer_as_maps(
        models in prop::collection::vec(models(), 1..4), page_blocks in prop_oneof![Just(1u32), Just(4)], compression in compressions(),
        border in any::<u64>(), ends in any::<[u64; 2]>(), absent in prop::collection::vec(bytes_of(0usize..20), 10),
        off in 0u64..3, depth in 1usize..9, in_flight_bytes in 0usize..1 << 18, is_ahead: bool,
    ) {
        let store = store();
        let files = store.files();
        let shape = RunShape { page_blocks, compression, ..SHAPE };
        let runs: Vec<RunSegment> = models.iter().map(|model| {
            // Whatever is said of what comes, it is legal.
            let said = expected(model);
            let said = Expected { items: said.items * off, bytes: said.bytes * off };
            let written = write(files, shape, said, model).unwrap().unwrap();
            let run = RunSegment::open(files, &written.file_ref(), hasher()).unwrap();
            assert_eq!(run.hashes(), written.hashes());
            assert_eq!(run.counts(), written.counts());
            assert_eq!(run.counts().items, model.len() as u64);
            run
        }).collect();
        let range = ends[0].min(ends[1])..=ends[0].max(ends[1]);
        for (run, model) in runs.iter().zip(&models) {
            let scan = |range: &std::ops::RangeInclusive<u64>| scanned(run.scan(range.clone(), PIECE_BYTES, is_ahead).unwrap()).unwrap();
            prop_assert_eq!(scan(&(0..=u64::MAX)), listed(model, 0..=u64::MAX));
            prop_assert_eq!(scan(&range), listed(model, range.clone()));
        }
        let keys: Vec<&[u8]> = models.iter().flat_map(|model| model.keys().map(|(_, key)| &key[..])).chain(absent.iter().map(|key| &key[..])).collect();
        let all: Vec<&RunSegment> = runs.iter().collect();
        let answers = found(files, &all, &keys, PageReads { depth, in_flight_bytes }).unwrap();
        // A key that came twice is answered at its first place.
        for (place, key) in keys.iter().enumerate().filter(|(place, key)| keys[..*place].iter().all(|other| other != *key)) {
            let hash = hasher().hash(key);
            for (run, model) in models.iter().enumerate() {
                let there = model.get(&(hash, key.to_vec()));
                prop_assert_eq!(answers[place][run].as_ref(), there);
                prop_assert!(there.is_none() || runs[run].may_have(hash));
                // What is clipped is as what is left.
                let clipped = runs[run].clipped(border);
                prop_assert_eq!(clipped.is_some(), *runs[run].hashes().end() >= border);
                if let Some(clipped) = clipped {
                    prop_assert_eq!(clipped.find(hash).is_empty(), runs[run].find(hash).is_empty() || hash.high() < border);
                    prop_assert!(hash.high() >= border || !clipped.may_have(hash));
                }
            }
        }
        for (run, model) in runs.iter().zip(&models) {
            let Some(clipped) = run.clipped(border) else { continue };
            let seen = scanned(clipped.scan(0..=u64::MAX, PIECE_BYTES, is_ahead).unwrap()).unwrap();
            prop_assert_eq!(seen, listed(model, border..=u64::MAX));
        }
    }
}

#[test]
fn a_lookup_is_one_read() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let files = store.files();
    let mut model = plain(20_000, 12, 4);
    // Three pages of long values among them.
    for i in 0..3u8 {
        let key = vec![i; 12];
        model.insert((hasher().hash(&key), key), Owned::Put(vec![i; 100_000]));
    }
    let run = run_of(files, SHAPE, &model);
    for ((hash, key), value) in
        model.iter().step_by(7).chain(model.iter().filter(|(_, value)| expected_bytes(value) > 4))
    {
        device.reset_counts();
        let mut answer = None;
        read_pages(files, &[(&run, run.find(*hash))], READS, &mut |_, page| {
            answer = page.find(*hash, key)?.map(Owned::of);
            Ok(())
        })
        .unwrap();
        assert_eq!(answer.as_ref(), Some(value));
        let io = device.io_counts();
        assert_eq!(io.reads, 1);
        if expected_bytes(value) == 4 {
            let blocks = run.find(*hash);
            assert_eq!(io.blocks_read, blocks.end - blocks.start);
        } else {
            assert_eq!(io.blocks_read, 25);
        }
    }
    // All of them at once: each page once, and those that follow each other together.
    let keys: Vec<_> = model.keys().collect();
    let wanted: Vec<_> = keys.iter().map(|(hash, _)| (&run, run.find(*hash))).collect();
    device.reset_counts();
    let mut answers = 0;
    read_pages(files, &wanted, READS, &mut |i, page| {
        let (hash, key) = keys[i];
        answers += u64::from(page.find(*hash, key)?.is_some());
        Ok(())
    })
    .unwrap();
    let io = device.io_counts();
    let blocks = run.written_blocks();
    assert_eq!((answers, io.blocks_read), (model.len() as u64, blocks));
    assert!(io.reads <= blocks / 16 + 8, "{} reads of {blocks} blocks", io.reads);
}

fn expected_bytes(value: &Owned) -> usize {
    match value {
        Owned::Put(bytes) | Owned::IfAbsent(bytes) | Owned::Operand(bytes) => bytes.len(),
        Owned::Deleted => 0,
    }
}

#[test]
fn long_pages_do_not_fly_with_others() {
    let store = store();
    let files = store.files();
    let model = model_of((0..40u8).map(|i| (vec![i], Owned::Put(vec![i; 1 << (i / 2)]))));
    let run = run_of(files, SHAPE, &model);
    let keys: Vec<&[u8]> = model.keys().map(|(_, key)| &key[..]).collect();
    let answers = found(files, &[&run], &keys, PageReads { depth: 64, in_flight_bytes: 1 << 17 }).unwrap();
    for (key, answer) in keys.iter().zip(answers) {
        assert_eq!(answer[0], Some(Owned::Put(vec![key[0]; 1 << (key[0] / 2)])));
    }
}
