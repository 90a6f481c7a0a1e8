//! What a command that changes a dictionary commits beside it: where the reader stands, whether all is in, and which command it is.
//!
//! ```text
//! magic "OBdic" 5 B │ version u8 │ complete u8 │ job u8 │ the reader's position …
//! ```

use crate::failure::Failure;
use crate::run_state::{RunState, foreign, opened};
use overbank_ingest::Position;

const MAGIC: &[u8; 5] = b"OBdic";
const VERSION: u8 = 1;

/// Where a run stands.
pub(crate) struct DictionaryState {
    pub(crate) run: RunState,
    pub(super) job: Job,
}

/// What a run does with rows; another one cannot go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Job {
    /// Pairs go into a new dictionary.
    Build = 1,
    /// Pairs replace others, or are merged into them.
    Update = 2,
    /// Keys go out.
    Delete = 3,
}

impl Job {
    /// The command.
    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Build => "dict build",
            Self::Update => "dict update",
            Self::Delete => "dict delete",
        }
    }
}

impl DictionaryState {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, u8::from(self.run.complete), self.job as u8]);
        bytes.extend(self.run.position.to_bytes());
        bytes
    }

    /// Reads what [`DictionaryState::to_bytes`] wrote; the store has verified its checksum.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let (_, complete, rest) = opened(bytes, MAGIC, VERSION)?;
        let (job, position) = rest.split_first().ok_or_else(foreign)?;
        let job = match job {
            1 => Job::Build,
            2 => Job::Update,
            3 => Job::Delete,
            _ => return Err(foreign()),
        };
        Ok(Self { run: RunState { complete, position: Position::from_bytes(position)? }, job })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_is_none_is_refused() {
        let reader = overbank_ingest::Reader::open(overbank_ingest::Options::new(["/dev/null"])).unwrap();
        for job in [Job::Build, Job::Update, Job::Delete] {
            let run = RunState { complete: job == Job::Update, position: reader.position().clone() };
            let bytes = DictionaryState { run, job }.to_bytes();
            let back = DictionaryState::from_bytes(&bytes).unwrap();
            assert_eq!((back.job, back.run.complete), (job, job == Job::Update));
            assert_eq!(back.run.position, *reader.position());
            for length in 0..bytes.len() {
                assert!(DictionaryState::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
            }
            for (at, bad) in [(0, b'x'), (5, 2), (6, 2), (7, 0), (7, 4)] {
                let mut damaged = bytes.clone();
                damaged[at] = bad;
                assert!(DictionaryState::from_bytes(&damaged).is_err(), "byte {at}");
            }
            assert!(RunState::from_bytes(&bytes).is_err());
        }
    }
}
