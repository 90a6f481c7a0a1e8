//! The targets: one file each, named as the target.

use crate::Target;

pub mod count_min;
pub mod ddsketch;
pub mod hyperloglog;
pub mod memory_device;
pub mod planted;
pub mod radix_sort;
pub mod sealed_block;
pub mod space_saving;

/// Every target but [`planted`], which exists to crash.
pub const ALL: &[&Target] = &[
    &count_min::TARGET,
    &ddsketch::TARGET,
    &hyperloglog::TARGET,
    &memory_device::TARGET,
    &radix_sort::TARGET,
    &sealed_block::TARGET,
    &space_saving::TARGET,
];

/// The decoders of sketches.
#[cfg(test)]
pub(crate) const SKETCHES: &[&Target] =
    &[&count_min::TARGET, &ddsketch::TARGET, &hyperloglog::TARGET, &space_saving::TARGET];
