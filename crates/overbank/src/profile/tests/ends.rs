//! Weights and values at the ends of their types, beside exact sums of 128 bits and sorted values: in RAM and on flash, through
//! resumes and merges.

use super::*;
use crate::device::Device;
use crate::frequency::FrequencyOptions;

/// A row: key, weight, value.
type Row = (u16, u64, f64);

/// Rows in memory, with values of their own.
struct Ends(KeyHasher);

impl Parse for Ends {
    type Chunk = Vec<Row>;
    type Rows = SliceRows;
    type Error = crate::Error;

    fn parse(&self, chunk: Self::Chunk, rows: &mut SliceRows) -> Result<()> {
        rows.keys = chunk.iter().map(|row| row.0.to_be_bytes().to_vec()).collect();
        rows.hashes = rows.keys.iter().map(|key| self.0.hash(key)).collect();
        rows.weights = chunk.iter().map(|row| row.1).collect();
        rows.values = Some(chunk.iter().map(|row| row.2).collect());
        Ok(())
    }
}

/// Where a profile's counts are besides its slots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ram,
    Flash { cell_bits: u32, is_conservative: bool },
}

fn kind() -> impl Strategy<Value = Kind> {
    let flash = |cell_bits, is_conservative| Just(Kind::Flash { cell_bits, is_conservative });
    prop_oneof![4 => Just(Kind::Ram), 1 => flash(32, false), 1 => flash(64, false), 1 => flash(8, false), 1 => flash(64, true), 1 => flash(32, true)]
}

fn weight() -> impl Strategy<Value = u64> {
    let ends = prop::sample::select(vec![
        0,
        1,
        u64::from(u32::MAX) - 1,
        u64::from(u32::MAX),
        1 << 32,
        (1 << 32) + 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ]);
    // Most streams have sums of less than 2^64.
    prop_oneof![4 => 1u64..2_000_000_000, 4 => 0u64..1 << 40, 1 => ends, 1 => Just(0), 2 => Just(1)]
}

fn value() -> impl Strategy<Value = f64> {
    let ends = prop::sample::select(vec![
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -1e-310,
    ]);
    prop_oneof![ends, any::<f64>().prop_filter("finite", |value| value.is_finite()), -1e5f64..-1e3]
}

/// Few keys fit the slots of the profile, or many do not.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let keys = prop_oneof![Just(1u16), Just(20), Just(2000)];
    (keys, any::<bool>()).prop_flat_map(|(keys, small)| {
        let weight = if small { (0u64..1 << 33).boxed() } else { weight().boxed() };
        prop::collection::vec((0..keys, weight, value()), 1..700)
    })
}

/// A profile of so few slots and cells that keys meet.
fn crowded(kind: Kind, store: &Store) -> Profile {
    let crowd = |plan| ProfilePlan { count_bytes: SHARDS * 4080, heavy_capacity: 3, ..plan };
    let mut options = of(kind);
    options.crowd = Some(crowd);
    store.profile("profile", options).unwrap()
}

/// A profile of the plan's own shapes.
fn of(kind: Kind) -> ProfileOptions {
    let options = ProfileOptions::new().measure(Measure::Value);
    match kind {
        Kind::Ram => options.memory_bytes(MEMORY_BYTES_MIN),
        Kind::Flash { cell_bits, is_conservative } => {
            let flash = FrequencyOptions::new().bytes(64 << 10, 3).pending(2);
            let flash = flash.cell_bits(cell_bits).conservative(is_conservative);
            options.memory_bytes(FLASH_MEMORY_BYTES_MIN).flash(flash)
        }
    }
}

fn options() -> StoreOptions {
    StoreOptions::new().seed(Seed(7)).memory_bytes(FLASH_MEMORY_BYTES_MIN as usize)
}

fn count_rows(profile: &Profile, parser: &Ends, rows: &[Row]) {
    let mut chunks = rows.chunks(97).map(<[Row]>::to_vec);
    profile.update(2, parser, || Ok(chunks.next())).unwrap();
}

/// A store that `fill` filled and that was committed, to be read.
fn source(fill: impl FnOnce(&Store)) -> Store {
    source_of(7, fill)
}

