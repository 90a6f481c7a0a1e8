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
//! 3. While the queue stays far above its target, each window's step is twice the one before: a τ that is k too low is made up for in
//!    about log2 k windows. The first step is the paper's, and so is every step of a queue that comes near, or falls fast enough.
//! 4. A worker spends at most a share of its time on messages: τ rises while the busiest one sends more than that allows, and does not
//!    fall where it would then send more. At low rates that allows every message.
//! 5. A ring that has kept a counter back since the last step, or made a worker wait, is a queue far above its target, however short the
//!    queue is by now.
//!
//! ```text
//!   queue  ▁▇███████▆▄▂▁▁▁▁      far above, and not falling: +1 +2 +4 +8 …
//!   τ      1 2 4 8 16 32 64 65   falling: +1, as Eq. 2 says; below the target: -1
//! ```
//!
//! Source: OctoSketch, section 4.3. Deviations: invariants 3 to 5. The paper's τ goes from 1 to the 93 that 16 workers of 87.5 million
//! packets a second ask of an aggregator of 45 million messages in 92 windows, in which 13 million packets pass; here it takes 8. And where
//! workers are few it stays near 1, so that most of a worker's time goes into messages that bring its aggregator no more than an answer
//! that reads through has anyway.

use super::shared::Standing;
use crate::Result;
use crate::error::invalid;

/// The paper's α (appendix D.1).
const ALPHA: f64 = 0.25;

/// A queue of so many times its target is far above it, and so is one that takes half of what the rings hold: at 45 million messages a
/// second and a target of 10, it is 4 µs of work.
const FAR: f64 = 16.0;

/// A queue that falls by less than this share of it in a window does not fall: it would take 16 windows.
const FALL: f64 = 1.0 / 16.0;

/// What a message costs the worker that sends it, of three to five for a packet.
const MESSAGE_NS: f64 = 40.0;

/// What is sent is far more than what is allowed: τ would have to be twice as high.
const FAR_SENT: f64 = 2.0;

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

/// What τ is set by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    pub(super) policy: Allocation,
    pub(super) target_queue: u64,
    /// What all rings together hold.
    pub(super) room: u64,
    pub(super) window_ns: u64,
    /// The share of a worker's time that messages may take.
    pub(super) worker_share: f64,
    pub(super) tau_max: u8,
}

/// Eq. 1 and Eq. 2, with invariants 3 to 5.
#[derive(Debug)]
pub(super) struct Threshold {
    control: Control,
    /// A queue of more than this is far above the target.
    far: f64,
    tau: u8,
    /// By how much τ rises next if it stays far too low.
    step: u8,
    queue_before: u64,
    stalls_before: u64,
    /// Messages of each worker since the last step.
    sent: Box<[u64]>,
    /// When that was.
    since_ns: Option<u64>,
}

impl Threshold {
    /// Begins at the lowest τ, so that new keys are known at once.
    pub(super) fn new(control: Control, workers: usize) -> Self {
        let far = (FAR * control.target_queue as f64).min(control.room as f64 / 2.0);
        let sent = vec![0; workers].into();
        Self { control, far, tau: 1, step: 1, queue_before: 0, stalls_before: 0, sent, since_ns: None }
    }

    pub(super) fn tau(&self) -> u8 {
        self.tau
    }

    /// Notes that a worker sent so many messages.
    #[inline]
    pub(super) fn note_sent(&mut self, worker: usize, messages: u64) {
        self.sent[worker] = self.sent[worker].saturating_add(messages);
    }

