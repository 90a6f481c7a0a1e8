//! Packed runs in RAM against ordered maps.

use super::*;
use crate::Error;

/// A packed run of `model`, whose counts are not large.
pub(super) fn packed(bits: u32, model: &Model) -> Arc<PackedRun> {
    Arc::new(PackedRun::merge(kind(bits), &packed_sides(bits, model)).unwrap())
}

/// Packed runs of its insertions and of its removals.
pub(super) fn packed_sides(bits: u32, model: &Model) -> [Arc<PackedRun>; 2] {
    [kind(bits), removals(bits)].map(|kind| {
        let times =
            |(fingerprint, count): (u64, i64)| std::iter::repeat_n(fingerprint, count.min(9) as usize);
        let repeated: Vec<u64> = split(model, kind.sign).into_iter().flat_map(times).collect();
        Arc::new(PackedRun::new(kind, &repeated).unwrap())
    })
}

/// With counts that insertions and removals can come to.
pub(super) fn small(mut model: Model) -> Model {
    model.values_mut().for_each(|count| *count = (*count).clamp(-9, 9));
    model
}

pub(super) fn entries_of(run: &Arc<PackedRun>, range: std::ops::RangeInclusive<u64>) -> Vec<(u64, i64)> {
    let (mut entries, mut cursor) = (Entries::default(), run.cursor(range));
    while cursor.next_block(&mut entries).unwrap() {}
    entries.iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_packed_run_is_the_sum_of_insertions_and_removals(
        (bits, inserts, removals) in (16u32..=64).prop_flat_map(|bits| (Just(bits), fingerprints(bits), fingerprints(bits))),
        taken in 1usize..9, ends: [u64; 2],
    ) {
        // Some of the removals take what was inserted.
        let mut removals = removals;
        removals.extend(inserts.iter().step_by(taken));
        removals.sort_unstable();
        let mut model = Model::new();
        inserts.iter().for_each(|&fingerprint| *model.entry(fingerprint).or_default() += 1);
        removals.iter().for_each(|&fingerprint| *model.entry(fingerprint).or_default() -= 1);
        model.retain(|_, &mut count| count != 0);
        let sides = [PackedRun::new(kind(bits), &inserts), PackedRun::new(super::removals(bits), &removals)];
        let sides = sides.map(|side| Arc::new(side.unwrap()));
        let one_by_one = Arc::new(PackedRun::of_ascending(kind(bits), inserts.iter().copied()).unwrap());
        prop_assert_eq!(entries_of(&one_by_one, 0..=u64::MAX), entries_of(&sides[0], 0..=u64::MAX));
        let totals = sides.each_ref().map(|side| (side.tombstones(), side.occurrences()));
        prop_assert_eq!(totals, [(0, inserts.len() as u64), (0, removals.len() as u64)]);
        let run = Arc::new(PackedRun::merge(kind(bits), &sides).unwrap());
        prop_assert_eq!(entries_of(&run, 0..=u64::MAX), listed(&model));
        let tombstones = model.values().filter(|&&count| count < 0).count() as u64;
        let occurrences: i64 = model.values().map(|&count| count.max(0)).sum();
        prop_assert_eq!((run.fingerprints(), run.tombstones()), (model.len() as u64, tombstones));
        prop_assert_eq!(run.occurrences(), occurrences as u64);
        let (first, last) = (model.keys().next(), model.keys().next_back());
        prop_assert_eq!(run.range(), first.zip(last).map(|(&first, &last)| first..=last));
        let ends = ends.map(|end| end & format::fingerprint_max(bits));
        let within: Vec<(u64, i64)> = (listed(&model).into_iter())
            .filter(|entry| (ends[0]..=ends[1]).contains(&entry.0))
            .collect();
        prop_assert_eq!(entries_of(&run, ends[0]..=ends[1]), within);
    }

    #[test]
    fn a_packed_run_finds_what_is_there(
        (bits, model) in (16u32..=64).prop_flat_map(|bits| (Just(bits), models(bits).prop_map(small))),
        probes in prop::collection::vec(any::<u64>(), 0..100), stride in 1usize..200,
    ) {
        let run = packed(bits, &model);
        let mut asked = probes;
        let near = |&fingerprint: &u64| [fingerprint, fingerprint.saturating_sub(1), fingerprint];
        asked.extend(model.keys().step_by(stride).flat_map(near).map(|fingerprint| fingerprint << (64 - bits)));
        asked.sort_unstable();
        let expected: Vec<i64> =
            asked.iter().map(|prefix| 3 + model.get(&(prefix >> (64 - bits))).copied().unwrap_or(0)).collect();
        for runs in [vec![run], packed_sides(bits, &model).to_vec()] {
            let mut counts = vec![3; asked.len()];
            runs.iter().for_each(|run| run.count_many(&asked, &mut counts).unwrap());
            prop_assert_eq!(&counts, &expected);
            for has_front in [false, true] {
                prop_assert!(runs.iter().all(|run| run.has_front() == has_front || run.range().is_none()));
                let one_by_one = asked.iter().map(|&prefix| 3 + runs.iter().map(|run| run.count(prefix).unwrap()).sum::<i64>());
                prop_assert_eq!(&one_by_one.collect::<Vec<_>>(), &expected);
                let before: Vec<usize> = runs.iter().map(|run| run.memory_bytes()).collect();
                runs.iter().for_each(|run| run.make_front(FrontShape { bits_a_key: 8, value_bits: 0 }).unwrap());
                let has_more = |(run, before): (&Arc<PackedRun>, &usize)| has_front || run.range().is_none() || run.memory_bytes() > *before;
                prop_assert!(runs.iter().zip(&before).all(has_more));
                runs.iter().for_each(|run| run.prefetch(asked.first().copied().unwrap_or(0)));
            }
        }
    }
}

