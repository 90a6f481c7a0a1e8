//! The threshold τ that all workers share, set anew every 100 µs from the length of the queues.
//!
//! ```text
//!   expected = Q_t + (Q_t - Q_t-1)                               (Eq. 1)
//!   τ - 1 where expected < (1 - α) Q,  τ + 1 where expected > (1 + α) Q,  else τ     (Eq. 2)
//! ```
//!
//! 1. τ stays between the policy's lower bound and what a counter's byte allows.
//! 2. Time comes from the caller. One step is taken in a window, and none is made up for later: a queue says only how things are now.
//!
//! Source: OctoSketch, section 4.3.

use crate::Result;
use crate::error::invalid;

/// The paper's α (appendix D.1).
const ALPHA: f64 = 0.25;

/// What the aggregator's time is spent for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Allocation {
    /// The aggregator takes all that it can: τ as low as it keeps up with.
    BestAccuracy,
    /// No better than an error of `epsilon` times the total weight, where a flow's packets reach at most `spread` workers (k'): τ is not
    /// below `epsilon L1 / spread` (Eq. 4), and the aggregator has little to do where there is little traffic.
    AccuracyTarget {
        /// The error, as a share of the total weight.
        epsilon: f64,
        /// How many workers a flow may pass at most.
        spread: u32,
    },
    /// The aggregator works for at most this share of the time, 0 to 1, and tells its caller how long to rest.
    CpuLimit {
        /// The share.
        share: f64,
    },
}

impl Allocation {
    /// Eq. 4: the threshold whose error in the aggregator's counters is `epsilon` of the total weight.
    pub fn required_threshold(epsilon: f64, total_weight: u64, spread: u32) -> f64 {
        epsilon * total_weight as f64 / f64::from(spread.max(1))
    }

    /// The share of the time that the aggregator may work, if that is limited.
    pub(super) fn share(self) -> Option<f64> {
        match self {
            Self::CpuLimit { share } => Some(share),
            Self::BestAccuracy | Self::AccuracyTarget { .. } => None,
        }
    }

    /// How long to rest after so much work.
    pub(super) fn rest_ns(self, busy_ns: u64) -> u64 {
        self.share().map_or(0, |share| (busy_ns as f64 * (1.0 / share - 1.0)) as u64)
    }

    pub(super) fn require_valid(self) -> Result<()> {
        match self {
            Self::AccuracyTarget { epsilon, .. } if !(epsilon > 0.0 && epsilon < 1.0) => {
                invalid("epsilon", epsilon, "choose a share of the total weight above 0 and below 1")
            }
            Self::CpuLimit { share } if !(share > 0.0 && share <= 1.0) => {
                invalid("share", share, "choose a share of a core above 0 and at most 1")
            }
            _ => Ok(()),
        }
    }
}

/// Eq. 1 and Eq. 2.
#[derive(Debug)]
pub(super) struct Threshold {
    policy: Allocation,
    target_queue: u64,
    window_ns: u64,
    tau_max: u8,
    tau: u8,
    queue_before: u64,
    next_ns: Option<u64>,
}

impl Threshold {
    /// Begins at the lowest τ, so that new keys are known at once.
    pub(super) fn new(policy: Allocation, target_queue: u64, window_ns: u64, tau_max: u8) -> Self {
        Self { policy, target_queue, window_ns, tau_max, tau: 1, queue_before: 0, next_ns: None }
    }

    pub(super) fn tau(&self) -> u8 {
        self.tau
    }

    /// Takes a step if a window has ended: `queue` messages wait, of a stream of `total_weight` so far, which is asked for only then.
    /// Whether it did.
    pub(super) fn observe(&mut self, now_ns: u64, queue: u64, total_weight: impl FnOnce() -> u64) -> bool {
        let next_ns = *self.next_ns.get_or_insert(now_ns.saturating_add(self.window_ns));
        if now_ns < next_ns {
            return false;
        }
        self.next_ns = Some(now_ns.saturating_add(self.window_ns));
        let expected = 2.0 * queue as f64 - self.queue_before as f64;
        self.queue_before = queue;
        let target = self.target_queue as f64;
        if expected < (1.0 - ALPHA) * target {
            self.tau = self.tau.saturating_sub(1);
        } else if expected > (1.0 + ALPHA) * target {
            self.tau = self.tau.saturating_add(1);
        }
        self.tau = self.tau.max(self.lower_bound(total_weight())).min(self.tau_max);
        true
    }

    fn lower_bound(&self, total_weight: u64) -> u8 {
        let Allocation::AccuracyTarget { epsilon, spread } = self.policy else { return 1 };
        let required = Allocation::required_threshold(epsilon, total_weight, spread);
        // A cast stops at the ends.
        (required as u8).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 100_000;

    fn threshold(policy: Allocation) -> Threshold {
        Threshold::new(policy, 10, WINDOW_NS, 255)
    }

    #[test]
    fn equations_1_and_2() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        assert!(!threshold.observe(0, 1000, || 0), "no window has ended");
        // Queue, and the step: expected = 2 Q_t - Q_t-1, a step down below 7.5, up above 12.5.
        let steps = [
            (20, 1),
            (20, 1),
            (10, -1),
            (10, 0),
            (11, 0),
            (12, 1),
            (12, 0),
            (9, -1),
            (8, -1),
            (8, 0),
            (8, 0),
        ];
        let mut tau = 1i32;
        for (window, (queue, step)) in (1..).zip(steps) {
            assert!(threshold.observe(window * WINDOW_NS, queue, || 0));
            tau = (tau + step).max(1);
            assert_eq!(i32::from(threshold.tau()), tau, "window {window}, queue {queue}");
            assert!(!threshold.observe(window * WINDOW_NS + WINDOW_NS - 1, 500, || 0), "the same window");
        }
    }

    #[test]
    fn tau_stays_in_its_byte() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        (0..1000).for_each(|window| {
            assert!(threshold.observe(window * WINDOW_NS, 100 * window, || 0) || window == 0)
        });
        assert_eq!(threshold.tau(), 255);
        (1000..2000).for_each(|window| assert!(threshold.observe(window * WINDOW_NS, 0, || 0)));
        assert_eq!(threshold.tau(), 1);
    }

    #[test]
    fn an_accuracy_target_is_a_lower_bound() {
        let mut threshold = threshold(Allocation::AccuracyTarget { epsilon: 0.001, spread: 16 });
        threshold.observe(0, 0, || 0);
        for window in 1..100 {
            threshold.observe(window * WINDOW_NS, 0, || 1_000_000);
        }
        // 0.001 * 10^6 / 16 = 62.5
        assert_eq!(threshold.tau(), 62);
        threshold.observe(100 * WINDOW_NS, 0, || u64::MAX);
        assert_eq!(threshold.tau(), 255);
    }

    #[test]
    fn a_limited_aggregator_rests() {
        let policy = Allocation::CpuLimit { share: 0.25 };
        assert_eq!(policy.rest_ns(100), 300);
        assert_eq!(Allocation::BestAccuracy.rest_ns(100), 0);
        for share in [0.0, 1.1, f64::NAN] {
            assert!(Allocation::CpuLimit { share }.require_valid().is_err());
        }
        assert!(Allocation::AccuracyTarget { epsilon: 0.0, spread: 1 }.require_valid().is_err());
    }
}
