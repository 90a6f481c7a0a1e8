//! HyperLogLog sketches of other systems: their bytes read, merged, asked, and written again.
//!
//! ```text
//!   Apache DataSketches HLL    list and set of coupons │ dense registers of 4, 6 or 8 bits     slots by the low bits of its hash
//!   Redis (`HYLL` strings)     sparse runs             │ dense registers of 6 bits, 2^14       likewise, of another hash
//! ```
//!
//! 1. A sketch is of the system whose hash its keys were hashed with, and merges with that system's only. It takes no key of a
//!    [`KeyHash`](crate::KeyHash), and no [`HyperLogLog`](super::HyperLogLog) merges with it: equal keys are in other registers there.
//! 2. What is asked of it is what the registers alone tell: how many distinct keys.
//! 3. A DataSketches image does not name the seed of its hash. As there, that all have the same is the caller's to know.
//! 4. Bytes may come from anywhere.
//!
//! Cost: a byte a register; reading, writing, merging and asking are a pass over them.
//!
//! Source of the forms: those that datasketches 5.2 (Python) and Redis 7.0 write and read, against which
//! `tests/foreign_hll.rs` holds them. The estimate is that of Ertl (2017), as Redis has it too; DataSketches' own, where the keys came
//! in order to one sketch, uses that order and errs by a sixth less.

use super::{estimate_of, histogram};
use crate::bytes::ByteReader;
use crate::error::corrupt_bytes;
use crate::sketch::hash_id::require_equal;
use crate::{Error, Result};

/// The most that 6 bits hold, which is also the most that either system's ranks are.
const RANK_MAX: u8 = 63;
const REDIS_LG_M: u32 = 14;
const REDIS_HEADER_BYTES: usize = 16;
/// In the last byte of the cached number in a Redis header: it is to be computed anew.
const REDIS_STALE: u8 = 0x80;
/// DataSketches: sizes of the preambles in words, in byte 0, and with them the mode.
const LIST_WORDS: u8 = 2;
const SET_WORDS: u8 = 3;
const DENSE_WORDS: u8 = 10;
const DENSE_HEADER_BYTES: usize = 40;
/// Flags of byte 5: no keys; no free places in lists; the number that came in order is not known.
const EMPTY: u8 = 4;
const COMPACT: u8 = 8;
const OUT_OF_ORDER: u8 = 16;
/// A nibble that says "see the exceptions".
const EXCEPTION: u8 = 15;
/// Where a coupon has its value; below is the slot.
const COUPON_SLOT_BITS: u32 = 26;

/// The system whose sketch it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForeignSystem {
    /// Apache DataSketches, family HLL.
    DataSketches,
    /// Redis, `PFADD` and `PFCOUNT`.
    Redis,
}

/// How many bits a register has in a dense DataSketches image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterBits {
    /// `HLL_4`: the difference to the least register, with exceptions.
    Four,
    /// `HLL_6`.
    Six,
    /// `HLL_8`.
    Eight,
}

/// A HyperLogLog sketch whose keys were hashed by another system.
///
/// ```
/// use overbank::sketch::hyperloglog::foreign::{ForeignHyperLogLog, RegisterBits};
///
/// // What `hll_sketch(8).serialize_compact()` gives for three keys: a list of coupons.
/// let image = b"\x02\x01\x07\x08\x03\x08\x03\x08\xcb\xd7\xc2\x04\x2b\xf2\xfb\x06\x86\x2f\xf9\x0d";
/// let mut sketch = ForeignHyperLogLog::from_datasketches(image)?;
/// assert_eq!(sketch.estimate().round(), 3.0);
/// let dense = sketch.to_datasketches(RegisterBits::Eight)?;
/// sketch.merge(&ForeignHyperLogLog::from_datasketches(&dense)?)?;
/// assert_eq!(sketch.estimate().round(), 3.0);
/// # Ok::<(), overbank::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignHyperLogLog {
    system: ForeignSystem,
    registers: Vec<u8>,
}

