//! What the paper proves: how far answers are off, and how many messages it takes.
//!
//! | paper       | here                        | says                                                                          |
//! |-------------|-----------------------------|-------------------------------------------------------------------------------|
//! | Theorem 1   | [`count_min_error`], [`unsent`] | an applied count-min estimate is off by at most the two together          |
//! | Eq. 4       | [`Allocation::required_threshold`](super::Allocation::required_threshold) | τ for an error                          |
//! | Theorem 2   | [`messages`]                | messages that a weight makes                                                   |
//! | Theorem 3   | [`count_sketch_error`], [`unsent`] | likewise for a count sketch                                            |
//! | –           | [`unnamed`]                 | a flow larger than this is among the heavy keys                               |
//! | Theorem 4   | [`applied_is_exact_above`]  | from this cardinality on, HyperLogLog's applied registers are the ideal ones   |
//!
//! Answers that read through hold what the workers have, so for them [`unsent`] is 0: the ideal sketch's error is all there is. It bounds
//! [`Reader::applied_estimate`](super::Reader::applied_estimate), with the highest τ that was in force, where no worker kept a counter that
//! was due ([`WorkerStats::kept`](super::WorkerStats::kept)) and no weight was so large (2^39) that a counter went in several messages.
//!
//! Source: OctoSketch, section 5 and appendix B. Deviations: Theorem 4 is stated for the rule by which ranks are sent here, those above
//! τ; the paper's numbers are one lower, as it sends from τ - 1 on.

use super::lane::PATIENCE;

/// What `spread` workers (k') hold at most of one counter: `spread (τ - 1)`.
pub fn unsent(tau: u8, spread: u32) -> u64 {
    u64::from(tau.saturating_sub(1)) * u64::from(spread)
}

/// An error that the ideal count-min sketch exceeds with probability at most `1 - confidence`, for a fixed key: each row's expected error
/// is at most `total_weight / columns`, and by Markov all rows exceed `b` times that with probability `b^-depth`.
pub fn count_min_error(total_weight: u64, columns: u32, depth: u32, confidence: f64) -> u64 {
    let factor = (1.0 - confidence).max(f64::MIN_POSITIVE).powf(-1.0 / f64::from(depth.max(1)));
    (total_weight as f64 * factor / f64::from(columns.max(1))).ceil() as u64
}

/// An error that the median of `depth` rows of a count sketch exceeds with probability at most `1 - confidence`: a row exceeds
/// `sqrt(8 / columns)` times the second norm with probability at most 1/8 (Chebyshev), and at least half of `depth` rows do so with
/// probability at most `(4 * 1/8 * 7/8)^(depth / 2)` (Chernoff). `None` where `depth` is too small for this confidence.
pub fn count_sketch_error(second_norm: f64, columns: u32, depth: u32, confidence: f64) -> Option<f64> {
    let failure = (4.0f64 * 0.125 * 0.875).powf(f64::from(depth) / 2.0);
    (failure <= 1.0 - confidence).then(|| second_norm * (8.0 / f64::from(columns.max(1))).sqrt())
}

/// How many messages a weight makes at most in all, for `depth` rows: each takes at least τ out of a row's counters. At the begin of an
/// epoch batches make more, for one element in 32 at most: see [`Worker`](super::Worker).
pub fn messages(total_weight: u64, depth: u32, tau: u8) -> u64 {
    (total_weight / u64::from(tau.max(1))).saturating_mul(depth.into())
}

/// How a monitor came to know the flows of an epoch, for [`unnamed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Naming {
    /// What the lightest of the heavy keys weighs; 0 while there is room for more.
    pub floor: u64,
    /// The highest τ that was in force.
    pub tau_max: u8,
    /// How often a counter was kept back by a full ring.
    pub kept: u64,
    /// Workers that a flow may pass (k').
    pub spread: u32,
    /// What the lightest packet weighs, 1 or more, and the heaviest.
    pub weights: (u64, u64),
}

