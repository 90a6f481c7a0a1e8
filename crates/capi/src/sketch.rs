//! Sketches: one handle for all kinds; each is made by a function of its own, and fed and asked by functions for what it takes and says.

use crate::arrays::{keys, optional, overbank_bytes, slice, write};
use crate::buffer::overbank_buffer;
use crate::error::overbank_status::*;
use crate::error::{Answer, call, fail};
use crate::hash::{hasher_of, hashes_of, overbank_hash, overbank_hasher};
use crate::object::{Opaque, change, give, release, share};
use overbank::KeyHash;
use overbank::sketch::{
    CocoSketch, CountMin, CountSketch, DdSketch, Elastic, HashId, HyperLogLog, Locher, LogLog, SpaceSaving,
    UnivMon,
};

/// Count-min with counters of 8 bytes: how often a key came, never too low.
pub const OVERBANK_COUNT_MIN: u32 = 1;
/// Count sketch: how often a key came, without bias; weights may be negative.
pub const OVERBANK_COUNT_SKETCH: u32 = 2;
/// HyperLogLog: how many different keys.
pub const OVERBANK_HYPERLOGLOG: u32 = 3;
/// LogLog: how many different keys.
pub const OVERBANK_LOGLOG: u32 = 4;
/// Locher's sketch: which sources have the most different items.
pub const OVERBANK_LOCHER: u32 = 5;
/// DDSketch: quantiles of a value.
pub const OVERBANK_DDSKETCH: u32 = 6;
/// CocoSketch: sizes of keys, and of any part of them, without bias.
pub const OVERBANK_COCO: u32 = 7;
/// UnivMon: any sum over the counts, such as L2 and entropy.
pub const OVERBANK_UNIVMON: u32 = 8;
/// Elastic sketch: heavy keys exactly, and how counts are distributed.
pub const OVERBANK_ELASTIC: u32 = 9;
/// Space-saving: which keys are heavy.
pub const OVERBANK_SPACE_SAVING: u32 = 10;

/// A sketch of any kind.
pub struct overbank_sketch {
    _private: [u8; 0],
}

impl Opaque for overbank_sketch {
    type Inner = Sketch;
    const TAG: u32 = u32::from_le_bytes(*b"sket");
    const NAME: &'static str = "sketch";
}

/// What is behind the handle.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one behind each handle, where it is in a box")]
pub(crate) enum Sketch {
    CountMin(CountMin<u64>),
    CountSketch(CountSketch),
    HyperLogLog(HyperLogLog),
    LogLog(LogLog),
    Locher(Locher),
    DdSketch(DdSketch),
    Coco(CocoSketch),
    UnivMon(UnivMon),
    Elastic(Elastic),
    SpaceSaving(SpaceSaving),
}

impl Sketch {
    fn kind(&self) -> u32 {
        match self {
            Sketch::CountMin(_) => OVERBANK_COUNT_MIN,
            Sketch::CountSketch(_) => OVERBANK_COUNT_SKETCH,
            Sketch::HyperLogLog(_) => OVERBANK_HYPERLOGLOG,
            Sketch::LogLog(_) => OVERBANK_LOGLOG,
            Sketch::Locher(_) => OVERBANK_LOCHER,
            Sketch::DdSketch(_) => OVERBANK_DDSKETCH,
            Sketch::Coco(_) => OVERBANK_COCO,
            Sketch::UnivMon(_) => OVERBANK_UNIVMON,
            Sketch::Elastic(_) => OVERBANK_ELASTIC,
            Sketch::SpaceSaving(_) => OVERBANK_SPACE_SAVING,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Sketch::CountMin(_) => "count-min sketch",
            Sketch::CountSketch(_) => "count sketch",
            Sketch::HyperLogLog(_) => "HyperLogLog",
            Sketch::LogLog(_) => "LogLog",
            Sketch::Locher(_) => "Locher sketch",
            Sketch::DdSketch(_) => "DDSketch",
            Sketch::Coco(_) => "CocoSketch",
            Sketch::UnivMon(_) => "UnivMon",
            Sketch::Elastic(_) => "Elastic sketch",
            Sketch::SpaceSaving(_) => "space-saving sketch",
        }
    }

