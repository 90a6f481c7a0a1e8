//! Reads a run in order, the whole of it or a range.

use super::decode;
use super::entries::Entries;
use super::reader::{FingerprintSegment, in_file};
use crate::Result;
use crate::device::BLOCK_BYTES;
use crate::segment::Scan;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Read at a time: enough for a device's sequential rate, and little beside a merge's other buffers.
const PIECE_BYTES: usize = 64 * BLOCK_BYTES;

/// A place in a run, between two blocks. It outlives its [`FingerprintSegment`].
#[derive(Debug)]
pub struct RunCursor {
    scan: Scan,
    path: PathBuf,
    max: u64,
    last: Option<u64>,
    range: RangeInclusive<u64>,
}

impl RunCursor {
    pub(super) fn new(run: &FingerprintSegment, range: RangeInclusive<u64>, is_ahead: bool) -> Result<Self> {
        let scan = run.segment.scan_pieces(run.blocks_of(&range), PIECE_BYTES, is_ahead)?;
        Ok(RunCursor { scan, path: run.segment.path().into(), max: run.max(), last: None, range })
    }

    /// Appends the next block's entries, as far as they are in the cursor's range, to `into`, which holds none above them; false
    /// at the end.
    ///
    /// # Errors
    /// `Corrupt`, or what the device says. The cursor is then of no use, and `into` holds anything.
    pub fn next_block(&mut self, into: &mut Entries) -> Result<bool> {
        let Some((number, body)) = self.scan.next_block()? else { return Ok(false) };
        let start = into.len();
        let decoded = decode::decode(body, self.max, into).and_then(|()| {
            let first = into.fingerprints[start];
            match self.last {
                Some(last) if last >= first => Err(decode::disorder(first)),
                _ => Ok(()),
            }
        });
        decoded.map_err(|error| in_file(error, &self.path, number * BLOCK_BYTES as u64))?;
        self.last = into.fingerprints.last().copied();
        into.trim(start, &self.range);
        Ok(true)
    }
}