impl ForeignHyperLogLog {
    /// Reads a DataSketches HLL image: list, set or dense, of 4, 6 or 8 bits, compact or updatable.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or [`Error::UnsupportedVersion`].
    pub fn from_datasketches(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        let words = reader.u8()?;
        match reader.u8()? {
            1 => {}
            found => {
                let what = "the DataSketches image".to_owned();
                return Err(Error::UnsupportedVersion { what, found: found.into(), supported: 1 });
            }
        }
        match reader.u8()? {
            7 => {}
            family => return Err(corrupt_bytes(2, "the DataSketches family", "7 (HLL)", family)),
        }
        let lg_m = u32::from(reader.u8()?);
        if !(4..=21).contains(&lg_m) {
            return Err(corrupt_bytes(3, "lg_k", "4 to 21", lg_m));
        }
        let header = DenseHeader {
            lg_array: reader.u8()?,
            flags: reader.u8()?,
            least: reader.u8()?,
            mode: reader.u8()?,
        };
        let mut registers = vec![0; 1 << lg_m];
        match words {
            LIST_WORDS if header.mode & 3 == 0 => {
                read_coupons(&mut reader, header, header.least.into(), &mut registers)?;
            }
            SET_WORDS if header.mode & 3 == 1 => {
                let count = reader.u32()?;
                read_coupons(&mut reader, header, count, &mut registers)?;
            }
            DENSE_WORDS if header.mode & 3 == 2 => read_dense(&mut reader, header, &mut registers)?,
            _ => {
                return Err(corrupt_bytes(
                    0,
                    "preamble words and mode",
                    "2 and 0, 3 and 1, or 10 and 2",
                    words,
                ));
            }
        }
        Ok(Self { system: ForeignSystem::DataSketches, registers })
    }

    /// A dense compact DataSketches image, flagged as merged, so that its reader estimates by the registers.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if this is not a DataSketches sketch: no other hash has its registers.
    pub fn to_datasketches(&self, bits: RegisterBits) -> Result<Vec<u8>> {
        self.require(ForeignSystem::DataSketches)?;
        let lg_m = self.lg_m();
        let least = match bits {
            RegisterBits::Four => self.registers.iter().copied().min().unwrap_or(0),
            _ => 0,
        };
        let exceptions: Vec<u32> = match bits {
            RegisterBits::Four => (0u32..)
                .zip(&self.registers)
                .filter(|&(_, &rank)| rank - least >= EXCEPTION)
                .map(|(slot, &rank)| u32::from(rank) << COUPON_SLOT_BITS | slot)
                .collect(),
            _ => Vec::new(),
        };
        let kind = match bits {
            RegisterBits::Four => 0,
            RegisterBits::Six => 1,
            RegisterBits::Eight => 2,
        };
        let lg_array = if exceptions.is_empty() { 0 } else { lg_exceptions(lg_m, exceptions.len()) };
        let mut bytes =
            vec![DENSE_WORDS, 1, 7, lg_m as u8, lg_array, COMPACT | OUT_OF_ORDER, least, 2 | kind << 2];
        // Its reader wants the sums of 2^-rank, of ranks below 32 and above; of keys in order there is nothing to say.
        let sum = |high: bool| {
            let ranks = self.registers.iter().filter(|&&rank| (rank >= 32) == high);
            ranks.fold(0.0, |sum, &rank| sum + (-f64::from(rank)).exp2())
        };
        for value in [0.0, sum(false), sum(true)] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let at_least = self.registers.iter().filter(|&&rank| rank == least).count() as u32;
        bytes.extend_from_slice(&at_least.to_le_bytes());
        bytes.extend_from_slice(&(exceptions.len() as u32).to_le_bytes());
        match bits {
            RegisterBits::Four => {
                let nibble = |rank: u8| (rank - least).min(EXCEPTION);
                bytes.extend(
                    self.registers.chunks_exact(2).map(|pair| nibble(pair[0]) | nibble(pair[1]) << 4),
                );
            }
            RegisterBits::Six => {
                put_6_bits(&self.registers, &mut bytes);
                // Its reader takes two bytes at a time.
                bytes.push(0);
            }
            RegisterBits::Eight => bytes.extend_from_slice(&self.registers),
        }
        exceptions.iter().for_each(|exception| bytes.extend_from_slice(&exception.to_le_bytes()));
        Ok(bytes)
    }

