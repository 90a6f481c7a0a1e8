//! How often each key came, beyond RAM: never too low.

use crate::arrays::{optional, write, write_all};
use crate::error::call;
use crate::hash::{hashes_of, overbank_hash};
use crate::object::{Opaque, release, share};
use crate::sketch_query::overbank_count;
use crate::store::{ask, open_in, overbank_store};
use overbank::{Frequency, FrequencyOptions};
use std::ffi::c_char;

/// Counts of a store.
pub struct overbank_frequency {
    _private: [u8; 0],
}

impl Opaque for overbank_frequency {
    type Inner = Frequency;
    const TAG: u32 = u32::from_le_bytes(*b"freq");
    const NAME: &'static str = "frequency";
}

/// Opens counts, or makes them: an estimate is too high by more than `epsilon` of the weight with probability `delta` at most.
/// `memory_bytes` is of the store's; 0: the library's choice.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_frequency_open(
    store: *const overbank_store,
    name: *const c_char,
    epsilon: f64,
    delta: f64,
    memory_bytes: usize,
    out: *mut *mut overbank_frequency,
) -> i32 {
    let mut options = FrequencyOptions::new().error(epsilon, delta);
    if memory_bytes != 0 {
        options = options.memory_bytes(memory_bytes);
    }
    // SAFETY: the caller's duty.
    unsafe { open_in(store, name, out, |store, name| Ok(store.frequency(name, options)?)) }
}

/// Adds `weights[i]` to each of `n` keys, or 1 where `weights` is NULL.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_frequency_update(
    frequency: *const overbank_frequency,
    hashes: *const overbank_hash,
    weights: *const u64,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        ask(frequency, |counts| Ok(counts.update(&hashes_of(hashes, n)?, optional(weights, n, "weights")?)?))
    }
}

/// How often each of `n` keys came, with bounds of this confidence.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_frequency_counts(
    frequency: *const overbank_frequency,
    hashes: *const overbank_hash,
    n: usize,
    confidence: f64,
    counts: *mut overbank_count,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let bounds = share(frequency, |of| Ok(of.bounds(&hashes_of(hashes, n)?, confidence)?))?;
        write_all(counts, bounds.into_iter().map(Into::into), "counts")
    })
}

/// The sum of all weights; UINT64_MAX for that and more.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_frequency_total_weight(
    frequency: *const overbank_frequency,
    weight: *mut u64,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { ask(frequency, |counts| write(weight, counts.total_weight(), "weight")) }
}

/// Frees the handle; the counts stay in their store.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_frequency_free(frequency: *mut overbank_frequency) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(frequency) })
}
