//! Reads every checksum of every file that the last commit needs, and collects all damage.

use super::files::{same_hash, stream};
use super::format::{self, Superblock};
use super::{FileRef, Store, manifest};
use crate::device::block;
use crate::lock::lock;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// A place where stored bytes are not what was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file's name in the store's directory.
    pub file: String,
    /// Byte offset in the file.
    pub offset: u64,
    /// What is wrong, as a sentence.
    pub what: String,
}

/// What [`Store::verify`] found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct VerifyReport {
    /// Files read.
    pub files: u64,
    /// Blocks whose checksum was verified.
    pub blocks: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Blocks of files written in place that no attached summary vouches for, so that a failing checksum says nothing.
    pub unchecked_blocks: u64,
    /// All damage, by file.
    pub damaged: Vec<Damage>,
}

impl VerifyReport {
    /// Whether there is no damage.
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty()
    }

    fn add(&mut self, file: &str, error: &Error) {
        let offset = if let Error::Corrupt { at, .. } = error { *at } else { 0 };
        self.damaged.push(Damage { file: file.to_owned(), offset, what: error.to_string() });
    }

    fn count(&mut self, blocks: u64) {
        self.files += 1;
        self.blocks += blocks;
        self.bytes += blocks * crate::device::BLOCK_BYTES as u64;
    }
}

impl Store {
    /// Reads every checksum of every file that the last commit needs. Damage is collected, not returned as an error.
    ///
    /// Commits and closes wait for it; what is committed stands still meanwhile, what is added does not.
    ///
    /// # Cost
    /// Reads the whole store once, in 256 KiB pieces.
    ///
    /// # Errors
    /// `Io` if the superblock or the manifest cannot be read at all; `InvalidOption` inside what a summary of the store calls.
    pub fn verify(&self) -> Result<VerifyReport> {
        let core = &*self.core;
        core.poison.check_process()?;
        core.files.refuse_called("verification")?;
        let journal = lock(&core.journal);
        let catalog = self.catalog();
        let mut report = VerifyReport::default();
        let mut found = Vec::new();
        let blocks = Superblock::verify(&*core.device, &mut |_, error| found.push(error))?;
        report.count(blocks);
        found.drain(..).for_each(|error| report.add(format::SUPERBLOCK_NAME, &error));

        let owner = core.files.owner(journal.superblock.manifest);
        let blocks =
            manifest::verify(&*journal.manifest, owner, journal.log_bytes, &mut |_, e| found.push(e))?;
        report.count(blocks);
        found.drain(..).for_each(|error| report.add(journal.manifest.name(), &error));

        for (name, stored) in &catalog.summaries {
            let participant = core.state().attached.get(name).map(|one| Arc::clone(&one.participant));
            for file in stored.files() {
                let live = match &participant {
                    _ if !file.is_in_place() => Some(std::iter::once(0..u64::MAX).collect()),
                    Some(participant) => participant.live_blocks(file),
                    None => None,
                };
                self.verify_file(file, live, &mut report);
            }
        }
        Ok(report)
    }

    fn verify_file(&self, file_ref: &FileRef, live: Option<Vec<Range<u64>>>, report: &mut VerifyReport) {
        let name = format::data_name(file_ref.id);
        let path = &self.core.files.path(file_ref.id);
        let owner = self.core.files.owner(file_ref.id);
        let file = match self.core.files.open(file_ref) {
            Ok(file) => file,
            Err(error) => return report.add(&name, &error),
        };
        report.files += 1;
        let result = stream(&*file, file_ref.bytes, &mut |number, block| {
            report.bytes += block.len() as u64;
            match &live {
                None => report.unchecked_blocks += 1,
                Some(live) if live.iter().any(|range| range.contains(&number)) => {
                    report.blocks += 1;
                    if let Err(error) = block::check(block, owner, number, path) {
                        report.add(&name, &error);
                    }
                }
                Some(_) => {}
            }
            Ok(())
        });
        let hash_holds = |hash| if file_ref.is_in_place() { Ok(()) } else { same_hash(path, file_ref, hash) };
        if let Err(error) = result.and_then(hash_holds) {
            report.add(&name, &error);
        }
    }
}
