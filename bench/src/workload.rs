//! Named workloads: streams of 64-bit keys that depend on name, length and seed alone.

use crate::{Random, Zipf, digest::mix};

/// A named stream of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// Uniform over all 64-bit values: in practice all distinct.
    Uniform,
    /// Zipf-distributed ranks over as many items as there are keys, ranks scattered over the 64-bit values.
    Zipf(f64),
    /// Adversarial: distinct keys that share their top 16 bits, so that a partition by high bits has one crowded part.
    Crowded,
    /// Adversarial: distinct keys in descending order.
    Descending,
    /// Adversarial: one key again and again.
    Constant,
}

impl Workload {
    /// The name in the JSON lines.
    pub fn name(self) -> String {
        match self {
            Self::Uniform => "uniform".into(),
            Self::Zipf(exponent) => format!("zipf({exponent})"),
            Self::Crowded => "adversarial_crowded".into(),
            Self::Descending => "adversarial_descending".into(),
            Self::Constant => "adversarial_constant".into(),
        }
    }

    /// `count` keys; the same for the same seed, on every machine.
    pub fn keys(self, count: usize, seed: u64) -> Vec<u64> {
        let mut random = Random::new(mix(seed));
        match self {
            Self::Uniform => (0..count).map(|_| random.next_u64()).collect(),
            Self::Zipf(exponent) => {
                let zipf = Zipf::new(count.max(1) as u64, exponent);
                (0..count).map(|_| mix(zipf.sample(&mut random))).collect()
            }
            Self::Crowded => (0..count).map(|_| 0xabcd << 48 | random.next_u64() >> 16).collect(),
            Self::Descending => (0..count as u64).rev().collect(),
            Self::Constant => vec![random.next_u64(); count],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_depend_on_the_seed_and_on_nothing_else() {
        for workload in [Workload::Uniform, Workload::Zipf(1.0), Workload::Crowded, Workload::Constant] {
            assert_eq!(workload.keys(100, 1), workload.keys(100, 1));
            assert_ne!(workload.keys(100, 1), workload.keys(100, 2));
        }
        assert_eq!(Workload::Uniform.keys(100, 1)[..10], Workload::Uniform.keys(10, 1));
    }

    #[test]
    fn each_workload_has_the_shape_of_its_name() {
        let distinct =
            |workload: Workload| workload.keys(10_000, 7).into_iter().collect::<HashSet<_>>().len();
        assert_eq!(distinct(Workload::Uniform), 10_000);
        assert!((100..6_000).contains(&distinct(Workload::Zipf(1.0))));
        assert_eq!(distinct(Workload::Constant), 1);
        assert!(Workload::Crowded.keys(100, 7).iter().all(|key| key >> 48 == 0xabcd));
        assert!(Workload::Descending.keys(100, 7).is_sorted_by(|a, b| a > b));
    }
}
