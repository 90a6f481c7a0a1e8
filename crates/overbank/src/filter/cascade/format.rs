//! Where every byte of a cascade filter's inline state lies; its runs are segments of `filter/run`.
//!
//! ```text
//!   0       4       8        16                      24             28      29           30     32
//!   ├ magic ┼ ver. ┼ keys ───┼ false-positive rate ──┼ fan-out u32 ─┼ lazy ─┼ value bits ┼ 0 ───┤
//!   32 memory u64, writers u32, panes u32, logs u64, generation u32, runs u32, pane u64
//!   72 a run: level i32, bits u16, pieces u16, pane u64, oldest u64, newest u64      in order of age
//!   files    the pieces of all runs, in order
//! ```
//!
//! All numbers are little-endian; lazy is 0 or 1. A change to any byte bumps [`VERSION`].

use super::options::{AskedFor, FilterOptions, Policy};
use super::table::RunClass;
use crate::error::corrupt_bytes as corrupt;
use crate::lsm::Span;
use crate::{Error, Result};

/// The version of everything in this file.
pub(super) const VERSION: u16 = 1;

const MAGIC: u32 = u32::from_le_bytes(*b"OBcf");
const HEAD_BYTES: usize = 72;
const RUN_BYTES: usize = 32;
/// More logs or panes there never are: at a billion a second, in a century.
const COUNT_MAX: u64 = 1 << 62;
/// Later generations would have no longer fingerprints.
const GENERATION_MAX: u32 = 64;
/// Runs have fewer than 2^64 keys, and levels are by powers of 2 or more.
const LEVEL_MAX: i32 = 64;

/// What the manifest keeps of a filter.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    pub(super) options: FilterOptions,
    pub(super) logs: u64,
    pub(super) generation: u32,
    pub(super) pane: u64,
    pub(super) runs: Vec<RunState>,
}

/// A run, whose pieces are the next files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunState {
    pub(super) level: i32,
    pub(super) class: RunClass,
    pub(super) pieces: usize,
    pub(super) span: Span,
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        let options = &self.options;
        let is_lazy = matches!(options.policy, Policy::LazyLevelled { .. });
        let mut bytes = Vec::with_capacity(HEAD_BYTES + RUN_BYTES * self.runs.len());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(u32::from(VERSION).to_le_bytes());
        bytes.extend(options.keys.to_le_bytes());
        bytes.extend(options.false_positive_rate.to_le_bytes());
        bytes.extend(options.policy.fan_out().to_le_bytes());
        bytes.extend([u8::from(is_lazy), options.value_bits as u8, 0, 0]);
        bytes.extend((options.memory_bytes as u64).to_le_bytes());
        bytes.extend((options.writers as u32).to_le_bytes());
        bytes.extend(options.panes.to_le_bytes());
        bytes.extend(self.logs.to_le_bytes());
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend((self.runs.len() as u32).to_le_bytes());
        bytes.extend(self.pane.to_le_bytes());
        for run in &self.runs {
            bytes.extend(run.level.to_le_bytes());
            bytes.extend((run.class.bits as u16).to_le_bytes());
            bytes.extend((run.pieces as u16).to_le_bytes());
            bytes.extend(run.class.pane.to_le_bytes());
            bytes.extend(run.span.oldest.to_le_bytes());
            bytes.extend(run.span.newest.to_le_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Fields { bytes, at: 0 };
        let magic = fields.u32()?;
        if magic != MAGIC {
            return Err(corrupt(0, "magic", format!("{MAGIC:#x}"), format!("{magic:#x}")));
        }
        let version = fields.u32()?;
        if version != VERSION.into() {
            let what = "the cascade filter".to_owned();
            return Err(Error::UnsupportedVersion { what, found: version, supported: VERSION.into() });
        }
        let (keys, false_positive_rate) = (fields.u64()?, f64::from_bits(fields.u64()?));
        let fan_out = fields.u32()?;
        let [lazy, value_bits, zero @ ..] = fields.take::<4>()?;
        let policy = match (lazy, zero) {
            (0, [0, 0]) => Policy::Tiered { fan_out },
            (1, [0, 0]) => Policy::LazyLevelled { fan_out },
            _ => {
                return Err(corrupt(
                    28,
                    "the policy",
                    "0 or 1, and zeros behind",
                    format!("{lazy}, {zero:?}"),
                ));
            }
        };
        let memory_bytes = usize::try_from(fields.u64()?).unwrap_or(usize::MAX);
        let (writers, panes) = (fields.u32()? as usize, fields.u32()?);
        let value_bits = value_bits.into();
        let options = FilterOptions {
            memory_bytes,
            keys,
            false_positive_rate,
            policy,
            value_bits,
            writers,
            panes,
            asked_for: AskedFor::default(),
        };
        options.check().map_err(|why| corrupt(8, "the options", "valid ones", why))?;
        let (logs, generation) = (fields.u64()?, fields.u32()?);
        let count = fields.u32()? as usize;
        let pane = fields.u64()?;
        if bytes.len() - HEAD_BYTES != count.saturating_mul(RUN_BYTES) {
            return Err(corrupt(60, "the number of runs", (bytes.len() - HEAD_BYTES) / RUN_BYTES, count));
        }
        if logs > COUNT_MAX || pane > COUNT_MAX || generation > GENERATION_MAX {
            let found = format!("{logs} logs, generation {generation}, pane {pane}");
            return Err(corrupt(48, "what was counted", "what a filter comes to", found));
        }
        let runs: Vec<RunState> = (0..count).map(|_| fields.run()).collect::<Result<_>>()?;
        if let Some(run) = runs.iter().find(|run| run.span.newest >= logs || run.class.pane > pane) {
            let expected = format!("below {logs} logs, up to pane {pane}");
            return Err(corrupt(HEAD_BYTES, "the age of a run", expected, format!("{run:?}")));
        }
        Ok(State { options, logs, generation, pane, runs })
    }
}

/// Takes numbers off the front of bytes.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((taken, _)) = self.bytes[self.at..].split_first_chunk() else {
            return Err(corrupt(self.at, "the length of the state", self.at + N, self.bytes.len()));
        };
        self.at += N;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn run(&mut self) -> Result<RunState> {
        let at = self.at;
        let level = i32::from_le_bytes(self.take()?);
        let (bits, pieces) = (u16::from_le_bytes(self.take()?), u16::from_le_bytes(self.take()?));
        let pane = self.u64()?;
        let span = Span { oldest: self.u64()?, newest: self.u64()? };
        let has_level = (-LEVEL_MAX..=LEVEL_MAX).contains(&level);
        if !has_level || !(1..=63).contains(&bits) || pieces == 0 || span.oldest > span.newest {
            let found = format!("level {level}, {bits} bits, {pieces} pieces, {span:?}");
            return Err(corrupt(at, "a run", "a level, 1 to 63 bits, a piece, logs in order", found));
        }
        let class = RunClass { bits: bits.into(), pane };
        Ok(RunState { level, class, pieces: pieces.into(), span })
    }
}