#[test]
fn a_packed_run_is_as_long_as_its_fingerprints() {
    for (n, bits) in [(1_500_000, 24), (1_500_000, 44), (20_000, 40), (100, 64), (0, 16)] {
        let fingerprints = uniform(n, bits, 7);
        let run = Arc::new(PackedRun::new(kind(bits), &fingerprints).unwrap());
        assert_eq!(run.fingerprints(), fingerprints.len() as u64);
        let r = f64::from(bits) - (fingerprints.len().max(1) as f64).log2();
        let keys = fingerprints.len() as f64;
        let most = keys * (r + 2.3) / 8.0 + 300.0;
        assert!(run.memory_bytes() as f64 <= most, "{n} of {bits}: {} of {most}", run.memory_bytes());
        assert_eq!(entries_of(&run, 0..=u64::MAX).len(), fingerprints.len());
    }
}

#[test]
fn what_is_out_of_order_or_too_long_is_refused() {
    let refused = |fingerprints: &[u64]| {
        let one_by_one = PackedRun::of_ascending(kind(16), fingerprints.iter().copied());
        let all = PackedRun::new(kind(16), fingerprints);
        assert_eq!(one_by_one.is_err(), all.is_err());
        matches!((all, one_by_one), (Err(Error::InvalidOption { .. }), Err(Error::InvalidOption { .. })))
    };
    assert!(!refused(&[1, 1, 5]) && !refused(&[1, 1 << 15]));
    assert!(refused(&[2, 1]) && refused(&[1 << 16]));
    // Out of order in a window, over its end, and before the least of all.
    let ascending: Vec<u64> = (0..40_000).collect();
    for (at, other) in [(5, 3), (20_000, 16_000), (16_383, 60_000), (39_999, 0), (16_384, 0)] {
        let mut wrong = ascending.clone();
        wrong[at] = other;
        assert!(refused(&wrong), "{other} at {at}");
    }
    assert!(PackedRun::new(kind(65), &[]).is_err());
    let run = packed(16, &Model::from([(1, 1)]));
    assert!(run.count_many(&[2, 1], &mut [0; 2]).is_err() && run.count_many(&[1, 2], &mut [0]).is_err());
}

/// Fingerprints in a heap or two, where a guess by an even spread is far off.
#[test]
fn a_packed_run_finds_fingerprints_however_they_are_spread() {
    let heaps = [0u64, 1 << 20, (1 << 50) - 40_000];
    let fingerprints: Vec<u64> =
        heaps.iter().flat_map(|heap| (0..40_000).map(move |i| heap + i)).filter(|one| one % 3 != 1).collect();
    let run = PackedRun::new(kind(50), &fingerprints).unwrap();
    for one in heaps.iter().flat_map(|heap| (heap.saturating_sub(5)..heap + 40_005).step_by(7)) {
        if one >> 50 != 0 {
            continue;
        }
        let expected = i64::from(fingerprints.binary_search(&one).is_ok());
        assert_eq!(run.count(one << 14).unwrap(), expected, "{one:#x}");
    }
}
