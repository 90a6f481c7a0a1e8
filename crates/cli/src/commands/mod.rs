//! One file a command.

pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod distinct;
pub(crate) mod estimate;
pub(crate) mod info;
mod input;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod quantile;
mod session;
mod sketch;
mod stream;
pub(crate) mod top;
pub(crate) mod verify;

use crate::failure::Failure;
use overbank::store::{Store, StoreOptions};
use std::path::Path;

/// Opens a store to be queried, also beside a process that writes it.
pub(crate) fn open_to_read(directory: &Path) -> Result<Store, Failure> {
    Ok(Store::open_read_only(directory, StoreOptions::new())?)
}