    /// Says that this kind does not do that.
    pub(crate) fn cannot<T>(&self, what: &str) -> Answer<T> {
        fail(OVERBANK_WRONG_KIND, format!("a {} does not take or tell {what}", self.name()))
    }

    fn hash_id(&self) -> Option<HashId> {
        match self {
            Sketch::CountMin(sketch) => Some(sketch.hash_id()),
            Sketch::CountSketch(sketch) => Some(sketch.hash_id()),
            Sketch::HyperLogLog(sketch) => Some(sketch.hash_id()),
            Sketch::LogLog(sketch) => Some(sketch.hash_id()),
            Sketch::Locher(sketch) => Some(sketch.hash_id()),
            Sketch::DdSketch(_) => None,
            Sketch::Coco(sketch) => Some(sketch.hash_id()),
            Sketch::UnivMon(sketch) => Some(sketch.hash_id()),
            Sketch::Elastic(sketch) => Some(sketch.hash_id()),
            Sketch::SpaceSaving(sketch) => Some(sketch.hash_id()),
        }
    }

    fn require_hasher(&self, hasher: HashId) -> Answer<()> {
        match self.hash_id() {
            Some(own) if own != hasher => {
                let why = format!(
                    "this {} was made with another hasher; give both the same kind and seed",
                    self.name()
                );
                fail(OVERBANK_INCOMPATIBLE, why)
            }
            _ => Ok(()),
        }
    }

    /// Adds hashes alone, with a weight each or 1.
    fn update(&mut self, hashes: &[KeyHash], weights: Option<&[u64]>) -> Answer<()> {
        match self {
            Sketch::CountMin(sketch) => sketch.update_batch(hashes, weights),
            Sketch::CountSketch(sketch) => match weights {
                None => sketch.update_batch(hashes, None),
                Some(weights) => {
                    let signed =
                        weights.iter().map(|&weight| signed_weight(weight)).collect::<Answer<Vec<_>>>()?;
                    sketch.update_batch(hashes, Some(&signed));
                }
            },
            // Who came counts once, however heavy.
            Sketch::HyperLogLog(sketch) => sketch.update_batch(hashes),
            Sketch::LogLog(sketch) => sketch.update_batch(hashes),
            _ => {
                return self
                    .cannot("hashes without their keys: use overbank_sketch_update_keys, _pairs or _values");
            }
        }
        Ok(())
    }

    fn update_keys(&mut self, keys: &[&[u8]], hashes: &[KeyHash], weights: Option<&[u64]>) -> Answer<()> {
        let weight = |i: usize| weights.map_or(1, |weights| weights[i]);
        let all = hashes.iter().zip(keys).enumerate().map(|(i, (&hash, &key))| (hash, key, weight(i)));
        match self {
            Sketch::Coco(sketch) => all.for_each(|(hash, key, weight)| sketch.update(hash, key, weight)),
            Sketch::UnivMon(sketch) => all.for_each(|(hash, key, weight)| sketch.update(hash, key, weight)),
            Sketch::Elastic(sketch) => all.for_each(|(hash, key, weight)| sketch.update(hash, key, weight)),
            Sketch::SpaceSaving(sketch) => {
                all.for_each(|(hash, key, weight)| sketch.update(hash, key, weight))
            }
            Sketch::Locher(_) => return self.cannot("keys alone: use overbank_sketch_update_pairs"),
            Sketch::DdSketch(_) => return self.cannot("keys: use overbank_sketch_update_values"),
            _ => return self.update(hashes, weights),
        }
        Ok(())
    }

    fn merge(&mut self, other: &Sketch) -> Answer<()> {
        match (self, other) {
            (Sketch::CountMin(one), Sketch::CountMin(other)) => one.merge(other)?,
            (Sketch::CountSketch(one), Sketch::CountSketch(other)) => one.merge(other)?,
            (Sketch::HyperLogLog(one), Sketch::HyperLogLog(other)) => one.merge(other)?,
            (Sketch::LogLog(one), Sketch::LogLog(other)) => one.merge(other)?,
            (Sketch::Locher(one), Sketch::Locher(other)) => one.merge(other)?,
            (Sketch::DdSketch(one), Sketch::DdSketch(other)) => one.merge(other)?,
            (Sketch::Coco(one), Sketch::Coco(other)) => one.merge(other)?,
            (Sketch::UnivMon(one), Sketch::UnivMon(other)) => one.merge(other)?,
            (Sketch::Elastic(one), Sketch::Elastic(other)) => one.merge(other)?,
            (Sketch::SpaceSaving(one), Sketch::SpaceSaving(other)) => one.merge(other)?,
            (one, other) => {
                let why =
                    format!("a {} and a {} cannot be merged; build both alike", one.name(), other.name());
                return fail(OVERBANK_WRONG_KIND, why);
            }
        }
        Ok(())
    }

