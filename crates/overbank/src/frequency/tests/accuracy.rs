//! Errors against their bounds, and what the few bits of a record cost. Every limit is passed by a right sketch except with
//! a probability below 1e-9, which each test derives.

use super::*;
use crate::frequency::shape::Shape;
use crate::sketch::count_min::Layout;

const PAGES: u64 = 1024;

/// A sketch of 1024 pages that holds `updates`, and one key of each page with its count, chosen without looking at the sketch.
fn filled(
    options: FrequencyOptions,
    updates: impl Fn(&Store) -> Vec<(KeyHash, u64)>,
) -> (Vec<(KeyHash, u64)>, Frequency) {
    let store = Store::in_memory(store_options()).unwrap();
    let sketch = store.frequency("f", options.bytes(PAGES << 12, 5).group_pages(128).memory_bytes(8 << 20));
    let sketch = sketch.unwrap();
    let (mut one_a_page, mut taken) = (Vec::new(), vec![false; PAGES as usize]);
    let updates = updates(&store);
    for &(hash, weight) in &updates {
        if !std::mem::replace(&mut taken[keyhash::range_of(hash.high(), PAGES) as usize], true) {
            one_a_page.push((hash, weight));
        }
    }
    let (hashes, weights): (Vec<KeyHash>, Vec<u64>) = updates.into_iter().unzip();
    sketch.update(&hashes, Some(&weights)).unwrap();
    assert!(one_a_page.len() as u64 > PAGES * 9 / 10);
    (one_a_page, sketch)
}

/// How many of the keys have a lower bound above their count. Keys of different pages fail independently.
fn failures(keys: &[(KeyHash, u64)], sketch: &Frequency, confidence: f64) -> usize {
    let hashes: Vec<KeyHash> = keys.iter().map(|key| key.0).collect();
    let bounds = sketch.bounds(&hashes, confidence).unwrap();
    assert!(keys.iter().zip(&bounds).all(|(key, bounds)| key.1 <= bounds.estimate));
    keys.iter().zip(&bounds).filter(|(key, bounds)| key.1 < bounds.lower).count()
}

#[test]
fn lower_bounds_hold_as_often_as_they_say_on_random_and_on_skewed_streams() {
    let random =
        |store: &Store, n: u64| keys(store, 0..PAGES * n).into_iter().map(|hash| (hash, 1)).collect();
    // Each page has a few keys that weigh a thousand times more than the others.
    let skewed = |store: &Store, n: u64| {
        let all = keys(store, 0..PAGES * n).into_iter();
        all.enumerate().map(|(i, hash)| (hash, if i % 20 == 19 { 1000 } else { 1 })).collect()
    };
    let all = [
        (small(), 150),
        (small().cell_bits(8), 400),
        (small().cell_bits(8).conservative(true), 200),
        (small().cell_bits(4), 400),
    ];
    // At 0.5 and 1024 keys, failures are at most binomial with mean 512 and deviation 16: 512 + 6.2 * 16 at 1e-9.
    for (options, n) in all {
        for (keys, sketch) in [
            filled(options.clone(), |store| random(store, n)),
            filled(options.clone(), |store| skewed(store, n)),
        ] {
            let seen = failures(&keys, &sketch, 0.5);
            println!("{seen} of {} lower bounds at 0.5 fail", keys.len());
            assert!(seen <= 611);
            // At 0.99: mean 10.2, and 40 or more have a probability below 1e-11 (Chernoff).
            assert!(failures(&keys, &sketch, 0.99) < 40);
            // At 0.999: mean 1.02, and 15 or more have a probability below 1e-12. One row instead of five would give 37.
            assert!(failures(&keys, &sketch, 0.999) < 15);
        }
    }
}

/// Where heavy keys make whole words one cell, a light key errs by the weight of a word: about four fifths of the lower bounds
/// would fail if a cell that columns share were taken for that of one.
#[test]
fn lower_bounds_count_in_that_columns_share_a_cell() {
    let store = Store::in_memory(store_options()).unwrap();
    for bits in [4, 8] {
        let sketch = store.frequency(&bits.to_string(), small().cell_bits(bits).shape(1, 1)).unwrap();
        let columns = u64::from(sketch.layout().columns());
        let heavy = keys(&store, 0..columns / 4);
        sketch.update(&heavy, Some(&vec![1 << 33; heavy.len()])).unwrap();
        // Absent keys. Given the page, their columns are independent, so failures are at most binomial with mean 500 of 1000.
        let bounds = sketch.bounds(&keys(&store, 1_000_000..1_001_000), 0.5).unwrap();
        let wrong = bounds.iter().filter(|bounds| bounds.lower > 0).count();
        let shared = bounds.iter().filter(|bounds| bounds.estimate > 0).count();
        println!("{bits} bits: {shared} absent keys share a cell, {wrong} lower bounds fail");
        // The control: that many would fail without the span, for one heavy key is above b W / columns = 1 or 2 of them.
        assert!(wrong <= 598 && shared > 800, "{wrong} of {shared}");
    }
}

