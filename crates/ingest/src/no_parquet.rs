//! In the place of `parquet` where the feature of that name is off: such inputs are refused by name.

use crate::cell::ColumnType;
use crate::chunk::{Buffer, Pool};
use crate::rows::Rows;
use crate::{Error, Options, Result};
use std::convert::Infallible;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// There is none.
pub(crate) struct TableInput(Infallible);

/// What was cut off a file.
pub(crate) struct Records {
    pub(crate) text: Buffer,
    pub(crate) end: u64,
    pub(crate) consumed: u64,
}

impl TableInput {
    /// Says what is missing.
    pub(crate) fn open(_: File, path: &Path, _: usize, _: u64, _: &Options) -> Result<Self> {
        Err(Error::NotBuilt { path: path.to_path_buf(), what: "Parquet", feature: "parquet" })
    }

    pub(crate) fn next(&mut self, _: &Arc<Pool>, _: &Options) -> Result<Option<Records>> {
        match self.0 {}
    }

    pub(crate) fn column_types(&self, _: usize) -> Vec<ColumnType> {
        match self.0 {}
    }

    pub(crate) fn progress(&mut self, _: bool) -> u64 {
        match self.0 {}
    }
}

/// No reader makes such chunks.
pub(crate) fn parse(_: bool, _: &mut Rows) -> Result<()> {
    Ok(())
}