    fn to_bytes(&self) -> Vec<u8> {
        match self {
            Sketch::CountMin(sketch) => sketch.to_bytes(),
            Sketch::CountSketch(sketch) => sketch.to_bytes(),
            Sketch::HyperLogLog(sketch) => sketch.to_bytes(),
            Sketch::LogLog(sketch) => sketch.to_bytes(),
            Sketch::Locher(sketch) => sketch.to_bytes(),
            Sketch::DdSketch(sketch) => sketch.to_bytes(),
            Sketch::Coco(sketch) => sketch.to_bytes(),
            Sketch::UnivMon(sketch) => sketch.to_bytes(),
            Sketch::Elastic(sketch) => sketch.to_bytes(),
            Sketch::SpaceSaving(sketch) => sketch.to_bytes(),
        }
    }

    fn from_bytes(kind: u32, bytes: &[u8]) -> Answer<Sketch> {
        Ok(match kind {
            OVERBANK_COUNT_MIN => Sketch::CountMin(CountMin::from_bytes(bytes)?),
            OVERBANK_COUNT_SKETCH => Sketch::CountSketch(CountSketch::from_bytes(bytes)?),
            OVERBANK_HYPERLOGLOG => Sketch::HyperLogLog(HyperLogLog::from_bytes(bytes)?),
            OVERBANK_LOGLOG => Sketch::LogLog(LogLog::from_bytes(bytes)?),
            OVERBANK_LOCHER => Sketch::Locher(Locher::from_bytes(bytes)?),
            OVERBANK_DDSKETCH => Sketch::DdSketch(DdSketch::from_bytes(bytes)?),
            OVERBANK_COCO => Sketch::Coco(CocoSketch::from_bytes(bytes)?),
            OVERBANK_UNIVMON => Sketch::UnivMon(UnivMon::from_bytes(bytes)?),
            OVERBANK_ELASTIC => Sketch::Elastic(Elastic::from_bytes(bytes)?),
            OVERBANK_SPACE_SAVING => Sketch::SpaceSaving(SpaceSaving::from_bytes(bytes)?),
            _ => {
                let why = format!(
                    "a sketch's kind cannot be {kind}: choose OVERBANK_COUNT_MIN to OVERBANK_SPACE_SAVING"
                );
                return fail(OVERBANK_INVALID, why);
            }
        })
    }
}

fn signed_weight(weight: u64) -> Answer<i64> {
    match i64::try_from(weight) {
        Ok(weight) => Ok(weight),
        Err(_) => fail(
            OVERBANK_INVALID,
            format!("a weight of a count sketch cannot be {weight}: choose {} at most", i64::MAX),
        ),
    }
}

/// Refuses what the system would not give, before the library asks for it: where memory lacks then, the process ends.
fn require_memory(cells: u128, cell_bytes: u128) -> Answer<()> {
    let bytes = cells.saturating_mul(cell_bytes);
    let fits = usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    if fits {
        Ok(())
    } else {
        fail(
            OVERBANK_NO_MEMORY,
            format!("a sketch of {bytes} bytes is more than the system gives; make it smaller"),
        )
    }
}

fn cells(columns: u32, depth: u32) -> u128 {
    u128::from(columns) * u128::from(depth)
}

