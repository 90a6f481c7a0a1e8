//! Errors against their bounds, and what the few bits of a record cost. Every limit is passed by a right sketch except with
//! a probability below 1e-9, which each test derives.

use super::*;
use crate::frequency::place::Shape;
use crate::sketch::count_min::Layout;

const PAGES: u64 = 1024;
const COLUMNS: u64 = 204;

/// A sketch of 1024 pages that holds `model`, and one key of each page with its count, chosen without looking at the sketch.
fn filled(updates: impl Fn(&Store) -> Vec<(KeyHash, u64)>) -> (Vec<(KeyHash, u64)>, Arc<Mutex<Frequency>>) {
    let store = Store::in_memory(store_options()).unwrap();
    let options = small().shape(COLUMNS * PAGES, 5).group_pages(128).memory_bytes(8 << 20);
    let sketch = store.frequency("f", options).unwrap();
    let (mut one_a_page, mut taken) = (Vec::new(), vec![false; PAGES as usize]);
    let updates = updates(&store);
    for &(hash, weight) in &updates {
        if !std::mem::replace(&mut taken[keyhash::range_of(hash.high(), PAGES) as usize], true) {
            one_a_page.push((hash, weight));
        }
    }
    let (hashes, weights): (Vec<KeyHash>, Vec<u64>) = updates.into_iter().unzip();
    held(&sketch).update(&hashes, Some(&weights)).unwrap();
    assert!(one_a_page.len() as u64 > PAGES * 9 / 10);
    (one_a_page, sketch)
}

/// How many of the keys have a lower bound above their count. Keys of different pages fail independently.
fn failures(keys: &[(KeyHash, u64)], sketch: &Arc<Mutex<Frequency>>, confidence: f64) -> usize {
    let hashes: Vec<KeyHash> = keys.iter().map(|key| key.0).collect();
    let bounds = held(sketch).bounds(&hashes, confidence).unwrap();
    assert!(keys.iter().zip(&bounds).all(|(key, bounds)| key.1 <= bounds.estimate));
    keys.iter().zip(&bounds).filter(|(key, bounds)| key.1 < bounds.lower).count()
}

#[test]
fn lower_bounds_hold_as_often_as_they_say_on_random_and_on_skewed_streams() {
    let random = |store: &Store| keys(store, 0..PAGES * 150).into_iter().map(|hash| (hash, 1)).collect();
    // Each page has a few keys that weigh a thousand times more than the others.
    let skewed = |store: &Store| {
        let all = keys(store, 0..PAGES * 150).into_iter();
        all.enumerate().map(|(i, hash)| (hash, if i % 20 == 19 { 1000 } else { 1 })).collect()
    };
    // At 0.5 and 1024 keys, failures are at most binomial with mean 512 and deviation 16: 512 + 6.2 * 16 at 1e-9.
    for (keys, sketch) in [filled(random), filled(skewed)] {
        let seen = failures(&keys, &sketch, 0.5);
        println!("{seen} of {} lower bounds at 0.5 fail", keys.len());
        assert!(seen <= 611);
        // At 0.99: mean 10.2, and 40 or more have a probability below 1e-11 (Chernoff).
        assert!(failures(&keys, &sketch, 0.99) < 40);
        // At 0.999: mean 1.02, and 15 or more have a probability below 1e-12. One row instead of five would give 37.
        assert!(failures(&keys, &sketch, 0.999) < 15);
    }
}

#[test]
fn theorem_1_holds_for_a_stream_of_equal_keys() {
    let random = |store: &Store| keys(store, 0..PAGES * 150).into_iter().map(|hash| (hash, 1)).collect();
    let (keys, sketch) = filled(random);
    let error = held(&sketch).theorem_1_error(1.0);
    // n e / width = 2; the finite-n term with k = 1024 pages adds sqrt(4 k ln k / n) = 0.43 of that.
    assert!((2.8..2.9).contains(&error), "{error}");
    let hashes: Vec<KeyHash> = keys.iter().map(|key| key.0).collect();
    let estimates = held(&sketch).estimate(&hashes).unwrap();
    let over = estimates.iter().filter(|&&estimate| (estimate - 1) as f64 >= error).count();
    // At most e^-5 + 1/1024 of 1024 keys: mean 7.9; 34 or more have a probability below 1e-9 (Chernoff).
    assert!(over < 34, "{over} of {} are off by {error:.2}", keys.len());
}

#[test]
fn columns_of_two_residues_meet_independently_in_every_row() {
    let layout = Layout::with_shape(1, 4, 5).unwrap();
    for record_bytes in [4, 8] {
        let place = Shape::new(layout, 4, record_bytes, 1).unwrap().place();
        let mut random = Random(u64::from(record_bytes));
        let mut meetings = [0u64; 6];
        const PAIRS: u64 = 200_000;
        for _ in 0..PAIRS {
            let mut columns =
                || keyhash::columns::<5>(place.fold(place.entry(KeyHash::new(0, random.next()))), 4);
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
        let place = Shape::new(layout, 4, record_bytes, 1).unwrap().place();
        let mut entries: Vec<u64> = (0..KEYS).map(|key| place.entry(hasher.hash_u64(key))).collect();
        entries.sort_unstable();
        entries.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    // 100,000 keys are 5e9 pairs: 596 twins at 2^-23, deviation 24.4, 6.5 of them either way. At 2^-40, 0.005.
    assert!((437..=755).contains(&twins(4)), "{}", twins(4));
    assert!(twins(8) <= 3);
}
