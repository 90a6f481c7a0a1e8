//! What a command commits beside its summaries: where the reader stands, and whether the stream was read to its end.
//!
//! ```text
//! of a profile   magic "OBrun" 5 B │ version u8 │ complete u8 │ the reader's position …
//! of a filter    magic "OBset" 5 B │ version u8 │ complete u8 │ job u8 │ window 17 B │ output 51 B │ the reader's position …
//!     job:    0 unknown, 1 puts keys in, 2 forgets keys; 3 prints first rows, 4 repeats, 5 and 6 the numbers of either
//!     window: kind u8 (0 none, 1 rows, 2 nanoseconds) │ length u64 │ how much of the newest pane has passed u64
//!     output: kind u8 (0 nothing is printed, 1 a stream, 2 a file) │ ended u8 │ open row u8 │ start u64 │ bytes u64
//!             │ XXH3-128 of them u128 │ device u64 │ inode u64
//! ```
//!
//! Version 1 of a filter's state named the output by device, inode and length alone. Such a store is taken up by later runs,
//! but a run of it that printed rows cannot be resumed: nothing says what its output held. Versions 1 and 2 have no job.

use crate::failure::Failure;
use overbank_ingest::Position;

const MAGIC: &[u8; 5] = b"OBrun";
const FILTER_MAGIC: &[u8; 5] = b"OBset";
const VERSION: u8 = 1;
const FILTER_VERSION: u8 = 3;

/// Where a run of `profile` stands.
pub(crate) struct RunState {
    /// Whether every input was read to its end.
    pub(crate) complete: bool,
    /// Behind the last counted chunk.
    pub(crate) position: Position,
}

impl RunState {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, u8::from(self.complete)]);
        bytes.extend(self.position.to_bytes());
        bytes
    }

    /// Reads what [`RunState::to_bytes`] wrote; the store has verified its checksum.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let (_, complete, position) = opened(bytes, MAGIC, VERSION)?;
        Ok(Self { complete, position: Position::from_bytes(position)? })
    }
}

/// Where a run of a command that fills a filter stands.
pub(crate) struct FilterState {
    pub(crate) run: RunState,
    pub(crate) job: Job,
    pub(crate) window: Window,
    pub(crate) output: Mark,
}

/// What a run does with keys and rows; another one cannot go on with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Job {
    /// Committed by a version that did not note it.
    #[default]
    Unknown = 0,
    Build = 1,
    Remove = 2,
    FirstRows = 3,
    Repeats = 4,
    NumbersOfFirstRows = 5,
    NumbersOfRepeats = 6,
}

impl Job {
    const ALL: [Self; 7] = [
        Self::Unknown,
        Self::Build,
        Self::Remove,
        Self::FirstRows,
        Self::Repeats,
        Self::NumbersOfFirstRows,
        Self::NumbersOfRepeats,
    ];

    /// What a command with it does, in words.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Unknown => "is not known",
            Self::Build => "puts keys in and prints no rows",
            Self::Remove => "forgets keys and prints no rows",
            Self::FirstRows => "prints the first rows",
            Self::Repeats => "prints the repeats",
            Self::NumbersOfFirstRows => "prints the numbers of the first rows",
            Self::NumbersOfRepeats => "prints the numbers of the repeats",
        }
    }
}

/// How long keys are remembered, and how far the newest pane is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kind: WindowKind,
    /// Rows or nanoseconds.
    pub(crate) length: u64,
    pub(crate) passed: u64,
}

/// What a window is measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WindowKind {
    #[default]
    None = 0,
    Rows = 1,
    Nanoseconds = 2,
}

/// How far the output is, known by what it holds: files are copied and moved, and devices change their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) kind: MarkKind,
    /// Whether the run ended by itself, so that nothing was printed behind this mark.
    pub(crate) ended: bool,
    /// Whether the last row had no line end.
    pub(crate) is_open: bool,
    /// Where in its file the output starts.
    pub(crate) start: u64,
    /// Bytes from there.
    pub(crate) bytes: u64,
    /// XXH3-128 of those bytes of a file.
    pub(crate) hash: u128,
    /// Device and inode of the file: a hint that matters while there are no bytes to know it by.
    pub(crate) identity: (u64, u64),
}

/// What the rows went to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MarkKind {
    /// The command prints no rows.
    #[default]
    Nothing = 0,
    /// A pipe, a terminal, a device: what is printed cannot be looked at again.
    Stream = 1,
    /// A file.
    File = 2,
    /// Printed by a version that did not note what.
    Unknown,
}

impl Mark {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.kind as u8, u8::from(self.ended), u8::from(self.is_open)];
        bytes.extend(self.start.to_le_bytes());
        bytes.extend(self.bytes.to_le_bytes());
        bytes.extend(self.hash.to_le_bytes());
        bytes.extend(self.identity.0.to_le_bytes());
        bytes.extend(self.identity.1.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &mut &[u8]) -> Result<Self, Failure> {
        let kind = match byte(bytes)? {
            0 => MarkKind::Nothing,
            1 => MarkKind::Stream,
            2 => MarkKind::File,
            _ => return Err(foreign()),
        };
        let (ended, is_open) = (flag(bytes)?, flag(bytes)?);
        let (start, length) = (number(bytes)?, number(bytes)?);
        let hash = u128::from(number(bytes)?) | u128::from(number(bytes)?) << 64;
        let identity = (number(bytes)?, number(bytes)?);
        Ok(Self { kind, ended, is_open, start, bytes: length, hash, identity })
    }
}

