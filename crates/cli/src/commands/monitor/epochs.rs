//! Which epoch a packet of a capture belongs to: by its time, and by what came before it.
//!
//! 1. Epochs begin at whole multiples of their length since 1970, wherever a capture begins: those of two captures can be compared.
//! 2. A packet ends the epoch if its time is not before the epoch's end. One that is late is of the epoch that is current.
//! 3. Epochs without a packet are none.

use crate::report::Span;
use std::time::Duration;

/// The epochs of a run.
#[derive(Debug)]
pub(super) struct Epochs {
    length_ns: Option<u64>,
    current: Option<Current>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    span: Span,
    first_ns: u64,
    last_ns: u64,
}

impl Epochs {
    /// Epochs of this length, or one without end.
    pub(super) fn new(length: Option<Duration>) -> Self {
        let length_ns = length.map(|length| u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1));
        Self { length_ns, current: None }
    }

    /// Takes a packet of this time into the current epoch; false, and nothing is changed, if it is the first of another.
    pub(super) fn take(&mut self, time_ns: u64) -> bool {
        match &mut self.current {
            // The end of time is that of no epoch.
            Some(current) if time_ns >= current.span.end_ns && current.span.end_ns < u64::MAX => false,
            Some(current) => {
                current.first_ns = current.first_ns.min(time_ns);
                current.last_ns = current.last_ns.max(time_ns);
                true
            }
            none => {
                let start_ns = self.length_ns.map_or(time_ns, |length| time_ns - time_ns % length);
                let end_ns = self.length_ns.map_or(u64::MAX, |length| start_ns.saturating_add(length));
                let span = Span { start_ns, end_ns };
                *none = Some(Current { span, first_ns: time_ns, last_ns: time_ns });
                true
            }
        }
    }

    /// When the current epoch is: from its begin to its end if that has come, else as far as its packets go.
    pub(super) fn span(&self, is_over: bool) -> Option<Span> {
        let Current { span, first_ns, last_ns } = self.current?;
        Some(match (self.length_ns, is_over) {
            (None, _) => Span { start_ns: first_ns, end_ns: last_ns },
            (Some(_), true) => span,
            (Some(_), false) => Span { end_ns: last_ns, ..span },
        })
    }

    /// How long it is from this time until the current epoch ends.
    pub(super) fn left(&self, time_ns: u64) -> Option<Duration> {
        let Current { span, .. } = self.current?;
        self.length_ns.map(|_| Duration::from_nanos(span.end_ns.saturating_sub(time_ns)))
    }

    /// The next packet begins an epoch.
    pub(super) fn end(&mut self) {
        self.current = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn epochs_begin_at_multiples_of_their_length() {
        let mut epochs = Epochs::new(Some(Duration::from_secs(10)));
        assert_eq!(epochs.span(false), None);
        assert!(epochs.take(17 * SECOND) && epochs.take(19 * SECOND) && epochs.take(20 * SECOND - 1));
        assert!(epochs.take(3 * SECOND), "what is late is of the current epoch");
        let left = [17, 20, 30].map(|seconds| epochs.left(seconds * SECOND));
        assert_eq!(left, [3, 0, 0].map(|seconds| Some(Duration::from_secs(seconds))));
        assert_eq!(epochs.span(true), Some(Span { start_ns: 10 * SECOND, end_ns: 20 * SECOND }));
        assert!(!epochs.take(20 * SECOND) && !epochs.take(95 * SECOND));
        epochs.end();
        assert!(epochs.take(95 * SECOND), "epochs between them have no packet");
        assert_eq!(epochs.span(false), Some(Span { start_ns: 90 * SECOND, end_ns: 95 * SECOND }));
    }

    #[test]
    fn one_epoch_is_from_the_first_packet_to_the_last() {
        let mut epochs = Epochs::new(None);
        assert!([30, 10, 20, u64::MAX].into_iter().all(|time| epochs.take(time)));
        for is_over in [false, true] {
            assert_eq!(epochs.span(is_over), Some(Span { start_ns: 10, end_ns: u64::MAX }));
        }
        assert_eq!((epochs.left(10), Epochs::new(Some(Duration::from_secs(1))).left(10)), (None, None));
    }

    #[test]
    fn the_last_epoch_of_all_has_no_end() {
        let mut epochs = Epochs::new(Some(Duration::from_secs(86_400)));
        assert!(epochs.take(u64::MAX - 1));
        assert_eq!(epochs.span(true).map(|span| span.end_ns), Some(u64::MAX));
    }
}
