//! What a commit's record says of a dictionary.
//!
//! ```text
//!   0       4         8             16           20            21         22      23
//!   ┼ magic ┼ version ┼ memory bytes ┼ page blocks ┼ compression ┼ operator ┼ ranks ┼ 0 ┼ the tree, see `lsm/format`
//! ```
//!
//! All numbers are little-endian. A change to any byte, of the tree too, bumps [`VERSION`].

use super::operator::MergeOperator;
use super::options::{AskedFor, DictionaryOptions, Shape};
use super::run::Compression;
use crate::bytes::ByteReader;
use crate::lsm::StoredTree;
use crate::store::FileRef;
use crate::{Error, Result};

/// The version of everything in this file, and of the tree in the state.
pub(super) const VERSION: u32 = 1;

const MAGIC: [u8; 4] = *b"OBdi";

pub(super) fn encode(options: &DictionaryOptions, tree: &StoredTree<()>) -> Vec<u8> {
    let Shape { page_blocks, compression, operator, has_ranks } = options.shape;
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((options.memory_bytes as u64).to_le_bytes());
    bytes.extend(page_blocks.to_le_bytes());
    bytes.extend([compression as u8, MergeOperator::code(operator), u8::from(has_ranks), 0]);
    tree.encode(&mut bytes, |(), _| {});
    bytes
}

/// Reads what [`encode`] wrote; `files` are those of the record.
///
/// # Errors
/// `Corrupt`, `UnsupportedVersion`.
pub(super) fn decode(bytes: &[u8], files: &[FileRef]) -> Result<(DictionaryOptions, StoredTree<()>)> {
    let mut fields = ByteReader::new(bytes);
    fields.magic("magic", MAGIC)?;
    let version = fields.u32()?;
    if version != VERSION {
        let what = "the dictionary".to_owned();
        return Err(Error::UnsupportedVersion { what, found: version, supported: VERSION });
    }
    let memory_bytes = usize::try_from(fields.u64()?).unwrap_or(usize::MAX);
    let page_blocks = fields.u32()?;
    let [compression, operator, has_ranks, zero] = fields.array()?;
    let shape = match (Compression::of_code(compression), MergeOperator::of_code(operator), has_ranks, zero) {
        (Some(compression), Some(operator), 0 | 1, 0) if matches!(page_blocks, 1 | 4) => {
            Shape { page_blocks, compression, operator, has_ranks: has_ranks == 1 }
        }
        _ => {
            let found =
                format!("{page_blocks} blocks a page, {compression}, {operator}, {has_ranks}, {zero}");
            return Err(fields.corrupt("the shape of a dictionary", "known codes", found));
        }
    };
    let tree = StoredTree::decode(&mut fields, files, 0, |_| Ok(()))?;
    fields.require_left(Some(0))?;
    Ok((DictionaryOptions { memory_bytes, shape, asked_for: AskedFor::default() }, tree))
}
