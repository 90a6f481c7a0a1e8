//! Merges against sums of ordered maps, whole and in steps.

use super::*;

fn sum(models: &[Model], is_oldest: bool) -> Model {
    let mut sum = Model::new();
    for (&fingerprint, &count) in models.iter().flatten() {
        let total = sum.entry(fingerprint).or_default();
        *total = (*total + count).clamp(-format::COUNT_MAX, format::COUNT_MAX);
    }
    sum.retain(|_, &mut count| if is_oldest { count > 0 } else { count != 0 });
    sum
}

fn merge(
    store: &Store,
    bits: u32,
    runs: &[&FingerprintSegment],
    options: MergeOptions,
    steps: Option<u64>,
) -> FingerprintSegment {
    let sources: Vec<Source<'_>> = runs.iter().copied().map(Source::Flash).collect();
    let mut merge = Merge::new(store.files(), kind(bits), &sources, 0..=u64::MAX, options).unwrap();
    if let Some(budget) = steps {
        while merge.step(budget).unwrap() {}
        assert!(!merge.step(budget).unwrap(), "it stays at its end");
    }
    open(store.files(), bits, &merge.finish().unwrap())
}

/// Runs that share fingerprints, and tombstones of each other's.
fn family(bits: u32) -> impl Strategy<Value = Vec<Model>> {
    (prop::collection::vec(models(bits), 2..=8), any::<[bool; 8]>()).prop_map(|(mut models, takes)| {
        for i in 1..models.len() {
            if takes[i] {
                let others: Vec<(u64, i64)> =
                    models[i - 1].iter().step_by(2).map(|(&f, &c)| (f, -c)).collect();
                models[i].extend(others);
            }
        }
        models
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn a_merge_is_the_sum_of_its_runs(
        (bits, models) in (16u32..=64).prop_flat_map(|bits| (Just(bits), family(bits))),
        is_oldest: bool, is_threaded: bool, steps in prop::option::of(0u64..20),
    ) {
        let store = store();
        let runs: Vec<FingerprintSegment> = models.iter().map(|model| run_of(store.files(), bits, model)).collect();
        let runs: Vec<&FingerprintSegment> = runs.iter().collect();
        let merged = merge(&store, bits, &runs, MergeOptions { is_oldest, is_ahead: is_threaded, is_behind: is_threaded, front: None }, steps);
        let expected = sum(&models, is_oldest);
        prop_assert_eq!(read(&merged, false).unwrap(), listed(&expected));
        merged.verify().unwrap();
        // The same run as if the sum had been written at once, however it was merged.
        let at_once = run_of(store.files(), bits, &expected);
        let bodies = [&merged, &at_once].map(|run| {
            let mut bytes = run.segment.meta().to_vec();
            let mut scan = run.segment.scan(0..run.blocks()).unwrap();
            while let Some((_, body)) = scan.next_block().unwrap() {
                bytes.extend_from_slice(body);
            }
            bytes
        });
        prop_assert!(bodies[0] == bodies[1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn insertions_and_removals_annihilate(
        (bits, models) in (16u32..=64).prop_flat_map(|bits| (Just(bits), family(bits))),
        on_flash: [bool; 8], is_oldest: bool, steps in prop::option::of(0u64..20), is_signed: [bool; 8],
    ) {
        let store = store();
        let models: Vec<Model> = models.into_iter().map(packed::small).collect();
        // Some are of one run, as version 1 wrote them, some of two; the latter on flash or in RAM.
        let runs: Vec<Vec<FingerprintSegment>> = (models.iter().zip(is_signed))
            .map(|(model, is_signed)| match is_signed {
                true => vec![run_of(store.files(), bits, model)],
                false => split_of(store.files(), bits, model).into(),
            })
            .collect();
        let mut sources: Vec<Source<'_>> = Vec::new();
        for ((runs, model), on_flash) in runs.iter().zip(&models).zip(on_flash) {
            match on_flash {
                true => sources.extend(runs.iter().map(Source::Flash)),
                false => sources.extend(packed::packed_sides(bits, model).map(Source::Memory)),
            }
        }
        let expected = sum(&models, is_oldest);
        let options = MergeOptions { is_oldest, ..MergeOptions::default() };
        let mut merge = Merge::new(store.files(), kind(bits), &sources, 0..=u64::MAX, options).unwrap();
        if let Some(budget) = steps {
            while merge.step(budget).unwrap() {}
        }
        let info = merge.finish().unwrap();
        let tombstones = expected.values().filter(|&&count| count < 0).count() as u64;
        prop_assert_eq!((info.fingerprints, info.tombstones), (expected.len() as u64, tombstones));
        prop_assert_eq!(read(&open(store.files(), bits, &info), false).unwrap(), listed(&expected));
        let (mut all, mut cursor) = (Entries::default(), MergedCursor::new(kind(bits), &sources).unwrap());
        while cursor.next_window(&mut all).unwrap() {}
        prop_assert_eq!(all.iter().collect::<Vec<_>>(), listed(&sum(&models, false)));
        // Removals by themselves are plain sums.
        let only: Vec<Source<'_>> =
            sources.into_iter().filter(|source| source.kind().sign == Sign::Removals).collect();
        let removed: Vec<Model> = (models.iter().zip(is_signed).zip(on_flash))
            .filter(|((_, is_signed), on_flash)| !(*is_signed && *on_flash))
            .map(|((model, _), _)| split(model, Sign::Removals))
            .collect();
        let info = Merge::new(store.files(), removals(bits), &only, 0..=u64::MAX, MergeOptions::default());
        let info = info.unwrap().finish().unwrap();
        let merged = FingerprintSegment::open(store.files(), &info.file, removals(bits)).unwrap();
        prop_assert_eq!(read(&merged, false).unwrap(), listed(&sum(&removed, false)));
        merged.verify().unwrap();
    }

    #[test]
    fn pieces_of_a_level_are_together_the_sum_of_flash_and_memory(
        (bits, models) in (16u32..=64).prop_flat_map(|bits| (Just(bits), family(bits))),
        on_flash: [bool; 8], borders in prop::collection::vec(any::<u64>(), 0..4), is_oldest: bool,
    ) {
        let store = store();
        let models: Vec<Model> = models.into_iter().map(packed::small).collect();
        let runs: Vec<FingerprintSegment> = models.iter().map(|model| run_of(store.files(), bits, model)).collect();
        let sources: Vec<Source<'_>> = (runs.iter().zip(&models).zip(on_flash))
            .map(|((run, model), on_flash)| match on_flash {
                true => Source::Flash(run),
                false => Source::Memory(packed::packed(bits, model)),
            })
            .collect();
        // Borders where fingerprints are, too.
        let mut borders: Vec<u64> = borders.into_iter().map(|border| border >> (64 - bits)).collect();
        borders.extend(models[0].keys().step_by(700).copied());
        borders.sort_unstable();
        borders.dedup();
        let starts = std::iter::once(0).chain(borders.iter().map(|border| border + 1));
        let ends = borders.iter().copied().chain([u64::MAX]);
        let mut whole = Vec::new();
        for (start, end) in starts.zip(ends) {
            let options = MergeOptions { is_oldest, ..MergeOptions::default() };
            let merge = Merge::new(store.files(), kind(bits), &sources, start..=end, options).unwrap();
            whole.extend(read(&open(store.files(), bits, &merge.finish().unwrap()), false).unwrap());
        }
        prop_assert_eq!(whole, listed(&sum(&models, is_oldest)));
    }

    #[test]
    fn packed_runs_merge_to_their_sum(
        (bits, models) in (16u32..=64).prop_flat_map(|bits| (Just(bits), family(bits))),
    ) {
        let models: Vec<Model> = models.into_iter().map(packed::small).collect();
        let runs: Vec<_> = models.iter().map(|model| packed::packed(bits, model)).collect();
        let merged = Arc::new(PackedRun::merge(kind(bits), &runs).unwrap());
        let expected = sum(&models, false);
        prop_assert_eq!(packed::entries_of(&merged, 0..=u64::MAX), listed(&expected));
        let inserted: i64 = expected.values().map(|&count| count.max(0)).sum();
        prop_assert_eq!((merged.fingerprints(), merged.occurrences()), (expected.len() as u64, inserted as u64));
    }
}

/// Mostly 1; tombstones, and several occurrences.
fn count_of(random: u64) -> i64 {
    match random % 8 {
        0 => -1,
        1 => 3,
        _ => 1,
    }
}

#[test]
fn a_hundred_packed_runs_merge_in_little_memory() {
    let models: Vec<Model> = (1..=128)
        .map(|seed| uniform(4000, 18, seed).into_iter().map(|f| (f, count_of(f ^ seed))).collect())
        .collect();
    let runs: Vec<_> = models.iter().map(|model| packed::packed(40, model)).collect();
    let merged = Arc::new(PackedRun::merge(kind(40), &runs).unwrap());
    let expected = sum(&models, false);
    assert_eq!(packed::entries_of(&merged, 0..=u64::MAX), listed(&expected));
    let store = store();
    let sources: Vec<Source<'_>> = runs.into_iter().map(Source::Memory).collect();
    let mut merge =
        Merge::new(store.files(), kind(40), &sources, 0..=u64::MAX, MergeOptions::default()).unwrap();
    let mut steps = 0;
    while merge.step(1).unwrap() {
        steps += 1;
    }
    // A step takes half a block of each run, or more.
    assert!(steps <= 2 * 4000 / 1024 + 1, "{steps}");
    assert_eq!(read(&open(store.files(), 40, &merge.finish().unwrap()), false).unwrap(), listed(&expected));
}

#[test]
fn a_merge_of_a_range_reads_its_blocks_only() {
    let device = crate::device::sim::SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let run = run_of(store.files(), 40, &uniform(400_000, 40, 1).into_iter().map(|f| (f, 1)).collect());
    device.reset_counts();
    let eighth = 1u64 << 37;
    for i in 0..8 {
        let range = i * eighth..=(i + 1) * eighth - 1;
        let options = MergeOptions::default();
        Merge::new(store.files(), kind(40), &[Source::Flash(&run)], range, options)
            .unwrap()
            .finish()
            .unwrap();
    }
    let read = device.io_counts().blocks_read;
    assert!(read >= run.blocks() && read <= run.blocks() + 7, "{read} of {}", run.blocks());
    // A range without fingerprints, or none at all.
    #[allow(clippy::reversed_empty_ranges)]
    for range in [5..=4, 1 << 40..=u64::MAX] {
        let mut cursor = run.cursor_within(range, false).unwrap();
        assert!(!cursor.next_block(&mut Entries::default()).unwrap());
    }
}

#[test]
fn runs_of_many_blocks_and_other_sizes_merge() {
    let store = store();
    let models: Vec<Model> = [60_000, 15_000, 4000, 1000, 10]
        .iter()
        .zip(1..)
        .map(|(&n, seed)| {
            uniform(n, 22, seed).into_iter().map(|f| (f, if f % 11 == seed { -1 } else { 1 })).collect()
        })
        .collect();
    let runs: Vec<FingerprintSegment> = models.iter().map(|model| run_of(store.files(), 22, model)).collect();
    let runs: Vec<&FingerprintSegment> = runs.iter().collect();
    for is_oldest in [false, true] {
        let options = MergeOptions { is_oldest, is_ahead: true, is_behind: true, front: None };
        let merged = merge(&store, 22, &runs, options, Some(3));
        assert_eq!(read(&merged, true).unwrap(), listed(&sum(&models, is_oldest)));
    }
    let whole = merge(&store, 22, &runs[..1], MergeOptions::default(), None);
    assert_eq!(read(&whole, false).unwrap(), listed(&models[0]));
    let nothing = merge(&store, 22, &[], MergeOptions::default(), None);
    assert_eq!((nothing.fingerprints(), nothing.blocks()), (0, 0));
}

#[test]
fn a_step_reads_about_its_budget() {
    let device = crate::device::sim::SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let models = [1, 2].map(|seed| uniform(400_000, 40, seed).into_iter().map(|f| (f, 1)).collect::<Model>());
    let runs = models.each_ref().map(|model| run_of(store.files(), 40, model));
    let sources = [Source::Flash(&runs[0]), Source::Flash(&runs[1])];
    let mut merge =
        Merge::new(store.files(), kind(40), &sources, 0..=u64::MAX, MergeOptions::default()).unwrap();
    let (mut steps, mut most) = (0, 0);
    device.reset_counts();
    let mut before = 0;
    while merge.step(64).unwrap() {
        assert!(merge.progress().blocks >= 64 * (steps + 1));
        let read = device.io_counts().blocks_read;
        (steps, most, before) = (steps + 1, most.max(read - before), read);
    }
    let whole = Progress { fingerprints: 800_000, blocks: runs[0].blocks() + runs[1].blocks() };
    assert_eq!(merge.progress(), whole);
    merge.finish().unwrap();
    let read = device.io_counts().blocks_read;
    assert_eq!(read, runs[0].blocks() + runs[1].blocks(), "each block is read once");
    // A step decodes its budget and 4 blocks of each run at most; a cursor reads 64 blocks at a time.
    assert!(most <= 64 + 8 + 2 * 64, "{most}");
    assert!(steps >= read / (64 + 8) && steps <= read / 64, "{steps} of {read}");
}

#[test]
fn a_dropped_merge_leaves_no_file() {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let model: Model = uniform(2_000_000, 40, 1).into_iter().map(|f| (f, 1)).collect();
    let run = run_of(store.files(), 40, &model);
    let before = device.list().unwrap();
    let sources = [Source::Flash(&run), Source::Flash(&run)];
    for is_threaded in [false, true] {
        let options =
            MergeOptions { is_oldest: true, is_ahead: is_threaded, is_behind: is_threaded, front: None };
        let mut merge = Merge::new(store.files(), kind(40), &sources, 0..=u64::MAX, options).unwrap();
        assert!(merge.step(600).unwrap());
        assert_ne!(device.list().unwrap(), before);
        drop(merge);
        assert_eq!(device.list().unwrap(), before);
    }
}

#[test]
fn insertions_have_no_place_among_removals() {
    let store = store();
    let [inserted, removed] = split_of(store.files(), 40, &Model::from([(1, 1), (5, -2)]));
    let merge = |kind, run| {
        Merge::new(store.files(), kind, &[Source::Flash(run)], 0..=u64::MAX, MergeOptions::default())
    };
    assert!(matches!(merge(removals(40), &inserted), Err(crate::Error::Incompatible { .. })));
    let alone = merge(kind(40), &removed).unwrap().finish().unwrap();
    assert_eq!(read(&open(store.files(), 40, &alone), false).unwrap(), [(5, -2)]);
}
