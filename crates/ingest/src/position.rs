//! Where a reader stands, as bytes that a store can commit.
//!
//! ```text
//! version u32 │ options u64 │ sequence u64 │ offset u64 │ line u64 │ rows u64 │ rejected bytes u64 │
//! their hash u128, from version 2 on │ finished u64 │ their fingerprint u64 │ being read u8 │ input, if one is being read │
//! place, in version 3
//! input: path length u32 │ path │ regular u8 │ size u64 │ head length u32 │ head fingerprint u64
//! place: 0 before all text, 1 in text without a header, 2 in a sequence u8 │ at the start of a line u8 │ lead length u32 │ lead
//! ```
//! Little-endian. The inputs before the one being read are finished: of them only the number is kept, and one
//! fingerprint folded over them in order. So a position takes the same few bytes for one input as for a million,
//! at most a path (4 KiB in Linux) and 110 bytes. Version 3 is that of sequences that come in pieces
//! ([`crate::Options::sequence_overlap`]); all other positions have version 2.
//!
//! 1. Resuming from the position after chunk `n` yields chunk `n + 1` and all that follow, byte for byte.
//! 2. A finished input has the size and first bytes that it had; the current one may have grown, as logs do.

use crate::options::OVERLAP_MAX;
use crate::piece::{Part, Place};
use crate::system::path_of;
use crate::{Error, Result};
use keyhash::{HashKind, KeyHasher, Seed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const VERSION: u32 = 2;
/// That of positions in sequences.
const VERSION_OF_PLACES: u32 = 3;
/// How many first bytes of an input are fingerprinted: one block, read anyway to detect the compression.
pub(crate) const HEAD_BYTES: usize = 4096;

/// Where the stream stands: which inputs are finished, and how far the current one is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub(crate) options: u64,
    pub(crate) sequence: u64,
    /// Bytes of the decompressed current input (rows for Parquet) before this position.
    pub(crate) offset: u64,
    /// Lines (rows for Parquet) of the current input before this position.
    pub(crate) line: u64,
    rows: u64,
    rejected_bytes: u64,
    rejected_hash: u128,
    pub(crate) finished: Finished,
    pub(crate) current: Option<Arc<Identity>>,
    /// What the next piece of a sequence has of those before it.
    pub(crate) place: Option<Arc<Place>>,
}

impl Position {
    pub(crate) fn start(options: u64) -> Self {
        Self {
            options,
            sequence: 0,
            offset: 0,
            line: 0,
            rows: 0,
            rejected_bytes: 0,
            rejected_hash: 0,
            finished: Finished::default(),
            current: None,
            place: None,
        }
    }

    /// Goes on to the start of another input; the one before it is finished.
    pub(crate) fn enter(&mut self, input: Identity) {
        if let Some(finished) = self.current.replace(Arc::new(input)) {
            self.finished.add(&finished);
        }
        (self.offset, self.line, self.place) = (0, 0, None);
    }

    /// Notes how many rows of any kind come before: only the caller, who collects the batches, knows.
    #[must_use]
    pub fn with_rows(mut self, rows: u64) -> Self {
        self.rows = rows;
        self
    }

    /// The rows noted by [`Position::with_rows`].
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Notes how many bytes of rejected rows ([`crate::Batch::rejects`]) were written up to here, and a hash of them: only the caller,
    /// who collects the batches, knows.
    #[must_use]
    pub fn with_rejected(mut self, bytes: u64, hash: u128) -> Self {
        (self.rejected_bytes, self.rejected_hash) = (bytes, hash);
        self
    }

    /// The bytes noted by [`Position::with_rejected`].
    pub fn rejected_bytes(&self) -> u64 {
        self.rejected_bytes
    }

    /// The hash noted by [`Position::with_rejected`]; none in the positions of releases that noted bytes alone.
    pub fn rejected_hash(&self) -> Option<u128> {
        (self.rejected_hash != 0).then_some(self.rejected_hash)
    }