    /// Takes a step if a window has ended: `queue` messages wait. How things stand is asked for only then. Whether it did.
    pub(super) fn observe(&mut self, now_ns: u64, queue: u64, standing: impl FnOnce() -> Standing) -> bool {
        let Control { target_queue, window_ns, worker_share, tau_max, .. } = self.control;
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let passed_ns = now_ns.saturating_sub(since_ns);
        if passed_ns < window_ns {
            return false;
        }
        self.since_ns = Some(now_ns);
        let Standing { total_weight, stalls } = standing();
        let rise = queue as f64 - self.queue_before as f64;
        let (expected, target) = (queue as f64 + rise, target_queue as f64);
        let sent = self.sent.iter().copied().max().unwrap_or(0) as f64;
        let allowed = passed_ns as f64 * worker_share / MESSAGE_NS;
        let (tau, most) = (f64::from(self.tau), (1.0 + ALPHA) * allowed);
        let is_full = stalls != self.stalls_before;
        let is_waiting = expected > self.far && -rise < FALL * self.queue_before as f64;
        let stays_far = is_full || is_waiting || sent > FAR_SENT * allowed;
        (self.queue_before, self.stalls_before) = (queue, stalls);
        self.sent.fill(0);
        if !stays_far {
            self.step = 1;
        }
        if is_full || expected > (1.0 + ALPHA) * target || sent > most {
            self.tau = self.tau.saturating_add(self.step);
            self.step = if stays_far { self.step.saturating_mul(2) } else { 1 };
        } else if expected < (1.0 - ALPHA) * target && sent * tau <= most * (tau - 1.0) {
            self.tau = self.tau.saturating_sub(1);
        }
        self.tau = self.tau.max(self.lower_bound(total_weight)).min(tau_max);
        true
    }

    fn lower_bound(&self, total_weight: u64) -> u8 {
        let Allocation::AccuracyTarget { epsilon, spread } = self.control.policy else { return 1 };
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
        with_room(policy, 16 * 1023)
    }

    fn with_room(policy: Allocation, room: u64) -> Threshold {
        let (target_queue, window_ns, worker_share, tau_max) = (10, WINDOW_NS, 0.125, 255);
        Threshold::new(Control { policy, target_queue, room, window_ns, worker_share, tau_max }, 2)
    }

    fn nothing() -> Standing {
        Standing::default()
    }

