//! How right an answer is (section 7.1 of the paper).
//!
//! | figure | of | is |
//! |---|---|---|
//! | recall | keys | truly heavy keys that are reported, of the truly heavy ones |
//! | precision | keys | truly heavy keys that are reported, of the reported ones |
//! | F1 | keys | the harmonic mean of the two |
//! | AAE, ARE | numbers | the mean absolute and relative error over all that are truly heavy, reported or not |
//!
//! A flow that nothing is known of is estimated as 0.
//!
//! Deviation: the published code takes errors of the heavy keys alone that are reported, which hides those that are missed.

use super::stream::Query;
use std::collections::HashSet;

/// What a sketch says.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Answer {
    /// The keys that it knows, with their estimates: reported where above the threshold.
    pub(super) known: Vec<(u64, f64)>,
    /// The numbers that were asked for, in order.
    pub(super) estimates: Vec<f64>,
}

/// How right it is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Score {
    pub(super) recall: f64,
    pub(super) precision: f64,
    pub(super) are: f64,
    pub(super) aae: f64,
}

impl Score {
    pub(super) fn of(answer: &Answer, query: &Query) -> Self {
        let heavy: HashSet<u64> = query.asked.iter().map(|asked| asked.key).collect();
        let known = answer.known.iter().filter(|known| known.1 > query.threshold);
        let reported: HashSet<u64> = known.map(|known| known.0).collect();
        let right = reported.intersection(&heavy).count();
        // Of nothing, all.
        let share = |of: usize| if of == 0 { 1.0 } else { right as f64 / of as f64 };
        let mean = |error: &dyn Fn(f64, f64) -> f64| {
            let pairs = query.asked.iter().zip(&answer.estimates);
            let sum: f64 = pairs.map(|(asked, &estimate)| error(estimate, asked.truth)).sum();
            sum / query.asked.len().max(1) as f64
        };
        Self {
            recall: share(heavy.len()),
            precision: share(reported.len()),
            are: mean(&|estimate, truth| (estimate - truth).abs() / truth),
            aae: mean(&|estimate, truth| (estimate - truth).abs()),
        }
    }

    pub(super) fn f1(&self) -> f64 {
        let sum = self.recall + self.precision;
        if sum > 0.0 { 2.0 * self.recall * self.precision / sum } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::Asked;
    use super::*;
    use keyhash::KeyHash;

    fn query(truths: &[f64]) -> Query {
        let asked = |(key, &truth): (u64, &f64)| Asked { key, hash: KeyHash(0), quantile: 0.0, truth };
        Query { asked: (0..).zip(truths).map(asked).collect(), threshold: 10.0 }
    }

    #[test]
    fn missed_and_wrongly_reported_keys_count_against_it() {
        let query = query(&[20.0, 40.0, 50.0, 100.0]);
        let known = vec![(0, 25.0), (1, 40.0), (2, 9.0), (7, 11.0), (8, 10.0)];
        let answer = Answer { known, estimates: vec![25.0, 40.0, 9.0, 0.0] };
        let score = Score::of(&answer, &query);
        assert_eq!((score.recall, score.precision), (0.5, 2.0 / 3.0));
        assert!((score.f1() - 4.0 / 7.0).abs() < 1e-12);
        assert_eq!(score.aae, (5.0 + 0.0 + 41.0 + 100.0) / 4.0);
        assert!((score.are - (0.25 + 0.0 + 0.82 + 1.0) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn where_nothing_is_heavy_nothing_is_missed() {
        let none = Score::of(&Answer::default(), &query(&[]));
        assert_eq!((none.f1(), none.are, none.aae), (1.0, 0.0, 0.0));
        let wrong = Answer { known: vec![(3, 11.0)], estimates: vec![] };
        assert_eq!(Score::of(&wrong, &query(&[])).precision, 0.0);
        assert_eq!(Score::of(&wrong, &query(&[20.0])).f1(), 0.0);
    }
}