    /// Reads the string that Redis keeps for a HyperLogLog: dense or sparse.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn from_redis(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        reader.magic("the magic of a Redis HyperLogLog", *b"HYLL")?;
        let encoding = reader.u8()?;
        reader.take(REDIS_HEADER_BYTES - 5)?;
        let mut registers = vec![0; 1 << REDIS_LG_M];
        match encoding {
            0 => {
                get_6_bits(reader.take(registers.len() / 4 * 3)?, &mut registers);
                reader.require_left(Some(0))?;
            }
            1 => read_sparse(&mut reader, &mut registers)?,
            _ => return Err(corrupt_bytes(4, "the encoding", "0 (dense) or 1 (sparse)", encoding)),
        }
        Ok(Self { system: ForeignSystem::Redis, registers })
    }

    /// The dense string for Redis to keep (`SET key`), marked so that it counts anew when it is asked.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if this is not a Redis sketch: no other hash has its registers.
    pub fn to_redis(&self) -> Result<Vec<u8>> {
        self.require(ForeignSystem::Redis)?;
        let mut bytes = b"HYLL".to_vec();
        bytes.resize(REDIS_HEADER_BYTES, 0);
        bytes[REDIS_HEADER_BYTES - 1] = REDIS_STALE;
        put_6_bits(&self.registers, &mut bytes);
        Ok(bytes)
    }

    /// How many distinct keys there were.
    ///
    /// # Accuracy
    /// Relative standard error about `1.04 / sqrt(2^lg_m)`, as [`HyperLogLog::estimate`](super::HyperLogLog::estimate).
    pub fn estimate(&self) -> f64 {
        estimate_of(&histogram(&self.registers), self.registers.len())
    }

    /// Takes in the keys of another sketch of the same system. Of two DataSketches sketches of different size, the result has the lesser
    /// one: slots are the low bits of the hash, so each is the greater of those that it stands for.
    ///
    /// # Errors
    /// [`Error::Incompatible`] for another system's; then nothing changed.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        other.require(self.system)?;
        let len = self.registers.len().min(other.registers.len());
        let mut merged = vec![0; len];
        for registers in [&self.registers, &other.registers] {
            for part in registers.chunks_exact(len) {
                merged.iter_mut().zip(part).for_each(|(register, &rank)| *register = rank.max(*register));
            }
        }
        self.registers = merged;
        Ok(())
    }

    /// Whose sketch it is.
    pub fn system(&self) -> ForeignSystem {
        self.system
    }

    /// log₂ of the number of registers.
    pub fn lg_m(&self) -> u32 {
        self.registers.len().trailing_zeros()
    }

    fn require(&self, system: ForeignSystem) -> Result<()> {
        require_equal("the system whose hash it is", format!("{system:?}"), format!("{:?}", self.system))
    }
}

/// Bytes 4 to 7 of a DataSketches image.
#[derive(Clone, Copy)]
struct DenseHeader {
    /// log₂ of the places for coupons, or for exceptions.
    lg_array: u8,
    flags: u8,
    /// The least register, of 4 bits; in a list, the number of coupons.
    least: u8,
    mode: u8,
}

/// Reads a list or a set of `count` coupons.
fn read_coupons(
    reader: &mut ByteReader<'_>,
    header: DenseHeader,
    count: u32,
    registers: &mut [u8],
) -> Result<()> {
    let count = if header.flags & EMPTY != 0 { 0 } else { count };
    let places = match header.flags & COMPACT {
        0 => 1u64 << header.lg_array.min(COUPON_SLOT_BITS as u8),
        _ => count.into(),
    };
    let places = reader.counted("the number of coupons", places, size_of::<u32>())?;
    let mut found = 0;
    for _ in 0..places {
        match reader.u32()? {
            // A free place.
            0 if header.flags & COMPACT == 0 => {}
            coupon => {
                raise(reader, registers, coupon)?;
                found += 1;
            }
        }
    }
    if found != count {
        return Err(reader.corrupt("the number of coupons", count, found));
    }
    reader.require_left(Some(0))
}

