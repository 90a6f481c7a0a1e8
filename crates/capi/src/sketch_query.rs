//! What sketches are asked, and the answers with their bounds.

use crate::arrays::{write, write_all};
use crate::error::overbank_status::*;
use crate::error::{Answer, call, fail};
use crate::hash::{hashes_of, overbank_hash};
use crate::object::share;
use crate::sketch::{Sketch, overbank_sketch};
use overbank::KeyHash;
use overbank::sketch::CountBounds;
use overbank::sketch::count_sketch::SignedBounds;
use overbank::sketch::space_saving::HeavyKey;

/// Bytes of a key in an `overbank_heavy`.
pub const OVERBANK_KEY_BYTES: usize = 64;

/// A count with the interval that holds the true one.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct overbank_count {
    /// The true count is not below this.
    pub lower: u64,
    /// The estimate.
    pub estimate: u64,
    /// The true count is not above this; UINT64_MAX: no bound is known.
    pub upper: u64,
}

/// The same of weights of either sign.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct overbank_signed_count {
    /// The true sum is not below this.
    pub lower: i64,
    /// The estimate.
    pub estimate: i64,
    /// The true sum is not above this.
    pub upper: i64,
}

/// A number with the interval that holds the true one.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct overbank_real {
    /// Not below this.
    pub lower: f64,
    /// The estimate.
    pub estimate: f64,
    /// Not above this; infinity: no bound is known.
    pub upper: f64,
}

/// A heavy key.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_heavy {
    /// Its hash: what identifies it.
    pub hash: overbank_hash,
    /// How often it came.
    pub count: overbank_count,
    /// How many bytes of `key` are its own.
    pub key_len: u32,
    /// 1 if the key is longer than that, else 0.
    pub truncated: u32,
    /// Its first bytes.
    pub key: [u8; OVERBANK_KEY_BYTES],
}

impl From<CountBounds> for overbank_count {
    fn from(CountBounds { lower, estimate, upper }: CountBounds) -> Self {
        Self { lower, estimate, upper }
    }
}

impl From<SignedBounds> for overbank_signed_count {
    fn from(SignedBounds { lower, estimate, upper, .. }: SignedBounds) -> Self {
        Self { lower, estimate, upper }
    }
}

impl overbank_heavy {
    pub(crate) fn new(hash: KeyHash, key: &[u8], truncated: bool, count: overbank_count) -> Self {
        let mut bytes = [0; OVERBANK_KEY_BYTES];
        let len = key.len().min(OVERBANK_KEY_BYTES);
        bytes[..len].copy_from_slice(&key[..len]);
        let truncated = u32::from(truncated || key.len() > len);
        Self { hash: hash.into(), count, key_len: len as u32, truncated, key: bytes }
    }

    fn of(heavy: HeavyKey<'_>) -> Self {
        Self::new(heavy.hash, heavy.key, heavy.truncated, heavy.count.into())
    }
}

pub(crate) fn require_confidence(confidence: f64) -> Answer<()> {
    if confidence > 0.0 && confidence < 1.0 {
        return Ok(());
    }
    fail(
        OVERBANK_INVALID,
        format!("the confidence cannot be {confidence}: choose a probability between 0 and 1, such as 0.99"),
    )
}

/// How often each of `n` keys came, with bounds of this confidence: count-min, CocoSketch, UnivMon, Elastic, and space-saving, whose bounds
/// are certain.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_counts(
    sketch: *const overbank_sketch,
    hashes: *const overbank_hash,
    n: usize,
    confidence: f64,
    counts: *mut overbank_count,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        require_confidence(confidence)?;
        let hashes = hashes_of(hashes, n)?;
        share(sketch, |sketch| {
            let count: &dyn Fn(KeyHash) -> CountBounds = match sketch {
                Sketch::CountMin(sketch) => &|hash| sketch.bounds(hash, confidence),
                Sketch::Coco(sketch) => &|hash| sketch.bounds(hash, confidence),
                Sketch::UnivMon(sketch) => &|hash| sketch.bounds(hash, confidence),
                Sketch::Elastic(sketch) => &|hash| sketch.bounds(hash, confidence),
                Sketch::SpaceSaving(sketch) => &|hash| sketch.estimate(hash),
                other => return other.cannot("counts without a sign"),
            };
            write_all(counts, hashes.iter().map(|&hash| count(hash).into()), "counts")
        })
    })
}

/// What the weights of each of `n` keys come to in a count sketch.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_signed_counts(
    sketch: *const overbank_sketch,
    hashes: *const overbank_hash,
    n: usize,
    confidence: f64,
    counts: *mut overbank_signed_count,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        require_confidence(confidence)?;
        let hashes = hashes_of(hashes, n)?;
        share(sketch, |sketch| match sketch {
            Sketch::CountSketch(sketch) => {
                write_all(counts, hashes.iter().map(|&hash| sketch.bounds(hash, confidence).into()), "counts")
            }
            other => other.cannot("signed counts"),
        })
    })
}

/// How many different items each of `n` sources has, of a Locher sketch.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_items(
    sketch: *const overbank_sketch,
    sources: *const overbank_hash,
    n: usize,
    confidence: f64,
    items: *mut overbank_real,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        require_confidence(confidence)?;
        let sources = hashes_of(sources, n)?;
        share(sketch, |sketch| match sketch {
            Sketch::Locher(sketch) => {
                let bounds = sources.iter().map(|&source| sketch.bounds(source, confidence));
                let real = |of: overbank::sketch::locher::DistinctBounds| overbank_real {
                    lower: of.lower,
                    estimate: of.estimate,
                    upper: of.upper,
                };
                write_all(items, bounds.map(real), "items")
            }
            other => other.cannot("items of sources"),
        })
    })
}

