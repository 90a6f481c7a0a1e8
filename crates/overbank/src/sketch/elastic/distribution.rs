//! How many keys there were of each weight, from counters that several keys may share.
//!
//! ```text
//!   counters of value v  ─▶  the ways to make v of up to three keys, each as likely as the present distribution says
//!   expected numbers of keys of each weight  ─▶  the next distribution            until it stands still, or ROUNDS times
//! ```
//!
//! Source: Kumar, Sung, Xu, Wang, "Data streaming algorithms for efficient and accurate estimation of flow size distribution"
//! (SIGMETRICS 2004): expectation maximisation over Poisson arrivals in counters; as in the paper, many keys that share a counter
//! are too unlikely to be worth their number of ways: three up to 48, two up to 1024, and above that a counter is one key's.

use std::collections::BTreeMap;

const THREE_KEYS_MAX: usize = 48;
const TWO_KEYS_MAX: usize = 1024;
const ROUNDS: usize = 30;

/// How many keys of each weight make these counters, those of value 0 included.
pub(super) fn of_counters(counters: &[u64]) -> BTreeMap<u64, f64> {
    let mut values: BTreeMap<u64, f64> = BTreeMap::new();
    for &value in counters.iter().filter(|&&value| value > 0) {
        *values.entry(value).or_default() += 1.0;
    }
    let mut keys = vec![0.0; TWO_KEYS_MAX + 1];
    for (&value, &count) in values.range(..=TWO_KEYS_MAX as u64) {
        keys[value as usize] = count;
    }
    for _ in 0..ROUNDS {
        // Of each weight, how many keys there are in a counter.
        let rates: Vec<f64> = keys.iter().map(|count| count / counters.len() as f64).collect();
        keys.fill(0.0);
        for (&value, &count) in values.range(..=TWO_KEYS_MAX as u64) {
            share(value as usize, count, &rates, &mut keys);
        }
    }
    let mut all: BTreeMap<u64, f64> =
        values.range(TWO_KEYS_MAX as u64 + 1..).map(|(&v, &c)| (v, c)).collect();
    all.extend(
        keys.into_iter().zip(0u64..).filter(|(count, _)| *count > 0.0).map(|(count, weight)| (weight, count)),
    );
    all
}

/// Adds the keys that `count` counters of `value` are expected to be of.
fn share(value: usize, count: f64, rates: &[f64], keys: &mut [f64]) {
    let mut sum = rates[value];
    each_split(value, |parts| sum += chance(parts, rates));
    if sum == 0.0 {
        keys[value] += count;
        return;
    }
    keys[value] += count * rates[value] / sum;
    each_split(value, |parts| {
        let expected = count * chance(parts, rates) / sum;
        parts.iter().for_each(|&part| keys[part] += expected);
    });
}

/// How likely keys of just these weights are in a counter, but for a factor that all ways share: of equal ones, which may come in any
/// order, one over the number of orders.
fn chance(parts: &[usize], rates: &[f64]) -> f64 {
    let product: f64 = parts.iter().map(|&part| rates[part]).product();
    match parts {
        [a, b, c] if a == b && b == c => product / 6.0,
        [a, b, c] if a == b || b == c => product / 2.0,
        [a, b] if a == b => product / 2.0,
        _ => product,
    }
}

/// Each way to make `value` of two or three keys, weights in order.
fn each_split(value: usize, mut see: impl FnMut(&[usize])) {
    (1..=value / 2).for_each(|a| see(&[a, value - a]));
    if value <= THREE_KEYS_MAX {
        for a in 1..=value / 3 {
            (a..=(value - a) / 2).for_each(|b| see(&[a, b, value - a - b]));
        }
    }
}