impl FilterState {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Self { run, job, window, output } = self;
        let mut bytes = FILTER_MAGIC.to_vec();
        bytes.extend([FILTER_VERSION, u8::from(run.complete), *job as u8, window.kind as u8]);
        bytes.extend(window.length.to_le_bytes());
        bytes.extend(window.passed.to_le_bytes());
        bytes.extend(output.to_bytes());
        bytes.extend(run.position.to_bytes());
        bytes
    }

    /// Reads what [`FilterState::to_bytes`] wrote; the store has verified its checksum.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let (version, complete, mut rest) = opened(bytes, FILTER_MAGIC, FILTER_VERSION)?;
        let job = match version {
            1 | 2 => Job::Unknown,
            _ => *Job::ALL.get(usize::from(byte(&mut rest)?)).ok_or_else(foreign)?,
        };
        let kind = match byte(&mut rest)? {
            0 => WindowKind::None,
            1 => WindowKind::Rows,
            2 => WindowKind::Nanoseconds,
            _ => return Err(foreign()),
        };
        let window = Window { kind, length: number(&mut rest)?, passed: number(&mut rest)? };
        let output = if version == 1 {
            for _device_inode_length in 0..3 {
                number(&mut rest)?;
            }
            Mark { kind: MarkKind::Unknown, ..Mark::default() }
        } else {
            Mark::from_bytes(&mut rest)?
        };
        Ok(Self { run: RunState { complete, position: Position::from_bytes(rest)? }, job, window, output })
    }
}

fn number(bytes: &mut &[u8]) -> Result<u64, Failure> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or_else(foreign)?;
    *bytes = rest;
    Ok(u64::from_le_bytes(*number))
}

fn byte(bytes: &mut &[u8]) -> Result<u8, Failure> {
    let (byte, rest) = bytes.split_first().ok_or_else(foreign)?;
    *bytes = rest;
    Ok(*byte)
}

fn flag(bytes: &mut &[u8]) -> Result<bool, Failure> {
    match byte(bytes)? {
        flag @ (0 | 1) => Ok(flag == 1),
        _ => Err(foreign()),
    }
}

/// The version of a state, whether its stream was read to its end, and what follows.
pub(crate) fn opened<'b>(bytes: &'b [u8], magic: &[u8], newest: u8) -> Result<(u8, bool, &'b [u8]), Failure> {
    match bytes.strip_prefix(magic).ok_or_else(foreign)? {
        [version, complete @ (0 | 1), rest @ ..] if (1..=newest).contains(version) => {
            Ok((*version, *complete == 1, rest))
        }
        [version, ..] if *version > newest => Err(Failure::Overbank(overbank::Error::UnsupportedVersion {
            what: "the state of the run".to_owned(),
            found: (*version).into(),
            supported: newest.into(),
        })),
        _ => Err(foreign()),
    }
}

pub(crate) fn foreign() -> Failure {
    Failure::Usage(
        "the store was committed by another command or program, so this one cannot tell where its stream stands; choose \
         another directory"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position of a reader at the start of its stream.
    fn start() -> Position {
        overbank_ingest::Reader::open(overbank_ingest::Options::new(["/dev/null"]))
            .expect("an empty input")
            .position()
            .clone()
    }

    fn state() -> FilterState {
        let output = Mark {
            kind: MarkKind::File,
            ended: true,
            is_open: false,
            start: 3,
            bytes: 4,
            hash: u128::MAX - 5,
            identity: (6, 7),
        };
        let window = Window { kind: WindowKind::Rows, length: 8, passed: 9 };
        FilterState { run: RunState { complete: true, position: start() }, job: Job::Repeats, window, output }
    }

    #[test]
    fn what_is_written_is_read_back_and_the_version_before_it_too() {
        let back = FilterState::from_bytes(&state().to_bytes()).expect("our own bytes");
        assert_eq!((back.output, back.window, back.run.complete), (state().output, state().window, true));
        assert_eq!(back.job, Job::Repeats);
        let mut second = state().to_bytes();
        second[5] = 2;
        second.remove(7);
        let back = FilterState::from_bytes(&second).expect("version 2");
        assert_eq!((back.job, back.output, back.window), (Job::Unknown, state().output, state().window));
        let mut first = FILTER_MAGIC.to_vec();
        first.extend([1, 1, WindowKind::Rows as u8]);
        for number in [8u64, 9, 10, 11, 12] {
            first.extend(number.to_le_bytes());
        }
        first.extend(start().to_bytes());
        let back = FilterState::from_bytes(&first).expect("version 1");
        assert_eq!(
            (back.output.kind, back.window, back.run.complete),
            (MarkKind::Unknown, state().window, true)
        );
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let mut whole = state().to_bytes();
        for length in 0..whole.len() {
            assert!(FilterState::from_bytes(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(RunState::from_bytes(&whole).is_err(), "a filter is no profile");
        for (at, bad) in [(6, 2), (7, 7), (8, 3), (25, 3), (26, 2), (27, 2)] {
            let mut damaged = whole.clone();
            damaged[at] = bad;
            assert!(FilterState::from_bytes(&damaged).is_err(), "byte {at}");
        }
        whole[5] = 9;
        assert!(
            FilterState::from_bytes(&whole)
                .err()
                .is_some_and(|error| error.to_string().contains("version 9"))
        );
    }
}
