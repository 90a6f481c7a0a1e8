//! Lookups against an ordered map, and the blocks that they read.

use super::*;
use crate::Error;
use crate::device::sim::SimDevice;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn lookups_are_sums_over_the_runs(
        families in prop::collection::vec((16u32..=64).prop_flat_map(|bits| (Just(bits), models(bits))), 1..4),
        probes in prop::collection::vec(any::<u64>(), 0..100), depth in 1usize..40,
    ) {
        let store = store();
        let runs: Vec<FingerprintSegment> = families.iter().map(|(bits, model)| run_of(store.files(), *bits, model)).collect();
        let runs: Vec<&FingerprintSegment> = runs.iter().collect();
        let mut asked = probes;
        for (bits, model) in &families {
            for &fingerprint in model.keys() {
                // Those that are there, now and then twice, and their neighbours; with other bits behind them.
                let near = [fingerprint, fingerprint ^ (fingerprint & 1), fingerprint.saturating_sub(1)];
                let behind = (fingerprint << 7 ^ 0x5bd1) & !(u64::MAX.checked_shl(64 - bits).unwrap_or(0));
                asked.extend(near.map(|fingerprint| fingerprint << (64 - bits) | behind));
            }
        }
        asked.sort_unstable();
        let count = |(bits, model): &(u32, Model), prefix: u64| model.get(&(prefix >> (64 - bits))).copied().unwrap_or(0);
        let expected: Vec<i64> =
            asked.iter().map(|&prefix| families.iter().map(|family| count(family, prefix)).sum()).collect();
        let mut counts = vec![0; asked.len()];
        count_many(store.files(), &runs, &asked, depth, &mut counts).unwrap();
        prop_assert_eq!(counts, expected);
        // Insertions and removals in runs of their own: what is not there stays at what insertions alone, or a start below 0, make of it.
        let split: Vec<FingerprintSegment> =
            families.iter().flat_map(|(bits, model)| split_of(store.files(), *bits, model)).collect();
        let split: Vec<&FingerprintSegment> = split.iter().collect();
        let start = |i: usize| (i % 3) as i64 - 1;
        let side = |prefix: u64, sign: Sign| -> i64 {
            families.iter().map(|family| sign.signed(count(family, prefix)).max(0)).sum()
        };
        let expected_split: Vec<i64> = (asked.iter().enumerate())
            .map(|(i, &prefix)| match start(i) + side(prefix, Sign::Insertions) {
                there @ 1.. => there - side(prefix, Sign::Removals),
                absent => absent,
            })
            .collect();
        let mut counts: Vec<i64> = (0..asked.len()).map(start).collect();
        count_many(store.files(), &split, &asked, depth, &mut counts).unwrap();
        prop_assert_eq!(counts, expected_split);
        let contained = runs[0].contains_many(store.files(), &asked, depth).unwrap();
        let expected: Vec<bool> = asked.iter().map(|&prefix| count(&families[0], prefix) > 0).collect();
        prop_assert_eq!(contained, expected);
    }
}

#[test]
fn a_lookup_reads_one_block_of_each_run() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let runs = [1, 2, 3].map(|seed| {
        let mut writer = RunWriter::create(store.files(), kind(44), false).unwrap();
        writer.push(&uniform(400_000, 44, seed)).unwrap();
        open(store.files(), 44, &writer.finish().unwrap())
    });
    let runs: Vec<&FingerprintSegment> = runs.iter().collect();
    assert!(runs[0].memory_bytes() as u64 <= runs[0].blocks() * 9 / 2 + 100);
    let mut asked: Vec<u64> = uniform(300, 44, 1).into_iter().chain(uniform(300, 44, 9)).collect();
    asked.sort_unstable();
    // One at a time: exactly one block a run. All of them lie between the runs' ends, and off their ambiguous borders.
    for &fingerprint in &asked {
        device.reset_counts();
        count_many(store.files(), &runs, &[fingerprint << 20], 8, &mut [0]).unwrap();
        assert_eq!(device.io_counts().blocks_read, 3, "{fingerprint:#x}");
    }
    // Together: no block twice, and neighbouring blocks in one read.
    let mut wanted: Vec<(usize, u64)> = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        wanted.extend(asked.iter().flat_map(|&f| run.block_of(f)).map(|block| (i, block)));
    }
    wanted.dedup();
    device.reset_counts();
    let mut counts = vec![0; asked.len()];
    let prefixes: Vec<u64> = asked.iter().map(|fingerprint| fingerprint << 20).collect();
    count_many(store.files(), &runs, &prefixes, 64, &mut counts).unwrap();
    let io = device.io_counts();
    assert_eq!(io.blocks_read, wanted.len() as u64);
    assert!(
        wanted.len() < 3 * asked.len() && io.reads < wanted.len() as u64,
        "{} {}",
        wanted.len(),
        io.reads
    );
    assert_eq!(counts.iter().filter(|&&count| count > 0).count(), 300);
}