    /// How many chunks lie before this position.
    pub fn chunks(&self) -> u64 {
        self.sequence
    }

    /// The input that is being read and the decompressed bytes of it (rows for Parquet) that lie before this position.
    pub fn current(&self) -> Option<(&Path, u64)> {
        self.current.as_ref().map(|input| (input.path.as_path(), self.offset))
    }

    /// The position as bytes: 85, and for the input being read its path and 25 more; within sequences that come in pieces, the overlap and
    /// at most 7 more.
    pub fn to_bytes(&self) -> Vec<u8> {
        let version = if self.place.is_some() { VERSION_OF_PLACES } else { VERSION };
        let mut out = version.to_le_bytes().to_vec();
        let Finished { count, fingerprint } = self.finished;
        for number in [self.options, self.sequence, self.offset, self.line, self.rows, self.rejected_bytes] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.rejected_hash.to_le_bytes());
        [count, fingerprint].into_iter().for_each(|number| out.extend(number.to_le_bytes()));
        out.push(u8::from(self.current.is_some()));
        if let Some(input) = &self.current {
            input.append_to(&mut out);
        }
        if let Some(place) = &self.place {
            append_place(place, &mut out);
        }
        out
    }

    /// Reads what [`Position::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::BadPosition`] if the bytes are anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Bytes(bytes);
        let version = bytes.u32()?;
        if !(1..=VERSION_OF_PLACES).contains(&version) {
            let why =
                format!("it has version {version} and this build reads versions 1 to {VERSION_OF_PLACES}");
            return Err(Error::BadPosition { why });
        }
        let [options, sequence, offset, line, rows, rejected_bytes] = bytes.u64s()?;
        let rejected_hash =
            if version == 1 { 0 } else { u128::from(bytes.u64()?) | u128::from(bytes.u64()?) << 64 };
        let [count, fingerprint] = bytes.u64s()?;
        let finished = Finished { count, fingerprint };
        let current = match bytes.flag("whether an input is being read")? {
            true => Some(Arc::new(Identity::take_from(&mut bytes)?)),
            false => None,
        };
        let place = match version {
            VERSION_OF_PLACES => Some(Arc::new(take_place(&mut bytes)?)),
            _ => None,
        };
        if !bytes.0.is_empty() {
            return Err(Error::BadPosition { why: format!("{} bytes follow its end", bytes.0.len()) });
        }
        if current.is_none() && (finished != Finished::default() || offset != 0 || place.is_some()) {
            return Err(Error::BadPosition { why: "it lies behind inputs that it does not name".into() });
        }
        Ok(Self {
            options,
            sequence,
            offset,
            line,
            rows,
            rejected_bytes,
            rejected_hash,
            finished,
            current,
            place,
        })
    }
}

/// The inputs that were read to their end: how many, and one fingerprint folded over all of them in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) count: u64,
    pub(crate) fingerprint: u64,
}

impl Finished {
    pub(crate) fn add(&mut self, input: &Identity) {
        let mut bytes = self.fingerprint.to_le_bytes().to_vec();
        input.append_to(&mut bytes);
        *self = Self { count: self.count + 1, fingerprint: fold(&bytes) };
    }

    /// Checks that the inputs found now, folded one by one into `found`, are these.
    pub(crate) fn check(&self, found: &Finished) -> Result<()> {
        if self == found {
            return Ok(());
        }
        let what = match self.count {
            1 => "the fingerprint of the first input (its name, size and first bytes)".into(),
            count => {
                format!("the fingerprint of the first {count} inputs (their names, sizes and first bytes)")
            }
        };
        let [expected, found] = [self, found].map(|finished| format!("{:016x}", finished.fingerprint));
        Err(Error::Changed { what, expected, found })
    }
}

/// What an input looked like when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) path: PathBuf,
    /// Whether it is a regular file; nothing more is known of a pipe.
    pub(crate) regular: bool,
    pub(crate) size: u64,
    pub(crate) head_len: u32,
    pub(crate) head: u64,
}

