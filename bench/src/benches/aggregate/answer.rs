//! What an engine answered, in a few numbers that all of them can give.

use crate::{Result, digest_bytes, digest_u64s, digest_unordered};
use std::path::Path;

/// Sums over all groups.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Answer {
    pub(super) groups: u64,
    pub(super) records: u64,
    /// Of the squares of counts.
    pub(super) squares: u64,
}

impl Answer {
    pub(super) fn add(&mut self, count: u64) {
        self.groups += 1;
        self.records += count;
        self.squares += count * count;
    }

    /// What the engines of a contest are compared by.
    pub(super) fn digest(self) -> u64 {
        digest_u64s([self.groups, self.records, self.squares])
    }
}

/// Every key with its count, in any order: what the engines that show their groups are compared by, too.
#[derive(Clone, Copy, Default)]
pub(super) struct AllGroups(u64);

impl AllGroups {
    pub(super) fn add(&mut self, key: &[u8], count: u64) {
        self.0 = self.0.wrapping_add(digest_unordered([digest_bytes(key) ^ count.rotate_left(32)]));
    }

    /// Compares with what the engine before left in `folder`, or leaves it there.
    pub(super) fn agree(self, folder: &Path, engine: &str) -> Result<()> {
        let (file, found) = (folder.join("digest"), format!("{:016x}", self.0));
        if !file.exists() {
            return Ok(std::fs::write(file, found)?);
        }
        let expected = std::fs::read_to_string(file)?;
        if expected == found {
            return Ok(());
        }
        Err(format!("{engine} has other groups than the engines before it (digest {found}, not {expected})")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_groups_does_not_matter_and_everything_else_does() {
        let digest = |groups: &[(&[u8], u64)]| {
            let mut all = AllGroups::default();
            groups.iter().for_each(|(key, count)| all.add(key, *count));
            all
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        digest(&[(b"a", 1), (b"b", 2)]).agree(folder.path(), "one").expect("the first");
        digest(&[(b"b", 2), (b"a", 1)]).agree(folder.path(), "two").expect("the same");
        digest(&[(b"a", 2), (b"b", 1)]).agree(folder.path(), "three").expect_err("other counts");
        digest(&[(b"a", 1)]).agree(folder.path(), "four").expect_err("a group is missing");
    }
}