#[test]
fn a_miss_reads_no_removals() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let hashes = uniform(200_000, 44, 1);
    let model: Model = hashes.iter().map(|&hash| (hash, 1)).collect();
    let gone: Model = hashes.iter().step_by(3).map(|&hash| (hash, -1)).collect();
    let [inserted, _] = split_of(store.files(), 44, &model);
    let [_, removed] = split_of(store.files(), 44, &gone);
    let runs = [&removed, &inserted];
    let within =
        |hash: &&u64| removed.block_of(**hash).count() == 1 && inserted.block_of(**hash).count() == 1;
    for &hash in uniform(100, 44, 9).iter().filter(within) {
        device.reset_counts();
        let mut counts = [0];
        count_many(store.files(), &runs, &[hash << 20], 8, &mut counts).unwrap();
        assert_eq!((counts, device.io_counts().blocks_read), ([0], 1), "a miss");
    }
    for (i, hash) in hashes.iter().enumerate().skip(3000).take(300).filter(|one| within(&one.1)) {
        device.reset_counts();
        let mut counts = [0];
        count_many(store.files(), &runs, &[hash << 20], 8, &mut counts).unwrap();
        assert_eq!((counts, device.io_counts().blocks_read), ([i64::from(i % 3 != 0)], 2));
    }
}

#[test]
fn questions_out_of_order_are_refused() {
    let store = store();
    let run = run_of(store.files(), 20, &Model::from([(5, 1)]));
    let ask =
        |asked: &[u64], counts: usize| count_many(store.files(), &[&run], asked, 1, &mut vec![0; counts]);
    ask(&[5, 5, 6], 3).unwrap();
    ask(&[], 0).unwrap();
    for (asked, counts) in [(&[6, 5][..], 2), (&[5, 6], 1)] {
        assert!(matches!(ask(asked, counts), Err(Error::InvalidOption { .. })));
    }
}

#[test]
fn false_positives_are_as_rare_as_promised_and_cost_one_block() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    // Hashes of 64 bits, of which runs keep 28: n 2^-28 = 2^-11 of the negative questions meet one of the 2^17 fingerprints.
    let (n, asked) = (1 << 17, 1 << 22);
    let hashes = uniform(n, 64, 1);
    let mut fingerprints: Vec<u64> = hashes.iter().map(|hash| hash >> 36).collect();
    let mut writer = RunWriter::create(store.files(), kind(28), false).unwrap();
    writer.push(&fingerprints).unwrap();
    let run = open(store.files(), 28, &writer.finish().unwrap());
    fingerprints.dedup();
    assert_eq!(run.fingerprints(), fingerprints.len() as u64);
    let negative = uniform(asked, 64, 2);
    let mut counts = vec![0; negative.len()];
    device.reset_counts();
    count_many(store.files(), &[&run], &negative, 32, &mut counts).unwrap();
    assert_eq!(device.io_counts().blocks_read, run.blocks(), "a dense batch reads each block once");
    // 2^22 questions: 2048 expected. Chernoff: more than (1 + d) 2048 with probability exp(-2048 d^2 / (2 + d)) at most, which is
    // 1e-9 for d = 0.148; less than (1 - d) 2048, 1/4096 of which repeat, with 1e-9 for d = 0.143.
    let positive = counts.iter().filter(|&&count| count > 0).count();
    assert!((1754..=2352).contains(&positive), "{positive} of {asked} at 2048 expected");
    // A lone negative question between the run's ends reads one block; its borders are not ambiguous.
    for &hash in negative.iter().step_by(asked as usize / 500) {
        if run.within(&[hash]).is_empty() {
            continue;
        }
        device.reset_counts();
        count_many(store.files(), &[&run], &[hash], 1, &mut [0]).unwrap();
        assert_eq!(device.io_counts().blocks_read, 1, "{hash:#x}");
    }
}

