//! The bytes of a profile in a store: totals inline in the manifest, each sketch in a file of its own.
//!
//! ```text
//! byte 0       4       8        16       24       32       40       56
//!      ┌───────┬───────┬────────┬────────┬────────┬────────┬────────┐
//!      │version│measure│ rows   │skipped │ bytes  │ memory │ weight │
//!      │ u32   │ u32   │ u64    │ u64    │ u64    │ u64    │ u128   │
//!      └───────┴───────┴────────┴────────┴────────┴────────┴────────┘
//! files: distinct (HyperLogLog) │ counts (count-min) │ values (DDSketch) │ heavy (32 × length u64, space-saving)
//! ```
//! Little-endian. The manifest's checksum covers the totals; each file has its own.

use super::Measure;
use super::totals::Totals;
use crate::bytes::ByteReader;
use crate::error::corrupt_bytes;
use crate::{Error, Result};
use std::path::Path;

/// The version of everything here.
pub(super) const VERSION: u16 = 2;
const STATE_BYTES: usize = 56;
/// What errors call these bytes.
const NAME: &str = "<profile>";

/// What the manifest keeps inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inline {
    pub(super) totals: Totals,
    pub(super) memory_bytes: u64,
}

impl Inline {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let measure = match self.totals.measure {
            Measure::KeyLength => 0u32,
            Measure::Value => 1,
        };
        let mut bytes = Vec::with_capacity(STATE_BYTES);
        bytes.extend(u32::from(VERSION).to_le_bytes());
        bytes.extend(measure.to_le_bytes());
        let totals = &self.totals;
        for field in [totals.rows, totals.skipped, totals.bytes, self.memory_bytes] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(totals.weight.to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() != STATE_BYTES {
            return Err(corrupt(0, "length of the totals", STATE_BYTES, bytes.len()));
        }
        Self::decode(ByteReader::new(bytes)).map_err(|error| error.in_file(Path::new(NAME)))
    }

    fn decode(mut fields: ByteReader<'_>) -> Result<Self> {
        let (version, measure) = (fields.u32()?, fields.u32()?);
        if version != u32::from(VERSION) {
            let supported = u32::from(VERSION);
            return Err(Error::UnsupportedVersion {
                what: "the profile".to_owned(),
                found: version,
                supported,
            });
        }
        let measure = match measure {
            0 => Measure::KeyLength,
            1 => Measure::Value,
            _ => return Err(corrupt(4, "the measure", "0 or 1", measure)),
        };
        let (rows, skipped, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (memory_bytes, weight) = (fields.u64()?, fields.u128()?);
        Ok(Self { totals: Totals { measure, rows, skipped, bytes, weight }, memory_bytes })
    }
}

pub(super) fn corrupt(at: usize, what: &'static str, expected: impl ToString, found: impl ToString) -> Error {
    corrupt_bytes(at, what, expected, found).in_file(Path::new(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn totals_come_back(rows: u64, skipped: u64, bytes: u64, weight: u128, memory_bytes: u64, value: bool) {
            let measure = if value { Measure::Value } else { Measure::KeyLength };
            let totals = Totals { measure, rows, skipped, bytes, weight };
            let inline = Inline { totals, memory_bytes };
            prop_assert_eq!(Inline::from_bytes(&inline.to_bytes()).unwrap(), inline);
        }
    }

    #[test]
    fn another_version_and_another_measure_are_errors() {
        let totals = Totals::default();
        let bytes = Inline { totals, memory_bytes: 1 }.to_bytes();
        let with = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            Inline::from_bytes(&bytes)
        };
        assert!(matches!(with(0, 9), Err(Error::UnsupportedVersion { found: 9, .. })));
        assert!(matches!(with(4, 9), Err(Error::Corrupt { at: 4, .. })));
        assert!(Inline::from_bytes(&bytes[1..]).is_err());
    }
}