impl Identity {
    pub(crate) fn pipe(path: &Path) -> Self {
        Self { path: path.to_path_buf(), regular: false, size: 0, head_len: 0, head: fold(&[]) }
    }

    /// `head` holds the file's first bytes, at most [`HEAD_BYTES`] of them.
    pub(crate) fn file(path: &Path, size: u64, head: &[u8]) -> Self {
        let head = &head[..head.len().min(HEAD_BYTES).min(usize::try_from(size).unwrap_or(usize::MAX))];
        Self { path: path.to_path_buf(), regular: true, size, head_len: head.len() as u32, head: fold(head) }
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        let path = self.path.as_os_str().as_encoded_bytes();
        out.extend((path.len() as u32).to_le_bytes());
        out.extend(path);
        out.push(u8::from(self.regular));
        out.extend(self.size.to_le_bytes());
        out.extend(self.head_len.to_le_bytes());
        out.extend(self.head.to_le_bytes());
    }

    fn take_from(bytes: &mut Bytes<'_>) -> Result<Self> {
        let path_len = bytes.u32()? as usize;
        let path = path_of(bytes.take(path_len)?)
            .ok_or_else(|| Error::BadPosition { why: "its path is none on this system".into() })?;
        let regular = bytes.flag("whether the input is a file")?;
        Ok(Self { path, regular, size: bytes.u64()?, head_len: bytes.u32()?, head: bytes.u64()? })
    }

    /// Checks that an input found now, `size` bytes long and starting with `head`, is this one.
    pub(crate) fn check(&self, regular: bool, size: u64, head: &[u8], may_grow: bool) -> Result<()> {
        let changed = |what: &str, expected: String, found: String| {
            Err(Error::Changed { what: format!("{} of {}", what, self.path.display()), expected, found })
        };
        if self.regular != regular {
            let name = |regular| String::from(if regular { "a file" } else { "a pipe" });
            return changed("the kind", name(self.regular), name(regular));
        }
        if size < self.size || size > self.size && !may_grow {
            return changed("the size", format!("{} bytes", self.size), format!("{size} bytes"));
        }
        let now = head.get(..self.head_len as usize).map(fold);
        if now != Some(self.head) {
            let now = now.map_or("shorter".into(), |now| format!("{now:016x}"));
            return changed("the fingerprint of the first bytes", format!("{:016x}", self.head), now);
        }
        Ok(())
    }
}

fn fold(head: &[u8]) -> u64 {
    KeyHasher::new(HashKind::Xxh3, Seed(0)).hash(head).fold()
}

fn append_place(place: &Place, out: &mut Vec<u8>) {
    let part = match place.part {
        Part::Blank => 0,
        Part::Headless => 1,
        Part::Sequence => 2,
    };
    out.extend([part, u8::from(place.at_line_start)]);
    out.extend((place.lead.len() as u32).to_le_bytes());
    out.extend(&place.lead);
}

fn take_place(bytes: &mut Bytes<'_>) -> Result<Place> {
    let part = match bytes.take(1)? {
        [0] => Part::Blank,
        [1] => Part::Headless,
        [2] => Part::Sequence,
        _ => return Err(Error::BadPosition { why: "it lies in no part of an input".into() }),
    };
    let at_line_start = bytes.flag("whether a line starts there")?;
    let length = bytes.u32()? as usize;
    let lead = bytes.take(length)?.to_vec();
    if length > OVERLAP_MAX + 1 || lead.contains(&b'\n') || part != Part::Sequence && length > 0 {
        return Err(Error::BadPosition { why: "what comes before it is no end of a sequence".into() });
    }
    Ok(Place { part, at_line_start, lead })
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| Error::BadPosition { why: "it is cut short".into() })?;
        self.0 = rest;
        Ok(taken)
    }

    fn flag(&mut self, what: &str) -> Result<bool> {
        match self.take(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Error::BadPosition { why: format!("it does not tell {what}") }),
        }
    }

    fn u64s<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.u64()?;
        }
        Ok(numbers)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(self.take(4)?.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(self.take(8)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }
}
