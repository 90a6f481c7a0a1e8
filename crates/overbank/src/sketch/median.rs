//! How often a median of rows fails, given how often a row does.

/// The probability that at least half of `depth` rows fail, each independently with `row_failure`: only then is their median, or the
/// mean of the two in the middle, off by more than a row is.
pub(super) fn median_failure(depth: u32, row_failure: f64) -> f64 {
    let (mut term, mut sum) = ((1.0 - row_failure).powi(depth as i32), 0.0);
    if row_failure >= 1.0 {
        return 1.0;
    }
    for failed in 0..=depth {
        if 2 * failed >= depth {
            sum += term;
        }
        term *= f64::from(depth - failed) / f64::from(failed + 1) * row_failure / (1.0 - row_failure);
    }
    sum
}

/// How often a row may fail for the median to fail with at most `failure`, by halving intervals.
pub(super) fn row_failure(depth: u32, failure: f64) -> f64 {
    let (mut low, mut high) = (f64::MIN_POSITIVE, 1.0);
    // Of logarithms, since confidences may be close to 1.
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        match median_failure(depth, middle) <= failure {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// The median of a row's worth of numbers each; of an even number, the mean of the middle two.
pub(super) fn median_of(rows: &mut [f64]) -> f64 {
    rows.sort_unstable_by(f64::total_cmp);
    (rows[(rows.len() - 1) / 2] + rows[rows.len() / 2]) / 2.0
}