/// Reads dense registers, and the exceptions of those of 4 bits.
fn read_dense(reader: &mut ByteReader<'_>, header: DenseHeader, registers: &mut [u8]) -> Result<()> {
    // What its estimates from keys in order are made of, the sums of 2^-rank, and the number of registers at the least.
    reader.take(DENSE_HEADER_BYTES - 8 - size_of::<u32>())?;
    let exceptions = reader.u32()?;
    match header.mode >> 2 & 3 {
        0 => {
            let nibbles = reader.take(registers.len() / 2)?;
            let rank = |nibble: u8| header.least.saturating_add(nibble).min(RANK_MAX);
            for (pair, byte) in registers.as_chunks_mut::<2>().0.iter_mut().zip(nibbles) {
                *pair = [rank(byte & 15), rank(byte >> 4)];
            }
            if header.least > RANK_MAX - EXCEPTION {
                return Err(reader.corrupt(
                    "the least register",
                    format!("at most {}", RANK_MAX - EXCEPTION),
                    header.least,
                ));
            }
            let places = match header.flags & COMPACT {
                0 if exceptions > 0 => 1u64 << header.lg_array.min(COUPON_SLOT_BITS as u8),
                0 => 0,
                _ => exceptions.into(),
            };
            let places = reader.counted("the number of exceptions", places, size_of::<u32>())?;
            for _ in 0..places {
                match reader.u32()? {
                    0 if header.flags & COMPACT == 0 => {}
                    exception => raise(reader, registers, exception)?,
                }
            }
            // An updatable image keeps room for exceptions also while there are none.
            return reader.only_zeros_left();
        }
        1 => {
            let bytes = reader.take(registers.len() / 4 * 3)?;
            get_6_bits(bytes, registers);
            reader.zeros(1)?;
        }
        2 => {
            registers.copy_from_slice(reader.take(registers.len())?);
            if let Some(rank) = registers.iter().find(|&&rank| rank > RANK_MAX) {
                return Err(reader.corrupt("a register", format!("at most {RANK_MAX}"), rank));
            }
        }
        kind => return Err(reader.corrupt("the kind of registers", "0, 1 or 2", kind)),
    }
    reader.require_left(Some(0))
}

/// Gives a register at least the rank of a coupon.
fn raise(reader: &ByteReader<'_>, registers: &mut [u8], coupon: u32) -> Result<()> {
    let (slot, rank) = (coupon & ((1 << COUPON_SLOT_BITS) - 1), (coupon >> COUPON_SLOT_BITS) as u8);
    if rank == 0 {
        return Err(reader.corrupt("a coupon's value", "1 to 63", 0));
    }
    let mask = registers.len() - 1;
    let register = &mut registers[slot as usize & mask];
    *register = rank.max(*register);
    Ok(())
}

/// Reads the runs of a sparse Redis sketch: `00nnnnnn` is `n + 1` empty registers, `01nnnnnn nnnnnnnn` likewise, `1rrrrrnn` is `n + 1`
/// of rank `r + 1`.
fn read_sparse(reader: &mut ByteReader<'_>, registers: &mut [u8]) -> Result<()> {
    let mut at = 0;
    while reader.left() > 0 {
        let code = reader.u8()?;
        let (len, rank) = match code >> 6 {
            0 => (usize::from(code) + 1, 0),
            1 => ((usize::from(code & 63) << 8 | usize::from(reader.u8()?)) + 1, 0),
            _ => (usize::from(code & 3) + 1, (code >> 2 & 31) + 1),
        };
        let Some(run) = registers.get_mut(at..at + len) else {
            return Err(reader.corrupt(
                "the registers of the runs",
                format!("{}", 1 << REDIS_LG_M),
                at + len,
            ));
        };
        run.fill(rank);
        at += len;
    }
    if at != registers.len() {
        return Err(reader.corrupt("the registers of the runs", registers.len(), at));
    }
    Ok(())
}

