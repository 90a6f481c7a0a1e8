//! Where every byte of a cascade filter's inline state lies; its runs are segments of `filter/run`.
//!
//! ```text
//!   0       4       8        16                      24             28      29           30     32
//!   ├ magic ┼ ver. ┼ keys ───┼ false-positive rate ──┼ fan-out u32 ─┼ lazy ─┼ value bits ┼ 0 ───┤
//!   32 memory u64, writers u32, panes u32, generation u32, 0 u32, pane u64
//!   64 the tree, the class of a run being: bits u8, sign u8, 0 u16, 0 u32, pane u64      see `lsm/format`
//! ```
//!
//! All numbers are little-endian; lazy is 0 or 1; a sign is 0 for insertions and 1 for removals. A change to any byte, of the tree too,
//! bumps [`VERSION`]. Version 1 is read: it had no
//! runs of removals, and no merges that are half done.
//!
//! ```text
//!   48 logs u64, generation u32, runs u32, pane u64
//!   72 a run: level i32, bits u16, pieces u16, pane u64, oldest u64, newest u64      in order of age
//! ```

use super::class::RunClass;
use super::class::WriteClass;
use super::options::{AskedFor, FilterOptions, Policy};
use crate::bytes::ByteReader;
use crate::error::corrupt_bytes as corrupt;
use crate::filter::run::Sign;
use crate::lsm::{Size, Span, StoredRun, StoredTree};
use crate::store::FileRef;
use crate::{Error, Result};

/// The version of everything in this file, and of the tree in the state.
pub(super) const VERSION: u16 = 2;
/// The oldest version that is read.
pub(super) const OLDEST_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"OBcf";
const CLASS_BYTES: usize = 16;
const RUN_BYTES_1: usize = 32;
/// More memtables or panes there never are: at a billion a second, in a century.
const COUNT_MAX: u64 = 1 << 62;
/// Later generations would have no longer fingerprints.
const GENERATION_MAX: u32 = 64;
/// Runs have fewer than 2^64 keys, and levels are by powers of 2 or more.
const LEVEL_MAX: i32 = 64;

/// What the manifest keeps of a filter.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct State {
    pub(super) options: FilterOptions,
    pub(super) writes: WriteClass,
    pub(super) tree: StoredTree<RunClass>,
}