fn source_of(seed: u128, fill: impl FnOnce(&Store)) -> Store {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone() as Arc<dyn Device>, options().seed(Seed(seed))).unwrap();
    fill(&store);
    store.commit(b"").unwrap();
    drop(store);
    Store::open_read_only_on(device, StoreOptions::new()).unwrap()
}

/// Nothing that the profile says is false of these rows.
fn check(profile: &Profile, parser: &Ends, rows: &[Row]) -> std::result::Result<(), TestCaseError> {
    let mut exact = HashMap::<u16, u128>::new();
    for &(key, weight, _) in rows {
        *exact.entry(key).or_default() += u128::from(weight);
    }
    let total = exact.values().sum::<u128>();
    let report = profile.report(usize::MAX, &RANKS).unwrap();
    prop_assert_eq!((report.rows, report.weight), (rows.len() as u64, total));

    let distinct = report.distinct;
    prop_assert!(distinct.lower <= distinct.estimate && distinct.estimate <= distinct.upper);
    prop_assert!(
        !distinct.exact || distinct.estimate == exact.len() as f64,
        "{:?} of {}",
        distinct,
        exact.len()
    );
    prop_assert_eq!(distinct.exact, report.heavy_threshold == 0 && profile.holds_every_key().unwrap());
    let (least, most) = report.repeat_share_bounds();
    prop_assert!(least <= report.repeat_share() && report.repeat_share() <= most);

    let keys: Vec<u16> = exact.keys().copied().collect();
    let hashes: Vec<_> = keys.iter().map(|key| parser.0.hash(&key.to_be_bytes())).collect();
    let mut below_lower = 0;
    for ((key, bounds), hash) in keys.iter().zip(profile.estimates(&hashes).unwrap()).zip(&hashes) {
        let truth = exact[key];
        let saturated = bounds.saturated();
        prop_assert!(saturated || truth <= u128::from(bounds.upper), "{} {:?}", truth, bounds);
        prop_assert!(!saturated || total >= u128::from(u64::MAX), "{:?} of {} in all", bounds, total);
        prop_assert!(bounds.lower <= bounds.estimate && bounds.estimate <= bounds.upper);
        let is_below = truth < u128::from(bounds.lower);
        prop_assert!(!is_below || bounds.lower_confidence < 1.0, "{} {:?}", truth, bounds);
        below_lower += usize::from(is_below);
        prop_assert!(!distinct.exact || saturated || truth == u128::from(bounds.estimate));
        let heavy = report.heavy.iter().find(|heavy| heavy.hash == *hash);
        let threshold = report.heavy_threshold;
        prop_assert!(
            heavy.is_some() || threshold == u64::MAX || truth <= u128::from(threshold),
            "{} {}",
            truth,
            threshold
        );
        prop_assert!(heavy.is_none_or(|heavy| heavy.lower == bounds.lower && heavy.upper == bounds.upper));
    }
    // The promise is 1 in 20; five standard deviations above, were keys independent.
    let allowed = keys.len() as f64 / 20.0 + 5.0 * (keys.len() as f64 / 20.0).sqrt();
    prop_assert!(below_lower as f64 <= allowed, "{} of {}", below_lower, keys.len());

    let mut values: Vec<f64> = rows.iter().map(|row| row.2).collect();
    values.sort_by(|a, b| a.total_cmp(b));
    prop_assert_eq!(report.values.range, Some((values[0] + 0.0, values[values.len() - 1] + 0.0)));
    let mean = report.values.mean.unwrap();
    prop_assert!(values[0] <= mean && mean <= values[values.len() - 1]);
    for (rank, found) in report.values.quantiles {
        let truth = values[(rank * (values.len() - 1) as f64) as usize];
        // Halves do not overflow; below 1e-300 they are scaled up instead, so that they keep all digits.
        let scale = if truth.abs() < 1e-300 { 2f64.powi(900) } else { 0.5 };
        let error = (found * scale - truth * scale).abs();
        prop_assert!(error <= truth.abs() * scale * 0.01, "{} is {}, not {}", rank, found, truth);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nothing_is_false_through_a_resume(rows in rows(), kind in kind(), stop in 0usize..700) {
        let (first, rest) = rows.split_at(stop.min(rows.len()));
        let device = Arc::new(MemoryDevice::new());
        let store = Store::create_on(device.clone() as Arc<dyn Device>, options()).unwrap();
        let parser = Ends(store.hasher());
        let shared = crowded(kind, &store);
        count_rows(&shared, &parser, first);
        store.commit(b"here").unwrap();
        drop((shared, store));
        let store = Store::open_on(device, options()).unwrap();
        let resumed = stored_in(&store);
        count_rows(&resumed, &parser, rest);
        check(&resumed, &parser, &rows)?;
    }

    #[test]
    fn nothing_is_false_through_merges(parts in prop::collection::vec(rows(), 1..4), more in rows(), kind in kind()) {
        // Conservative sketches do not add up.
        let kind = match kind {
            Kind::Flash { cell_bits, .. } => Kind::Flash { cell_bits, is_conservative: false },
            Kind::Ram => kind,
        };
        let device = Arc::new(MemoryDevice::new());
        let store = Store::create_on(device.clone() as Arc<dyn Device>, options()).unwrap();
        let parser = Ends(store.hasher());
        let target = crowded(kind, &store);
        for rows in &parts {
            let source = source(|store| {
                let profile = crowded(kind, store);
                count_rows(&profile, &parser, rows);
            });
            target.merge_from(&source, "profile").unwrap();
        }
        let mut all = parts.concat();
        check(&target, &parser, &all)?;
        store.commit(b"merged").unwrap();
        drop((target, store));
        let store = Store::open_on(device, options()).unwrap();
        let resumed = stored_in(&store);
        check(&resumed, &parser, &all)?;
        // What comes behind a merge is counted as ever.
        count_rows(&resumed, &parser, &more);
        all.extend(more);
        check(&resumed, &parser, &all)?;
    }
}

/// 60,000 keys of 1.2e9 to 1.26e9 seven times: each cell counts past 2^32.
#[test]
fn counts_above_32_bits_keep_their_bounds_and_are_not_lost() {
    let rows: Vec<Row> = (0..7 * 6000u64)
        .map(|i| ((i * 7919 + i / 6000 * 131) % 6000, 0.5))
        .map(|(key, value)| (key as u16, 1_200_000_000 + key, value))
        .collect();
    for kind in [Kind::Ram, Kind::Flash { cell_bits: 32, is_conservative: false }] {
        let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
        let parser = Ends(store.hasher());
        let profile = crowded(kind, &store);
        count_rows(&profile, &parser, &rows);
        check(&profile, &parser, &rows).unwrap();
    }
}

#[test]
fn a_profile_merges_only_with_its_like_and_can_be_made_so() {
    let place = || Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    let flash = |is_conservative| Kind::Flash { cell_bits: 8, is_conservative };
    let filled = |seed, kind| source_of(seed, |store| drop(crowded(kind, store)));
    let ram = place();
    let target = crowded(Kind::Ram, &ram);
    for source in [filled(7, flash(false)), filled(8, Kind::Ram)] {
        let error = target.merge_from(&source, "profile").unwrap_err();
        assert!(matches!(error, crate::Error::Incompatible { .. }), "{error}");
    }

    let (conservative, beside) = (filled(7, flash(true)), place());
    let stored = |source: &Store| ProfileOptions::stored(source, "profile").unwrap();
    let like = beside.profile("profile", stored(&conservative)).unwrap();
    let error = like.merge_from(&conservative, "profile").unwrap_err();
    assert!(matches!(error, crate::Error::InvalidOption { .. }), "{error}");

    // Of the plan's own shapes, in RAM and on flash.
    let parser = Ends(ram.hasher());
    let rows: Vec<Row> = (0..9000u16).map(|key| (key, u64::from(key) << 30, f64::from(key))).collect();
    for kind in [Kind::Ram, flash(false)] {
        let source = source(|store| {
            count_rows(&store.profile("profile", of(kind)).unwrap(), &parser, &rows);
        });
        let place = place();
        let merged = place.profile("profile", stored(&source)).unwrap();
        merged.merge_from(&source, "profile").unwrap();
        merged.merge_from(&source, "profile").unwrap();
        check(&merged, &parser, &[rows.clone(), rows.clone()].concat()).unwrap();
        place.commit(b"").unwrap();
    }
}
