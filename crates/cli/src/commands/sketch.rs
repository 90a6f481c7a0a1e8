//! The sketch on flash that the options of a command ask for.

use crate::arguments::SketchArguments;
use crate::failure::Failure;
use crate::units;
use overbank::Error;
use overbank::frequency::FrequencyOptions;
use overbank::profile::ProfilePlan;

/// A sketch so many times as large as the memory, unless its size or error is given: what flash costs less than RAM.
const FLASH_TIMES: u64 = 8;
/// A smaller sketch is none that RAM could not hold.
const FLASH_BYTES_MIN: u64 = 1 << 20;
/// Logs that may wait, unless told otherwise; fewer where the memory is small.
const PENDING: usize = 16;
/// The bits of a counter, unless told otherwise.
pub(super) const CELL_BITS: u32 = 32;
/// The share of keys that may be off by more, unless told otherwise.
const DELTA: f64 = 0.01;

/// What the arguments ask for, in a budget so planned.
pub(super) fn options(arguments: &SketchArguments, plan: &ProfilePlan) -> Result<FrequencyOptions, Failure> {
    let cells = FrequencyOptions::new().cell_bits(arguments.cell_bits.unwrap_or(CELL_BITS));
    let options = match (arguments.epsilon, arguments.flash) {
        (Some(epsilon), _) => cells.error(epsilon, arguments.delta),
        (None, Some(0)) => {
            return Err(Failure::Usage(
                "--flash cannot be 0: the counts are kept there; give the sketch a size, or use profile without --flash"
                    .to_owned(),
            ));
        }
        (None, bytes) => sized(cells, bytes, arguments.delta, plan)?,
    };
    let Some(pending) = arguments.pending else { return Ok(options.pending(PENDING)) };
    let wanted = options.clone().pending(pending.min(FrequencyOptions::PENDING_MAX));
    let most = plan.fitted(&wanted, 1)?.pending_chunks();
    if pending > most {
        return Err(Failure::Usage(format!(
            "--pending {pending} is more than the {most} logs that --memory {} has readers for; give less, or more memory",
            units::bytes(plan.memory_bytes)
        )));
    }
    Ok(options.pending(pending))
}

/// A sketch of `bytes`, or of the usual size.
pub(super) fn of_bytes(bytes: Option<u64>, plan: &ProfilePlan) -> Result<FrequencyOptions, Failure> {
    Ok(sized(FrequencyOptions::new(), bytes, DELTA, plan)?.pending(PENDING))
}

fn sized(
    cells: FrequencyOptions,
    bytes: Option<u64>,
    delta: f64,
    plan: &ProfilePlan,
) -> Result<FrequencyOptions, Failure> {
    let bytes = bytes.unwrap_or(FLASH_TIMES.saturating_mul(plan.memory_bytes));
    if bytes < FLASH_BYTES_MIN {
        return Err(Failure::Usage(format!(
            "--flash cannot be {}: it must be more than RAM holds to be of use; give at least {}",
            units::bytes(bytes),
            units::bytes(FLASH_BYTES_MIN)
        )));
    }
    // Any epsilon will do to learn how many rows delta needs.
    let depth = FrequencyOptions::new().error(0.5, delta).layout()?.depth();
    let options = cells.bytes(bytes, depth);
    match plan.fitted(&options, 1).and_then(|fitted| fitted.plan().map(drop)) {
        Err(Error::InvalidOption { name: "pages", why, .. }) => {
            Err(Failure::Usage(format!("--flash cannot be {}: {why}", units::bytes(bytes))))
        }
        _ => Ok(options),
    }
}