pub(super) fn encode(options: &FilterOptions, writes: &WriteClass, tree: &StoredTree<RunClass>) -> Vec<u8> {
    let is_lazy = matches!(options.policy, Policy::LazyLevelled { .. });
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(u32::from(VERSION).to_le_bytes());
    bytes.extend(options.keys.to_le_bytes());
    bytes.extend(options.false_positive_rate.to_le_bytes());
    bytes.extend(options.policy.fan_out().to_le_bytes());
    bytes.extend([u8::from(is_lazy), options.value_bits as u8, 0, 0]);
    bytes.extend((options.memory_bytes as u64).to_le_bytes());
    bytes.extend((options.writers as u32).to_le_bytes());
    bytes.extend(options.panes.to_le_bytes());
    bytes.extend(writes.generation.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(writes.pane.to_le_bytes());
    tree.encode(&mut bytes, |class, bytes| {
        bytes.extend([class.bits as u8, class.sign as u8]);
        bytes.extend([0; 6]);
        bytes.extend(class.pane.to_le_bytes());
    });
    bytes
}

impl State {
    /// Reads a state of this version or an older one; `files` are those of the record.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedVersion`.
    pub(super) fn decode(bytes: &[u8], files: &[FileRef]) -> Result<Self> {
        let mut fields = ByteReader::new(bytes);
        fields.magic("magic", MAGIC)?;
        let version = fields.u32()?;
        if !(OLDEST_VERSION.into()..=VERSION.into()).contains(&version) {
            let what = "the cascade filter".to_owned();
            return Err(Error::UnsupportedVersion { what, found: version, supported: VERSION.into() });
        }
        let options = decode_options(&mut fields)?;
        let is_first = version == 1;
        let memtables = if is_first { fields.u64()? } else { 0 };
        let (generation, runs) = (fields.u32()?, fields.u32()?);
        if !is_first && runs != 0 {
            return Err(corrupt(52, "a padding field", 0, runs));
        }
        let pane = fields.u64()?;
        let writes = WriteClass { revision: 0, generation, pane };
        let tree = match is_first {
            true => decode_tree_1(&mut fields, files, memtables, runs)?,
            false => StoredTree::decode(&mut fields, files, CLASS_BYTES, |fields| {
                let [bits, sign] = fields.array()?;
                let sign = match sign {
                    0 => Sign::Insertions,
                    1 => Sign::Removals,
                    other => return Err(fields.corrupt("a run's sign", "0 or 1", other)),
                };
                fields.zeros(6)?;
                let class = RunClass { bits: bits.into(), pane: fields.u64()?, sign };
                check_bits(fields, class)
            })?,
        };
        fields.require_left(Some(0))?;
        if pane > COUNT_MAX || generation > GENERATION_MAX || tree.memtables > COUNT_MAX {
            let found = format!("{} memtables, generation {generation}, pane {pane}", tree.memtables);
            return Err(corrupt(48, "what was counted", "what a filter comes to", found));
        }
        if let Some(run) = tree.runs.iter().find(|run| run.class.pane > pane) {
            return Err(corrupt(64, "the pane of a run", format!("up to {pane}"), run.class.pane));
        }
        Ok(State { options, writes, tree })
    }
}

fn decode_options(fields: &mut ByteReader<'_>) -> Result<FilterOptions> {
    let (keys, false_positive_rate) = (fields.u64()?, fields.f64()?);
    let fan_out = fields.u32()?;
    let [lazy, value_bits, zero @ ..] = fields.array::<4>()?;
    let policy = match (lazy, zero) {
        (0, [0, 0]) => Policy::Tiered { fan_out },
        (1, [0, 0]) => Policy::LazyLevelled { fan_out },
        _ => {
            let found = format!("{lazy}, {zero:?}");
            return Err(corrupt(28, "the policy", "0 or 1, and zeros behind", found));
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
    Ok(options)
}

fn check_bits(fields: &ByteReader<'_>, class: RunClass) -> Result<RunClass> {
    match class.bits {
        1..=63 => Ok(class),
        bits => Err(fields.corrupt("the bits of a run's fingerprints", "1 to 63", bits)),
    }
}

/// The tree of version 1.
fn decode_tree_1(
    fields: &mut ByteReader<'_>,
    files: &[FileRef],
    memtables: u64,
    runs: u32,
) -> Result<StoredTree<RunClass>> {
    let count = fields.counted("the number of runs", runs, RUN_BYTES_1)?;
    let (mut runs, mut files) = (Vec::with_capacity(count), files.iter().copied());
    for id in 0..count as u64 {
        let level = i32::from_le_bytes(fields.array()?);
        let (bits, pieces) = (fields.u16()?, usize::from(fields.u16()?));
        let class = RunClass { bits: bits.into(), pane: fields.u64()?, sign: Sign::Insertions };
        let class = check_bits(fields, class)?;
        let span = Span { oldest: fields.u64()?, newest: fields.u64()? };
        let has_level = (-LEVEL_MAX..=LEVEL_MAX).contains(&level);
        if !has_level || pieces == 0 || span.oldest > span.newest || span.newest >= memtables {
            let found = format!("level {level}, {pieces} pieces, {span:?}");
            return Err(fields.corrupt("a run", "a level, a piece, memtables in order", found));
        }
        let files: Vec<FileRef> = files.by_ref().take(pieces).collect();
        if files.len() < pieces {
            return Err(fields.corrupt("the files of a run", pieces, files.len()));
        }
        runs.push(StoredRun { id, class, span, level, files, replaced: Size::default() });
    }
    match files.count() {
        0 => Ok(StoredTree { memtables, runs, merges: Vec::new() }),
        left => Err(fields.corrupt("the files that no run has", 0, left)),
    }
}