    #[test]
    fn equations_1_and_2() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        assert!(!threshold.observe(0, 1000, nothing), "no window has ended");
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
            assert!(threshold.observe(window * WINDOW_NS, queue, nothing));
            tau = (tau + step).max(1);
            assert_eq!(i32::from(threshold.tau()), tau, "window {window}, queue {queue}");
            assert!(!threshold.observe(window * WINDOW_NS + WINDOW_NS - 1, 500, nothing), "the same window");
        }
    }

    /// τ in each of 1000 windows, of an aggregator that takes 4500 messages in each, the rings of which hold `room`, where a τ of `needed`
    /// makes as many as it takes.
    fn taus(needed: f64, room: u64) -> Vec<u8> {
        const TAKES: f64 = 4500.0;
        let (mut threshold, mut queue) = (with_room(Allocation::BestAccuracy, room), 0.0);
        let window = |window| {
            // What comes, as far as there is room while it is taken.
            let comes = (needed * TAKES / f64::from(threshold.tau())).min(room as f64 - queue + TAKES);
            queue = f64::max(queue + comes - TAKES, 0.0);
            threshold.observe(window * WINDOW_NS, queue as u64, nothing);
            threshold.tau()
        };
        (0..1000).map(window).collect()
    }

    #[test]
    fn a_tau_that_is_far_too_low_rises_in_as_many_windows_as_it_has_bits() {
        for needed in [2, 5, 12, 40, 93, 200] {
            for room in [100, 1023, 16 * 1023] {
                let taus = taus(f64::from(needed), room);
                let rose = taus.iter().position(|&tau| tau >= needed).expect("what is needed");
                assert!(
                    rose as u32 <= needed.ilog2() + 2,
                    "{needed} after {rose} windows: {:?}",
                    &taus[..10]
                );
            }
        }
    }

    #[test]
    fn tau_swings_within_bounds() {
        for needed in [2, 5, 12, 40, 93, 200] {
            for room in [100, 1023, 16 * 1023] {
                // Demands that no whole τ meets, too.
                for needed in [f64::from(needed), f64::from(needed) + 0.5] {
                    let taus = taus(needed, room);
                    let after = taus[500..].iter().map(|&tau| f64::from(tau));
                    let (least, most) = (after.clone().fold(255.0, f64::min), after.fold(0.0, f64::max));
                    assert!(least >= 0.75 * needed - 1.0, "{needed}, {room}: {least} to {most}");
                    assert!(most <= 1.25 * needed + 3.0, "{needed}, {room}: {least} to {most}");
                }
            }
        }
    }

    #[test]
    fn a_queue_that_falls_fast_enough_is_waited_for() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        threshold.observe(0, 0, nothing);
        let mut tau = 1;
        // Steps of 1, 2 and 4; a fall by an eighth; and from there on by none.
        let queues =
            [(1000, 1), (1000, 2), (1000, 4), (875, 1), (875, 1), (875, 2), (874, 4), (5, -1), (5, -1)];
        for (window, (queue, step)) in (1..).zip(queues) {
            threshold.observe(window * WINDOW_NS, queue, nothing);
            tau += step;
            assert_eq!(i32::from(threshold.tau()), tau, "window {window}, queue {queue}");
        }
    }

    /// τ after each of 200 windows in which one of two workers counts so many packets, of three counters each, and nothing ever waits.
    fn taus_of(packets: f64) -> Vec<u8> {
        let mut threshold = threshold(Allocation::BestAccuracy);
        threshold.observe(0, 0, nothing);
        let window = |window| {
            // Two steps of the aggregator, of the messages that three counters make.
            let messages = 3.0 * packets / f64::from(threshold.tau());
            (0..2).for_each(|_| threshold.note_sent(1, (messages / 2.0) as u64));
            threshold.note_sent(0, 1);
            threshold.observe(window * WINDOW_NS, 0, nothing);
            threshold.tau()
        };
        (1..201).map(window).collect()
    }

    #[test]
    fn a_worker_spends_its_share_on_messages() {
        // An eighth of 100 µs is 312 messages of 40 ns.
        assert!(taus_of(100.0).iter().all(|&tau| tau == 1), "a million packets a second, all of them sent");
        for packets in [200.0, 500.0, 1000.0, 5000.0, 8000.0] {
            let taus = taus_of(packets);
            let needed = 3.0 * packets / (1.25 * 312.5);
            let rose = taus.iter().position(|&tau| f64::from(tau) >= needed).expect("what is needed");
            assert!(rose <= 40, "{packets} after {rose} windows");
            let after = &taus[100..];
            assert!(after.iter().all(|tau| tau == &after[0]), "it does not swing: {after:?}");
            let least = 1.0 + needed;
            assert!(f64::from(after[0]) <= 1.25 * least / 0.75, "{packets}: {} for {needed}", after[0]);
        }
    }

    #[test]
    fn a_ring_that_was_full_is_a_long_queue() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        threshold.observe(0, 0, nothing);
        let mut tau = 1;
        for (window, (stalls, step)) in
            (1..).zip([(1, 1), (2, 2), (9, 4), (9, -1), (9, -1), (10, 1), (10, -1)])
        {
            threshold.observe(window * WINDOW_NS, 0, || Standing { total_weight: 0, stalls });
            tau += step;
            assert_eq!(i32::from(threshold.tau()), tau, "window {window}, {stalls} stalls");
        }
    }

    #[test]
    fn what_was_sent_is_taken_over_the_time_that_passed() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        threshold.observe(0, 0, nothing);
        // As many as 20 windows allow, seen at their end.
        threshold.note_sent(0, 6000);
        assert!(threshold.observe(20 * WINDOW_NS, 0, nothing));
        assert_eq!(threshold.tau(), 1);
        threshold.note_sent(0, 6000);
        assert!(threshold.observe(21 * WINDOW_NS, 0, nothing));
        assert_eq!(threshold.tau(), 2);
    }

    #[test]
    fn tau_stays_in_its_byte() {
        let mut threshold = threshold(Allocation::BestAccuracy);
        (0..1000).for_each(|window| {
            assert!(threshold.observe(window * WINDOW_NS, 100 * window, nothing) || window == 0)
        });
        assert_eq!(threshold.tau(), 255);
        (1000..2000).for_each(|window| assert!(threshold.observe(window * WINDOW_NS, 0, nothing)));
        assert_eq!(threshold.tau(), 1);
    }

    #[test]
    fn an_accuracy_target_is_a_lower_bound() {
        let mut threshold = threshold(Allocation::AccuracyTarget { epsilon: 0.001, spread: 16 });
        threshold.observe(0, 0, nothing);
        for window in 1..100 {
            threshold.observe(window * WINDOW_NS, 0, || Standing { total_weight: 1_000_000, stalls: 0 });
        }
        // 0.001 * 10^6 / 16 = 62.5
        assert_eq!(threshold.tau(), 62);
        threshold.observe(100 * WINDOW_NS, 0, || Standing { total_weight: u64::MAX, stalls: 0 });
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
