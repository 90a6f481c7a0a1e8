//! The targets: one file each, named as the target.

use crate::Target;

pub mod memory_device;
pub mod planted;
pub mod sealed_block;

/// Every target but [`planted`], which exists to crash.
pub const ALL: &[&Target] = &[&memory_device::TARGET, &sealed_block::TARGET];
