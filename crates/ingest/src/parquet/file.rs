//! An open file: its metadata, where its row groups and columns are.

use super::column::Column;
use super::memory::{Memory, Permit};
use super::{Fault, guarded};
use crate::system::read_exact_at;
use crate::{Error, Result};
use ::parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use ::parquet::schema::types::SchemaDescriptor;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The end of a file: the length of its metadata, and four bytes to know it by.
const TAIL_BYTES: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
/// As [`MAGIC`], where the metadata are encrypted.
const ENCRYPTED: &[u8; 4] = b"PARE";
/// How much larger metadata are in memory than in the file: a column takes some 120 bytes there, and 500 to 700 here.
const METADATA_GROWTH: u64 = 8;

/// An open file.
pub(crate) struct TableFile {
    file: Arc<File>,
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) metadata: ParquetMetaData,
    /// Row numbers of each row group.
    pub(super) groups: Vec<Range<u64>>,
    pub(super) memory: Memory,
    _permit: Permit,
}

impl std::fmt::Debug for TableFile {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("TableFile").field("path", &self.path).field("groups", &self.groups.len()).finish()
    }
}

impl TableFile {
    /// Reads the metadata; all of it and what is opened later takes at most `memory_bytes`.
    pub(super) fn open(file: File, path: &Path, memory_bytes: usize) -> Result<Self> {
        let failed = |source| Error::Read { path: path.to_path_buf(), at: 0, source };
        let size = file.metadata().map_err(failed)?.len();
        let memory = Memory::new(memory_bytes);
        let place = Place { path, column: "", row: 0, memory_bytes };
        let (metadata, permit) = read_metadata(&file, size, &memory).map_err(|fault| place.explain(fault))?;
        let groups = groups(&metadata).ok_or_else(|| {
            place.explain(Fault::Damaged("a row group has an impossible number of rows or columns".into()))
        })?;
        let path = path.to_path_buf();
        Ok(Self { file: Arc::new(file), path, size, metadata, groups, memory, _permit: permit })
    }

    pub(super) fn schema(&self) -> &SchemaDescriptor {
        self.metadata.file_metadata().schema_descr()
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// Opens leaf column `leaf` of a row group.
    pub(super) fn column(&self, group: usize, leaf: usize) -> std::result::Result<Column, Fault> {
        Column::open(&self.file, self.size, self.metadata.row_group(group).column(leaf), &self.memory)
    }
}

/// Where something went wrong.
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    pub(super) column: &'a str,
    pub(super) row: u64,
    /// The limit of all memory.
    pub(super) memory_bytes: usize,
}

impl Place<'_> {
    pub(super) fn explain(&self, fault: Fault) -> Error {
        let path = self.path.to_path_buf();
        match fault {
            Fault::Read(source) => Error::Read { path, at: self.row, source },
            Fault::Damaged(why) => Error::Damaged { path, what: "Parquet", at: self.row, why },
            Fault::Unsupported(what) => Error::Unsupported { path, what },
            Fault::DoesNotFit { what, bytes, needed_bytes } => {
                let of = if self.column.is_empty() {
                    String::new()
                } else {
                    format!(" of column {}", self.column)
                };
                Error::DoesNotFit {
                    path,
                    what: format!("a {what}{of}"),
                    bytes,
                    needed_bytes,
                    limit_bytes: self.memory_bytes as u64,
                }
            }
        }
    }
}

fn read_metadata(
    file: &File,
    size: u64,
    memory: &Memory,
) -> std::result::Result<(ParquetMetaData, Permit), Fault> {
    let damaged = |why: &str| Fault::Damaged(why.to_owned());
    let mut tail = [0; TAIL_BYTES as usize];
    let Some(tail_at) = size.checked_sub(TAIL_BYTES) else {
        return Err(damaged("it is shorter than the end of a Parquet file"));
    };
    read_exact_at(file, &mut tail, tail_at)?;
    let [a, b, c, d, magic @ ..] = tail;
    if &magic == ENCRYPTED {
        return Err(Fault::Unsupported("encryption".into()));
    }
    if &magic != MAGIC {
        return Err(damaged("it does not end as a Parquet file does; was it copied whole?"));
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(start) = tail_at.checked_sub(length) else {
        return Err(damaged("its metadata claim to be longer than the file"));
    };
    let mut permit = memory.take("table of row groups", length * (1 + METADATA_GROWTH))?;
    let mut bytes = vec![0; length as usize];
    read_exact_at(file, &mut bytes, start)?;
    let mut options = ParquetMetaDataOptions::new();
    options.set_column_stats_policy(ParquetStatisticsPolicy::SkipAll);
    options.set_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    options.set_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let decode = || ParquetMetaDataReader::decode_metadata_with_options(&bytes, Some(&options));
    let metadata = guarded(decode).map_err(Fault::Damaged)?;
    permit.shrink_to(metadata.memory_size() as u64);
    Ok((metadata, permit))
}

/// The rows of each row group; `None` if the metadata contradict themselves.
fn groups(metadata: &ParquetMetaData) -> Option<Vec<Range<u64>>> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    let mut start = 0u64;
    let mut groups = Vec::new();
    for group in metadata.row_groups() {
        let end = start.checked_add(u64::try_from(group.num_rows()).ok()?)?;
        if group.num_columns() != columns {
            return None;
        }
        groups.push(start..end);
        start = end;
    }
    Some(groups)
}