/// A size above which a flow of a count-min sketch is among the heavy keys, where others add `others` at most to one of its counters.
///
/// A flow is named by a packet of its that makes a counter reach τ. Its weight between two messages of that counter is less than τ as
/// long as none of its packets does, and each message then takes a packet of another flow, or a counter that was owed. So its packets
/// after the last that named it weigh `(τ - 1) (others / least + kept + k')` at most; the estimate that it was offered with lacked no more
/// than `τ - 1` a worker; and a full ring hides what comes until it is tried again, up to 32 packets, from both.
/// Nothing of that depends on the order of packets.
pub fn unnamed(naming: Naming, others: u64) -> u64 {
    let Naming { floor, tau_max, kept, spread, weights: (least, greatest) } = naming;
    let least = least.max(1);
    let below = if least >= tau_max.into() { 0 } else { u64::from(tau_max - 1) };
    let rounds = (others / least).saturating_add(kept).saturating_add(2 * u64::from(spread));
    let hidden = kept.saturating_mul(2 * PATIENCE as u64).saturating_mul(greatest);
    floor.saturating_add(below.saturating_mul(rounds)).saturating_add(hidden)
}

/// From this raw estimate of `registers` registers on, none of them can be τ or less: all have been sent.
///
/// The raw estimate is `α m^2 / Σ 2^-C`; one register of at most τ alone makes the sum at least `2^-τ`.
pub fn applied_is_exact_above(registers: usize, tau: u8) -> f64 {
    let m = registers as f64;
    // Flajolet et al. (2007), figure 3.
    let alpha = match registers {
        0..=16 => 0.673,
        17..=32 => 0.697,
        33..=64 => 0.709,
        _ => 0.7213 / (1.0 + 1.079 / m),
    };
    alpha * m * m * 2f64.powi(tau.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_paper() {
        // Section 5.2: a difference of 100 over 16 workers is a threshold of 6.25; three rows then send at most 0.48 a packet.
        assert!(messages(1_000_000, 3, 6) <= 500_000);
        // Section 5.1: thresholds of 2^7 and 16 workers leave less than 2^-9 of a million packets.
        assert!(unsent(128, 16) as f64 <= 1e6 * 2f64.powi(-8));
        assert_eq!((unsent(1, 16), unsent(0, 16)), (0, 0));
    }

    #[test]
    fn what_has_no_name_is_bounded() {
        let naming = Naming { floor: 10, tau_max: 1, kept: 0, spread: 4, weights: (1, 1500) };
        assert_eq!(unnamed(naming, 1000), 10, "each packet names its flow");
        assert_eq!(unnamed(Naming { tau_max: 3, ..naming }, 1000), 10 + 2 * (1000 + 8));
        assert_eq!(unnamed(Naming { tau_max: 60, weights: (60, 1500), ..naming }, 1000), 10, "here, too");
        assert_eq!(unnamed(Naming { kept: 2, ..naming }, 1000), 10 + 2 * 64 * 1500);
        let ends = Naming {
            floor: u64::MAX,
            tau_max: 255,
            kept: u64::MAX,
            spread: u32::MAX,
            weights: (0, u64::MAX),
        };
        assert_eq!(unnamed(ends, u64::MAX), u64::MAX);
    }

    #[test]
    fn more_rows_or_columns_err_less() {
        assert_eq!(count_min_error(1000, 100, 1, 0.75), 40);
        assert_eq!(count_min_error(1000, 100, 2, 0.75), 20);
        assert_eq!(count_min_error(1000, 1000, 1, 0.75), 4);
        assert_eq!(count_sketch_error(100.0, 800, 3, 0.99), None, "three rows are not sure enough");
        let error = count_sketch_error(100.0, 800, 25, 0.99).expect("25 rows are");
        assert!((error - 10.0).abs() < 1e-9);
    }
}
