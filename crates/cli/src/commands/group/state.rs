//! What groups commit beside them: where the reader stands, and of what they are.
//!
//! ```text
//! magic "OBgrp" 5 B │ version u8 │ complete u8 │ first place u64 │ command │ types │ the reader's position …
//! command, types: bytes u32, text
//! ```

use crate::failure::Failure;
use crate::run_state::{RunState, foreign, opened};
use overbank_ingest::Position;

const MAGIC: &[u8; 5] = b"OBgrp";
const VERSION: u8 = 1;

/// Where a run stands.
pub(crate) struct GroupState {
    pub(crate) run: RunState,
    /// The place of the stream's first row among all rows of the store.
    pub(super) first_place: u64,
    /// What is computed: another command cannot go on with it.
    pub(super) command: String,
    /// The types of the fields, as `--types` takes them.
    pub(super) types: String,
}

impl GroupState {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, u8::from(self.run.complete)]);
        bytes.extend(self.first_place.to_le_bytes());
        for text in [&self.command, &self.types] {
            // Arguments of a command are shorter.
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(self.run.position.to_bytes());
        bytes
    }

    /// Reads what [`GroupState::to_bytes`] wrote; the store has verified its checksum.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let (_, complete, rest) = opened(bytes, MAGIC, VERSION)?;
        let (first_place, mut rest) = rest.split_first_chunk().ok_or_else(foreign)?;
        let mut text = || {
            let (length, behind) = rest.split_first_chunk()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            String::from_utf8(text.to_vec()).ok()
        };
        let (Some(command), Some(types)) = (text(), text()) else { return Err(foreign()) };
        let run = RunState { complete, position: Position::from_bytes(rest)? };
        Ok(Self { run, first_place: u64::from_le_bytes(*first_place), command, types })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_what_is_none_is_refused() {
        let reader = overbank_ingest::Reader::open(overbank_ingest::Options::new(["/dev/null"])).unwrap();
        let run = RunState { complete: true, position: reader.position().clone() };
        let state =
            GroupState { run, first_place: 7 << 20, command: "count".into(), types: "\"x\":int".into() };
        let bytes = state.to_bytes();
        let back = GroupState::from_bytes(&bytes).unwrap();
        assert_eq!((back.first_place, &back.command, &back.types), (7 << 20, &state.command, &state.types));
        assert!(back.run.complete && back.run.position == state.run.position);
        for length in 0..bytes.len() {
            assert!(GroupState::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
        }
        for (at, bad) in [(0, b'x'), (5, 2), (6, 2), (18, 255), (19, 255)] {
            let mut damaged = bytes.clone();
            damaged[at] = bad;
            assert!(GroupState::from_bytes(&damaged).is_err(), "byte {at}");
        }
        assert!(RunState::from_bytes(&bytes).is_err());
    }
}