/// A count-min sketch of `depth` rows of `columns` counters.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_count_min_new(
    columns: u32,
    depth: u32,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(cells(columns, depth), 8)?;
        Ok(Sketch::CountMin(CountMin::<u64>::with_shape(1, columns, depth, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A count-min sketch whose estimates are too high by more than `epsilon` of the weight with probability at most `delta`.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_count_min_with_error(
    epsilon: f64,
    delta: f64,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        let layout = overbank::sketch::count_min::Layout::with_error(epsilon, delta)?;
        require_memory(layout.cells() as u128, 8)?;
        Ok(Sketch::CountMin(CountMin::<u64>::with_error(epsilon, delta, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A count sketch of `depth` rows of `columns` counters.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_count_sketch_new(
    columns: u32,
    depth: u32,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(cells(columns, depth), 8)?;
        Ok(Sketch::CountSketch(CountSketch::new(columns, depth, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A HyperLogLog of `2^lg_m` registers: its standard error is `1.04 / sqrt(2^lg_m)`.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_hyperloglog_new(
    lg_m: u32,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || Ok(Sketch::HyperLogLog(HyperLogLog::new(lg_m, hasher_of(hasher)?)?))) })
}

/// A LogLog of `2^lg_m` registers: its standard error is `1.30 / sqrt(2^lg_m)`.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_loglog_new(
    lg_m: u32,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || Ok(Sketch::LogLog(LogLog::new(lg_m, hasher_of(hasher)?)?))) })
}

/// A Locher sketch of `depth` rows of `columns` cells, which names `top` sources by up to `key_bytes_max` bytes of their keys.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_locher_new(
    columns: u32,
    depth: u32,
    top: usize,
    key_bytes_max: usize,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(cells(columns, depth), 64)?;
        require_memory(top as u128, 64 + key_bytes_max as u128)?;
        Ok(Sketch::Locher(Locher::new(columns, depth, top, key_bytes_max, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A DDSketch of quantiles that are off by a share of `alpha` at most.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_ddsketch_new(alpha: f64, out: *mut *mut overbank_sketch) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || Ok(Sketch::DdSketch(DdSketch::new(alpha)?))) })
}

/// A CocoSketch of `depth` rows of `columns` buckets, each with up to `key_bytes_max` bytes of its key.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_coco_new(
    columns: u32,
    depth: u32,
    key_bytes_max: usize,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(cells(columns, depth), 32 + key_bytes_max as u128)?;
        Ok(Sketch::Coco(CocoSketch::new(columns, depth, key_bytes_max, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A UnivMon of `levels` strata, each of `depth` rows of `columns` counters and `top` heavy keys of up to `key_bytes_max` bytes.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_univmon_new(
    levels: u32,
    columns: u32,
    depth: u32,
    top: usize,
    key_bytes_max: usize,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(cells(columns, depth).saturating_mul(levels.into()), 8)?;
        require_memory((top as u128).saturating_mul(levels.into()), 64 + key_bytes_max as u128)?;
        Ok(Sketch::UnivMon(UnivMon::new(levels, columns, depth, top, key_bytes_max, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// An Elastic sketch of `buckets` for heavy keys of up to `key_bytes_max` bytes, and `depth` rows of `columns` counters for the others.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_elastic_new(
    buckets: u32,
    columns: u32,
    depth: u32,
    key_bytes_max: usize,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(cells(columns, depth), 4)?;
        require_memory(buckets.into(), 256 + 8 * key_bytes_max as u128)?;
        Ok(Sketch::Elastic(Elastic::new(buckets, columns, depth, key_bytes_max, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A space-saving sketch of the `capacity` heaviest keys, of up to `key_bytes_max` bytes each.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_space_saving_new(
    capacity: usize,
    key_bytes_max: usize,
    hasher: *const overbank_hasher,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe {
        let hasher = hasher_of(hasher)?;
        require_memory(capacity as u128, 128 + key_bytes_max as u128)?;
        Ok(Sketch::SpaceSaving(SpaceSaving::new(capacity, key_bytes_max, hasher)?))
    };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// Adds `n` keys by their hashes, with `weights[i]` each, or 1 where `weights` is NULL: count-min, count sketch, HyperLogLog and LogLog,
/// the last two whatever the weight.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_update(
    sketch: *mut overbank_sketch,
    hashes: *const overbank_hash,
    weights: *const u64,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let (hashes, weights) = (hashes_of(hashes, n)?, optional(weights, n, "weights")?);
        change(sketch, |sketch| sketch.update(&hashes, weights))
    })
}

/// Adds `n` keys to a count sketch, with weights of either sign.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_update_signed(
    sketch: *mut overbank_sketch,
    hashes: *const overbank_hash,
    weights: *const i64,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let (hashes, weights) = (hashes_of(hashes, n)?, optional(weights, n, "weights")?);
        change(sketch, |sketch| match sketch {
            Sketch::CountSketch(sketch) => {
                sketch.update_batch(&hashes, weights);
                Ok(())
            }
            other => other.cannot("weights of either sign"),
        })
    })
}

/// Adds `n` keys by their bytes: every sketch of keys. `hasher` is the one that the sketch was made with.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_update_keys(
    sketch: *mut overbank_sketch,
    hasher: *const overbank_hasher,
    keys_in: *const overbank_bytes,
    weights: *const u64,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let (hasher, keys) = (hasher_of(hasher)?, keys(keys_in, n, "keys")?);
        let weights = optional(weights, n, "weights")?;
        let hashes: Vec<KeyHash> = keys.iter().map(|key| hasher.hash(key)).collect();
        change(sketch, |sketch| {
            sketch.require_hasher(hasher.into())?;
            sketch.update_keys(&keys, &hashes, weights)
        })
    })
}

/// Adds `n` pairs of a source and an item to a Locher sketch.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_update_pairs(
    sketch: *mut overbank_sketch,
    hasher: *const overbank_hasher,
    sources: *const overbank_bytes,
    items: *const overbank_bytes,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let hasher = hasher_of(hasher)?;
        let (sources, items) = (keys(sources, n, "sources")?, keys(items, n, "items")?);
        change(sketch, |sketch| {
            sketch.require_hasher(hasher.into())?;
            let Sketch::Locher(locher) = sketch else { return sketch.cannot("pairs") };
            let pairs = sources.iter().zip(&items);
            pairs.for_each(|(source, item)| locher.update(hasher.hash(source), source, hasher.hash(item)));
            Ok(())
        })
    })
}

/// Adds `n` values to a DDSketch, `counts[i]` times each, or once where `counts` is NULL. What is no number is counted apart.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_update_values(
    sketch: *mut overbank_sketch,
    values: *const f64,
    counts: *const u64,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let (values, counts) = (slice(values, n, "values")?, optional(counts, n, "counts")?);
        change(sketch, |sketch| {
            let Sketch::DdSketch(quantiles) = sketch else { return sketch.cannot("values") };
            let count = |i: usize| counts.map_or(1, |counts| counts[i]);
            values.iter().enumerate().for_each(|(i, &value)| quantiles.update(value, count(i)));
            Ok(())
        })
    })
}

