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

use super::{Measure, Totals};
use crate::{Error, Result};
use std::path::PathBuf;

/// The version of everything here.
pub(super) const VERSION: u16 = 2;
const STATE_BYTES: usize = 56;

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
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut array = [0; 8];
            array.copy_from_slice(word);
            u64::from_le_bytes(array)
        });
        let mut word = || words.next().unwrap_or(0);
        let first = word();
        let (version, measure) = (first as u32, (first >> 32) as u32);
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
        let (rows, skipped, bytes, memory_bytes) = (word(), word(), word(), word());
        let weight = u128::from(word()) | u128::from(word()) << 64;
        Ok(Self { totals: Totals { measure, rows, skipped, bytes, weight }, memory_bytes })
    }
}

pub(super) fn corrupt(at: usize, what: &'static str, expected: impl ToString, found: impl ToString) -> Error {
    Error::Corrupt {
        path: PathBuf::from("<profile>"),
        at: at as u64,
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
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
