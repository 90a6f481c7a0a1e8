//! What a commit's record says of groups.
//!
//! ```text
//!   0       4         8             12
//!   ┼ magic ┼ version ┼ lg sections ┼ the aggregate, see `run/meta` ┼ the tree, see `lsm/format`: a run's class is its section, u32
//! ```
//!
//! All numbers are little-endian. A change to any byte, of the tree too, bumps [`VERSION`].

use super::run::AggregateId;
use crate::bytes::ByteReader;
use crate::lsm::StoredTree;
use crate::store::FileRef;
use crate::{Error, Result};

/// The version of everything in this file, and of the tree in the state.
pub(super) const VERSION: u32 = 1;

const MAGIC: [u8; 4] = *b"OBgr";
/// As many as there may be leaves.
const LG_SECTIONS_MAX: u32 = 12;

pub(super) fn encode(aggregate: &AggregateId, lg_sections: u32, tree: &StoredTree<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(lg_sections.to_le_bytes());
    bytes.extend(aggregate.encode());
    tree.encode(&mut bytes, |section, bytes| bytes.extend(section.to_le_bytes()));
    bytes
}

/// Reads what [`encode`] wrote; `files` are those of the record.
///
/// # Errors
/// `Corrupt`, `UnsupportedVersion`.
pub(super) fn decode(bytes: &[u8], files: &[FileRef]) -> Result<(AggregateId, u32, StoredTree<u32>)> {
    let mut fields = ByteReader::new(bytes);
    fields.magic("magic", MAGIC)?;
    let version = fields.u32()?;
    if version != VERSION {
        let what = "the groups".to_owned();
        return Err(Error::UnsupportedVersion { what, found: version, supported: VERSION });
    }
    let lg_sections = fields.u32()?;
    if lg_sections > LG_SECTIONS_MAX {
        return Err(fields.corrupt(
            "the sections of groups",
            format!("at most 2^{LG_SECTIONS_MAX}"),
            lg_sections,
        ));
    }
    let aggregate = AggregateId::decode(&mut fields)?;
    let tree = StoredTree::decode(&mut fields, files, 4, |fields| {
        let section = fields.u32()?;
        if section >> lg_sections == 0 {
            return Ok(section);
        }
        Err(fields.corrupt("the section of a run", format!("below 2^{lg_sections}"), section))
    })?;
    fields.require_left(Some(0))?;
    Ok((aggregate, lg_sections, tree))
}