/// At equal bytes, 16 pages at depth 5: the mean error of cells of 32, 8 and 4 bits.
fn mean_errors(stream: &[u64]) -> [f64; 3] {
    let store = Store::in_memory(store_options()).unwrap();
    let hashes = keys(&store, 0..stream.len() as u64);
    [32, 8, 4].map(|bits| {
        let options = small().cell_bits(bits).bytes(16 << 12, 5);
        let sketch = store.frequency(&format!("{bits}"), options).unwrap();
        sketch.update(&hashes, Some(stream)).unwrap();
        let sample = hashes.len().min(5000);
        let estimates = sketch.estimate(&hashes[hashes.len() - sample..]).unwrap();
        let counts = &stream[hashes.len() - sample..];
        let errors = estimates.iter().zip(counts).map(|(estimate, count)| (estimate - count) as f64);
        errors.sum::<f64>() / sample as f64
    })
}

#[test]
fn small_cells_err_less_at_equal_bytes() {
    // Key i of n has its share of a Zipf law with exponent 1, of a stream of `updates`; the lightest have a few.
    let zipf = |n: u64, updates: u64| -> Vec<u64> {
        let harmonic = (n as f64).ln() + 0.577;
        (1..=n).map(|i| ((updates as f64 / harmonic / i as f64) as u64).max(1)).collect()
    };
    let show = |what: &str, errors: [f64; 3]| {
        let [plain, eight, four] = errors;
        println!("{what}: mean error {plain:.3} at 32 bits, {eight:.3} at 8, {four:.3} at 4");
        errors
    };
    for keys_a_page in [300, 1000, 4000, 20_000, 60_000] {
        let what = format!("uniform, {keys_a_page} keys a page");
        let [plain, eight, four] = show(&what, mean_errors(&vec![1; 16 * keys_a_page]));
        // 720 columns of 8 bits where there were 204: at 60,000 keys a page they have 83 each, so few are full, and those of
        // 4 bits have merged by pairs and are still three times as many.
        assert!(plain >= 2.0 * eight && plain >= 2.0 * four && eight > 0.0, "{what}");
    }
    for (keys_a_page, updates) in [(300, 200_000), (1000, 1_000_000), (4000, 4_000_000)] {
        let what = format!("Zipf, {keys_a_page} keys a page, {updates} updates");
        let [plain, eight, four] = show(&what, mean_errors(&zipf(16 * keys_a_page, updates)));
        assert!(plain >= 2.0 * eight && plain >= 2.0 * four, "{what}");
    }
}

#[test]
fn theorem_1_holds_for_a_stream_of_equal_keys() {
    let random = |store: &Store| keys(store, 0..PAGES * 150).into_iter().map(|hash| (hash, 1)).collect();
    let (keys, sketch) = filled(small(), random);
    let error = sketch.theorem_1_error(1.0);
    // n e / width = 2; the finite-n term with k = 1024 pages adds sqrt(4 k ln k / n) = 0.43 of that.
    assert!((2.8..2.9).contains(&error), "{error}");
    let hashes: Vec<KeyHash> = keys.iter().map(|key| key.0).collect();
    let estimates = sketch.estimate(&hashes).unwrap();
    let over = estimates.iter().filter(|&&estimate| (estimate - 1) as f64 >= error).count();
    // At most e^-5 + 1/1024 of 1024 keys: mean 7.9; 34 or more have a probability below 1e-9 (Chernoff).
    assert!(over < 34, "{over} of {} are off by {error:.2}", keys.len());
}

#[test]
fn columns_of_two_residues_meet_independently_in_every_row() {
    let layout = Layout::with_shape(1, 4, 5).unwrap();
    for record_bytes in [4, 8] {
        let entries = Shape::new(layout, 32, record_bytes, 1).unwrap().entry_layout();
        let mut random = Random(u64::from(record_bytes));
        let mut meetings = [0u64; 6];
        const PAIRS: u64 = 200_000;
        for _ in 0..PAIRS {
            let mut columns =
                || keyhash::columns::<5>(entries.fold(entries.entry(KeyHash::new(0, random.next()))), 4);
            let (a, b) = (columns(), columns());
            meetings[(0..5).filter(|&row| a[row] == b[row]).count()] += 1;
        }
        // Binomial with 5 rows of probability 1/4: a limit of 6.5 deviations fails with probability 1e-10 each.
        for (rows, &seen) in meetings.iter().enumerate() {
            let choose = [1.0, 5.0, 10.0, 10.0, 5.0, 1.0][rows];
            let p = choose * 0.25f64.powi(rows as i32) * 0.75f64.powi(5 - rows as i32);
            let (mean, deviation) = (PAIRS as f64 * p, (PAIRS as f64 * p * (1.0 - p)).sqrt());
            assert!((seen as f64 - mean).abs() < 6.5 * deviation, "{rows} rows: {seen}, not {mean:.0}");
        }
    }
}

/// The cost of short records: twins, keys of one page with the same residue, and nothing else.
#[test]
fn twins_are_as_rare_as_their_bits_say() {
    let layout = Layout::with_shape(1, 204, 5).unwrap();
    let hasher = crate::KeyHasher::new(crate::HashKind::Xxh3, Seed(3));
    const KEYS: u64 = 100_000;
    let twins = |record_bytes| {
        let entries = Shape::new(layout, 32, record_bytes, 1).unwrap().entry_layout();
        let mut entries: Vec<u64> = (0..KEYS).map(|key| entries.entry(hasher.hash_u64(key))).collect();
        entries.sort_unstable();
        entries.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    // 100,000 keys are 5e9 pairs: 596 twins at 2^-23, deviation 24.4, 6.5 of them either way. At 2^-40, 0.005.
    assert!((437..=755).contains(&twins(4)), "{}", twins(4));
    assert!(twins(8) <= 3);
}
