//! The paper's cost model (section 5.2.1): what a job costs by the prices of its machines' resources.

use super::answer::Answer;
use crate::{Clock, Metric};

/// Amazon's prices of April 2012 as the paper solves them: cents an hour.
const ECU_CENTS: f64 = 1.51;
const GB_CENTS: f64 = 1.93;
/// Compute units of a core: those of the standard instances then.
const CORE_ECUS: f64 = 2.0;

/// Notes what a billion records would cost: CPU time as it was spent, memory at its peak as long as the job ran.
pub(super) fn note(clock: &mut Clock, answer: Answer) {
    let (wall_ns, cpu_ns) = clock.spent_ns();
    let Some(bytes) = clock.noted(Metric::PeakRssBytes) else { return };
    let cents = cents(wall_ns as f64, cpu_ns as f64, bytes);
    clock.note(Metric::CentsPerGOps, cents * 1e9 / answer.records.max(1) as f64);
}

fn cents(wall_ns: f64, cpu_ns: f64, bytes: f64) -> f64 {
    const HOUR_NS: f64 = 3600.0 * 1e9;
    (cpu_ns * CORE_ECUS * ECU_CENTS + wall_ns * bytes / 1e9 * GB_CENTS) / HOUR_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_a_core_and_a_gigabyte_costs_what_the_paper_says() {
        let hour_ns = 3600.0 * 1e9;
        assert!((cents(hour_ns, hour_ns, 1e9) - (2.0 * 1.51 + 1.93)).abs() < 1e-9);
        assert!((cents(hour_ns, 0.0, 2e9) - 2.0 * 1.93).abs() < 1e-9);
    }
}
