//! The threshold τ: as low as the ring lets it be.
//!
//! Source: OctoSketch, section 4.3, equations 1 and 2, with α = 0.25. Deviation: the queue's length is what a poll took; a ring that was
//! full doubles τ at once.

/// A counter of 8 bits holds less.
pub const TAU_MAX: u64 = 127;

/// Chooses τ by what polls find.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    tau: u64,
    target: u64,
    before: u64,
    kept: u64,
}

impl Threshold {
    /// Begins with `tau`, and aims at so many messages a poll.
    pub fn new(tau: u64, target: u64) -> Self {
        Self { tau: tau.clamp(1, TAU_MAX), target, before: 0, kept: 0 }
    }

    /// The threshold.
    pub fn tau(&self) -> u64 {
        self.tau
    }

    /// Adapts it to a poll that took so many messages, where the ring was full so often since the last turn of the round; whether it
    /// is another one now.
    pub fn adapt(&mut self, taken: u64, kept: u64) -> bool {
        let was = self.tau;
        let expected = (2 * taken).saturating_sub(self.before);
        self.before = taken;
        if kept > self.kept {
            self.tau *= 2;
        } else if 4 * expected > 5 * self.target {
            self.tau += 1;
        } else if 4 * expected < 3 * self.target {
            self.tau -= 1;
        }
        self.kept = kept;
        self.tau = self.tau.clamp(1, TAU_MAX);
        self.tau != was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_with_what_waits_and_falls_without() {
        let mut threshold = Threshold::new(4, 1000);
        assert!(!threshold.adapt(1000, 0) || threshold.tau() > 4, "twice the target is expected");
        let at = threshold.tau();
        assert!(threshold.adapt(3000, 0) && threshold.tau() == at + 1);
        assert!(threshold.adapt(3000, 5) && threshold.tau() == 2 * (at + 1), "the ring was full");
        for _ in 0..300 {
            threshold.adapt(0, 5);
        }
        assert_eq!(threshold.tau(), 1);
        for kept in 6..30 {
            threshold.adapt(u64::MAX / 4, kept);
        }
        assert_eq!(threshold.tau(), TAU_MAX);
    }
}