/// Adds another sketch of the same kind, shape and hash, which stays as it is.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_merge(
    into: *mut overbank_sketch,
    from: *const overbank_sketch,
) -> i32 {
    call(|| {
        if std::ptr::eq(into, from) {
            return fail(OVERBANK_INVALID, "a sketch cannot be merged with itself; clone it first");
        }
        // SAFETY: the caller's duty.
        unsafe { change(into, |into| share(from, |from| into.merge(from))) }
    })
}

/// A copy.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_clone(
    sketch: *const overbank_sketch,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || share(sketch, |sketch| Ok(sketch.clone()))) })
}

/// Its bytes: the same on every machine.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_to_bytes(
    sketch: *const overbank_sketch,
    out: *mut *mut overbank_buffer,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || share(sketch, |sketch| Ok(sketch.to_bytes()))) })
}

/// A sketch from its bytes, which may be anything: what no sketch of this kind wrote is OVERBANK_CORRUPT.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_from_bytes(
    kind: u32,
    bytes: *const u8,
    len: usize,
    out: *mut *mut overbank_sketch,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || Sketch::from_bytes(kind, slice(bytes, len, "bytes")?)) })
}

/// Its kind: OVERBANK_COUNT_MIN and so on.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_kind(sketch: *const overbank_sketch, kind: *mut u32) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { share(sketch, |sketch| write(kind, sketch.kind(), "kind")) })
}

/// Frees a sketch; NULL is none.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_free(sketch: *mut overbank_sketch) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(sketch) })
}
