//! What a command commits beside its summaries: where the reader stands, and whether the stream was read to its end.
//!
//! ```text
//! of a profile   magic "OBrun" 5 B │ version u8 │ complete u8 │ the reader's position …
//! of a filter    magic "OBset" 5 B │ version u8 │ complete u8 │ window 17 B │ output 24 B │ the reader's position …
//!     window: kind u8 (0 none, 1 rows, 2 nanoseconds) │ length u64 │ how much of the newest pane has passed u64
//!     output: device u64 │ inode u64 │ length u64; all 0 where it is no file
//! ```

use crate::failure::Failure;
use overbank_ingest::Position;

const MAGIC: &[u8; 5] = b"OBrun";
const FILTER_MAGIC: &[u8; 5] = b"OBset";
const VERSION: u8 = 1;

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
        let (complete, position) = opened(bytes, MAGIC)?;
        Ok(Self { complete, position: Position::from_bytes(position)? })
    }
}

/// Where a run of a command that fills a filter stands.
pub(crate) struct FilterState {
    pub(crate) run: RunState,
    pub(crate) window: Window,
    pub(crate) output: Output,
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

/// The file that the rows went to, and how long it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
}

impl FilterState {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Self { run, window, output } = self;
        let mut bytes = FILTER_MAGIC.to_vec();
        bytes.extend([VERSION, u8::from(run.complete), window.kind as u8]);
        for number in [window.length, window.passed, output.device, output.inode, output.bytes] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(run.position.to_bytes());
        bytes
    }

    /// Reads what [`FilterState::to_bytes`] wrote; the store has verified its checksum.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let (complete, rest) = opened(bytes, FILTER_MAGIC)?;
        let (kind, rest) = rest.split_first().ok_or_else(foreign)?;
        let kind = match kind {
            0 => WindowKind::None,
            1 => WindowKind::Rows,
            2 => WindowKind::Nanoseconds,
            _ => return Err(foreign()),
        };
        let (numbers, position) = rest.split_first_chunk::<40>().ok_or_else(foreign)?;
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next().ok_or_else(foreign);
        let window = Window { kind, length: next()?, passed: next()? };
        let output = Output { device: next()?, inode: next()?, bytes: next()? };
        Ok(Self { run: RunState { complete, position: Position::from_bytes(position)? }, window, output })
    }
}

/// Whether the stream was read to its end, and what follows.
fn opened<'b>(bytes: &'b [u8], magic: &[u8]) -> Result<(bool, &'b [u8]), Failure> {
    match bytes.strip_prefix(magic).ok_or_else(foreign)? {
        [VERSION, complete @ (0 | 1), rest @ ..] => Ok((*complete == 1, rest)),
        [version, ..] if *version != VERSION => Err(Failure::Overbank(overbank::Error::UnsupportedVersion {
            what: "the state of the run".to_owned(),
            found: (*version).into(),
            supported: VERSION.into(),
        })),
        _ => Err(foreign()),
    }
}

fn foreign() -> Failure {
    Failure::Usage(
        "the store was committed by another command or program, so this one cannot tell where its stream stands; choose \
         another directory"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_state_is_refused() {
        let mut whole = FILTER_MAGIC.to_vec();
        whole.extend([VERSION, 1, 1]);
        whole.extend([7; 40]);
        for length in 0..whole.len() {
            assert!(FilterState::from_bytes(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(FilterState::from_bytes(&whole).is_err(), "no position follows");
        assert!(RunState::from_bytes(&whole).is_err(), "a filter is no profile");
        whole[5] = 9;
        assert!(
            FilterState::from_bytes(&whole)
                .err()
                .is_some_and(|error| error.to_string().contains("version 9"))
        );
    }
}