/// Registers of 6 bits, lowest bits first: four in three bytes.
fn get_6_bits(bytes: &[u8], registers: &mut [u8]) {
    for (four, three) in registers.as_chunks_mut::<4>().0.iter_mut().zip(bytes.as_chunks::<3>().0) {
        let word = u32::from_le_bytes([three[0], three[1], three[2], 0]);
        *four = [0, 6, 12, 18].map(|shift| (word >> shift) as u8 & RANK_MAX);
    }
}

fn put_6_bits(registers: &[u8], bytes: &mut Vec<u8>) {
    for four in registers.as_chunks::<4>().0 {
        let word = four.iter().rev().fold(0u32, |word, &rank| word << 6 | u32::from(rank));
        bytes.extend_from_slice(&word.to_le_bytes()[..3]);
    }
}

/// log₂ of the places that a DataSketches reader has for so many exceptions: three of four in use at most.
fn lg_exceptions(lg_m: u32, count: usize) -> u8 {
    let least = match lg_m {
        ..=6 => 2,
        7..=9 => 3,
        10..=11 => 4,
        12 => 5,
        _ => lg_m as u8 - 8,
    };
    (least..).find(|&lg| 4 * count <= 3 << lg).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sketch_of(system: ForeignSystem, lg_m: u32, ranks: &[(u32, u8)]) -> ForeignHyperLogLog {
        let mut registers = vec![0; 1 << lg_m];
        ranks.iter().for_each(|&(slot, rank)| registers[slot as usize % (1 << lg_m)] = rank);
        ForeignHyperLogLog { system, registers }
    }

    #[test]
    fn systems_do_not_mix_and_sizes_of_datasketches_do() {
        let mut small = sketch_of(ForeignSystem::DataSketches, 4, &[(3, 5), (4, 2)]);
        let large = sketch_of(ForeignSystem::DataSketches, 5, &[(3, 1), (19, 9), (20, 1)]);
        let redis = sketch_of(ForeignSystem::Redis, 14, &[(3, 1)]);
        assert!(matches!(small.merge(&redis), Err(Error::Incompatible { .. })));
        assert!(matches!(small.to_redis(), Err(Error::Incompatible { .. })));
        assert!(matches!(redis.to_datasketches(RegisterBits::Six), Err(Error::Incompatible { .. })));
        let mut merged = large.clone();
        merged.merge(&small).unwrap();
        small.merge(&large).unwrap();
        assert_eq!((&small, small.lg_m(), small.registers[3], small.registers[4]), (&merged, 4, 9, 2));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(ranks in prop::collection::vec((0u32.., 0u8..=63), 0..300), lg_m in 4u32..=12, floor in 0u8..40) {
            let mut sketch = sketch_of(ForeignSystem::DataSketches, lg_m, &ranks);
            sketch.registers.iter_mut().for_each(|rank| *rank = floor.max(*rank));
            for bits in [RegisterBits::Four, RegisterBits::Six, RegisterBits::Eight] {
                let bytes = sketch.to_datasketches(bits).unwrap();
                prop_assert_eq!(&ForeignHyperLogLog::from_datasketches(&bytes).unwrap(), &sketch, "{:?}", bits);
            }
            let redis = sketch_of(ForeignSystem::Redis, 14, &ranks);
            prop_assert_eq!(&ForeignHyperLogLog::from_redis(&redis.to_redis().unwrap()).unwrap(), &redis);
        }

        #[test]
        fn hostile_bytes_do_not_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80), words in 0u8..12, lg_m in 3u8..8, mode in 0u8..16,
        ) {
            let mut image = vec![words, 1, 7, lg_m];
            image.extend_from_slice(&bytes);
            if let Some(byte) = image.get_mut(7) {
                *byte = mode;
            }
            if let Ok(sketch) = ForeignHyperLogLog::from_datasketches(&image) {
                prop_assert!(sketch.estimate() >= 0.0);
                prop_assert!(sketch.to_datasketches(RegisterBits::Four).is_ok());
            }
            let mut redis = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
            redis.extend_from_slice(&bytes);
            let _ = ForeignHyperLogLog::from_redis(&redis);
        }
    }
}