/// A front of a run by a scan of it.
fn scanned(run: &FingerprintSegment, shape: FrontShape) -> Front {
    let mut scan = run.scan_front(shape).unwrap();
    while scan.step(3).unwrap() {}
    scan.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn fronts_change_no_answer(
        (bits, value_bits) in (16u32..=64).prop_flat_map(|bits| (Just(bits), 0u32..9)),
        models in prop::collection::vec(any::<prop::sample::Index>(), 1..4), seeds in models(64),
        bits_a_key in BITS_RANGE, border: u64, probes in prop::collection::vec(any::<u64>(), 0..60),
    ) {
        let store = store();
        let all: Model = seeds.into_iter().map(|(f, count)| (f >> (64 - bits), count)).collect();
        let model: Model = packed::small(all);
        let shape = FrontShape { bits_a_key, value_bits };
        // A run by a scan, others by merges of two ranges, and removals.
        let whole = run_of(store.files(), bits, &model);
        let sources = [Source::Flash(&whole)];
        let border = (border >> (64 - bits)).min(format::fingerprint_max(bits) - 1);
        let options = MergeOptions { front: Some(FrontOrder { shape, bytes_max: 1 << 20 }), ..MergeOptions::default() };
        let pieces: Vec<FingerprintSegment> = [0..=border, border + 1..=u64::MAX].into_iter().filter_map(|range| {
            let merge = Merge::new(store.files(), kind(bits), &sources, range, options).unwrap();
            merge.finish_run(store.files()).unwrap()
        }).collect();
        prop_assert!(pieces.iter().all(|piece| piece.front().is_some() && piece.front_bytes() > 0));
        let [_, removed] = split_of(store.files(), bits, &model);
        let mut asked = probes;
        asked.extend(models.iter().filter(|_| !model.is_empty()).map(|i| *i.get(&listed(&model))).map(|e| e.0 << (64 - bits)));
        asked.extend(model.keys().step_by(5).map(|f| f << (64 - bits) | (f.wrapping_mul(31) & !(u64::MAX << (64 - bits).min(63)))));
        asked.sort_unstable();
        let runs: Vec<&FingerprintSegment> = pieces.iter().chain([&whole, &removed]).collect();
        let answers = |runs: &[&FingerprintSegment]| {
            let mut counts = vec![0; asked.len()];
            count_many(store.files(), runs, &asked, 9, &mut counts).unwrap();
            let sources: Vec<Source<'_>> = runs.iter().copied().map(Source::Flash).collect();
            (counts, values_many(store.files(), &sources, value_bits, &asked, 9).unwrap())
        };
        let with = if value_bits < bits { answers(&runs) } else { return Ok(()) };
        whole.set_front(Some(scanned(&whole, shape)));
        removed.set_front(Some(scanned(&removed, shape)));
        prop_assert_eq!(&answers(&runs), &with);
        for run in &runs {
            let before = run.front_bytes();
            let freed = run.shorten_front(true);
            prop_assert_eq!(run.front_bytes(), before - freed);
        }
        prop_assert_eq!(&answers(&runs), &with);
        runs.iter().for_each(|run| run.set_front(None));
        prop_assert_eq!(&answers(&runs), &with);
    }
}

#[test]
fn a_miss_passes_few_fronts_and_a_hit_reads_about_one_block() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let shape = FrontShape { bits_a_key: 5, value_bits: 0 };
    let runs = [1, 2, 3].map(|seed| {
        let range = 0..=u64::MAX;
        let fingerprints = uniform(200_000, 44, seed);
        let front = FrontBuilder::new(kind(44), shape, &range, fingerprints.len() as u64);
        let mut writer = RunWriter::create(store.files(), kind(44), false).unwrap().with_front(front);
        writer.push(&fingerprints).unwrap();
        let (info, front) = writer.finish_with_front().unwrap();
        let run = open(store.files(), 44, &info);
        run.set_front(front);
        run
    });
    let runs: Vec<&FingerprintSegment> = runs.iter().collect();
    let blocks_of = |prefixes: &[u64]| {
        device.reset_counts();
        for prefix in prefixes {
            count_many(store.files(), &runs, &[*prefix], 8, &mut [0]).unwrap();
        }
        device.io_counts().blocks_read as f64 / prefixes.len() as f64
    };
    let misses: Vec<u64> = uniform(20_000, 64, 9);
    let hits: Vec<u64> = uniform(200_000, 44, 2).iter().step_by(10).map(|f| f << 20).collect();
    // 60,000 questions to a front each pass with 0.093: 5,573, and Chernoff: 1e-9 for 11 % more.
    let (miss, hit) = (blocks_of(&misses), blocks_of(&hits));
    assert!((0.24..=0.31).contains(&miss), "{miss} blocks a miss");
    assert!((1.16..=1.21).contains(&hit), "{hit} blocks a hit");
    // Asked together, no more.
    let mut counts = vec![0; misses.len()];
    device.reset_counts();
    count_many(store.files(), &runs, &misses, 8, &mut counts).unwrap();
    assert!(device.io_counts().blocks_read as f64 <= 0.31 * misses.len() as f64);
    assert!(runs.iter().all(|run| run.front_bytes() <= 200_000 * 5 / 8 + 64));
}