/// How many different keys came, within so many standard errors: HyperLogLog, LogLog, UnivMon, and Elastic, whose error is not known.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_distinct(
    sketch: *const overbank_sketch,
    sigmas: f64,
    distinct: *mut overbank_real,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        if !(sigmas >= 0.0 && sigmas.is_finite()) {
            return fail(OVERBANK_INVALID, format!("sigmas cannot be {sigmas}: choose 0 or more, such as 2"));
        }
        let answer = share(sketch, |sketch| {
            Ok(match sketch {
                Sketch::HyperLogLog(sketch) => overbank_real {
                    lower: sketch.lower_bound(sigmas),
                    estimate: sketch.estimate(),
                    upper: sketch.upper_bound(sigmas),
                },
                Sketch::LogLog(sketch) => overbank_real {
                    lower: sketch.lower_bound(sigmas),
                    estimate: sketch.estimate(),
                    upper: sketch.upper_bound(sigmas),
                },
                Sketch::UnivMon(sketch) => within(sketch.cardinality(), sigmas),
                Sketch::Elastic(sketch) => unknown(sketch.cardinality()),
                other => return other.cannot("the number of different keys"),
            })
        })?;
        write(distinct, answer, "distinct")
    })
}

fn within(sum: overbank::sketch::univ_mon::KeySum, sigmas: f64) -> overbank_real {
    let off = sigmas * sum.standard_error;
    overbank_real { lower: (sum.estimate - off).max(0.0), estimate: sum.estimate, upper: sum.estimate + off }
}

fn unknown(estimate: f64) -> overbank_real {
    overbank_real { lower: 0.0, estimate, upper: f64::INFINITY }
}

/// The entropy of the keys' shares in bits, within so many standard errors: UnivMon, and Elastic, whose error is not known.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_entropy(
    sketch: *const overbank_sketch,
    sigmas: f64,
    entropy: *mut overbank_real,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let answer = share(sketch, |sketch| match sketch {
            Sketch::UnivMon(sketch) => Ok(within(sketch.entropy(), sigmas)),
            Sketch::Elastic(sketch) => Ok(unknown(sketch.entropy())),
            other => other.cannot("entropy"),
        })?;
        write(entropy, answer, "entropy")
    })
}

/// The value of a DDSketch of which a share of `q` is less: 0.5 is the median. OVERBANK_NOT_FOUND where there is no value.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_quantile(
    sketch: *const overbank_sketch,
    q: f64,
    value: *mut overbank_real,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        if !(0.0..=1.0).contains(&q) {
            return fail(OVERBANK_INVALID, format!("q cannot be {q}: choose 0 to 1"));
        }
        let answer = share(sketch, |sketch| match sketch {
            Sketch::DdSketch(sketch) => {
                match (sketch.lower_bound(q), sketch.quantile(q), sketch.upper_bound(q)) {
                    (Some(lower), Some(estimate), Some(upper)) => {
                        Ok(overbank_real { lower, estimate, upper })
                    }
                    _ => fail(
                        OVERBANK_NOT_FOUND,
                        "the sketch has no values, and so no quantiles; add some first",
                    ),
                }
            }
            other => other.cannot("quantiles"),
        })?;
        write(value, answer, "value")
    })
}

/// The heaviest keys, heaviest first, `capacity` at most: CocoSketch, UnivMon, Elastic and space-saving. `count` tells how many there are.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_top(
    sketch: *const overbank_sketch,
    confidence: f64,
    heavy: *mut overbank_heavy,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        require_confidence(confidence)?;
        share(sketch, |sketch| {
            let top = match sketch {
                Sketch::Coco(sketch) => sketch.top(capacity, confidence),
                Sketch::UnivMon(sketch) => sketch.top(capacity, confidence),
                Sketch::Elastic(sketch) => sketch.top(capacity, confidence),
                Sketch::SpaceSaving(sketch) => sketch.top(capacity),
                other => return other.cannot("keys"),
            };
            write(count, top.len(), "count")?;
            write_all(heavy, top.into_iter().map(overbank_heavy::of), "heavy")
        })
    })
}

/// The sum of all weights, UINT64_MAX for that and more; of a DDSketch, the number of values.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_sketch_total_weight(
    sketch: *const overbank_sketch,
    weight: *mut u64,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let total = share(sketch, |sketch| {
            let narrowed = |total: u128| u64::try_from(total).unwrap_or(u64::MAX);
            Ok(match sketch {
                Sketch::CountMin(sketch) => narrowed(sketch.total_weight()),
                Sketch::CountSketch(sketch) => sketch.total_weight(),
                Sketch::DdSketch(sketch) => narrowed(sketch.count()),
                Sketch::Coco(sketch) => sketch.total_weight(),
                Sketch::UnivMon(sketch) => sketch.total_weight(),
                Sketch::Elastic(sketch) => sketch.total_weight(),
                Sketch::SpaceSaving(sketch) => sketch.total_weight(),
                other => return other.cannot("a total weight"),
            })
        })?;
        write(weight, total, "weight")
    })
}
