//! What `profile` commits beside its summaries: where the reader stands, and whether the stream was read to its end.
//!
//! ```text
//! magic "OBrun" 5 B │ version u8 │ complete u8 │ the reader's position …
//! ```

use crate::failure::Failure;
use overbank_ingest::Position;

const MAGIC: &[u8; 5] = b"OBrun";
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
        let foreign = || {
            Failure::Usage(
                "the store was committed by another program, so overbank cannot tell where its stream stands; \
                 choose another directory"
                    .to_owned(),
            )
        };
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(foreign)?;
        match rest {
            [VERSION, complete @ (0 | 1), position @ ..] => {
                Ok(Self { complete: *complete == 1, position: Position::from_bytes(position)? })
            }
            [version, ..] if *version != VERSION => {
                Err(Failure::Overbank(overbank::Error::UnsupportedVersion {
                    what: "the state of the run".to_owned(),
                    found: (*version).into(),
                    supported: VERSION.into(),
                }))
            }
            _ => Err(foreign()),
        }
    }
}
