//! Which keys were seen, beyond RAM: "no" is certain.

use crate::arrays::{keys, overbank_bytes, write_all};
use crate::error::call;
use crate::hash::{hashes_of, overbank_hash};
use crate::object::{Opaque, release, share};
use crate::store::{ask, open_in, overbank_store};
use overbank::{Filter, FilterOptions};
use std::ffi::c_char;

/// A filter of a store.
pub struct overbank_filter {
    _private: [u8; 0],
}

impl Opaque for overbank_filter {
    type Inner = Filter;
    const TAG: u32 = u32::from_le_bytes(*b"filt");
    const NAME: &'static str = "filter";
}

/// Opens a filter, or makes one for so many keys that takes a new key for a seen one with this probability, in so much of the store's
/// memory. Zeros are the library's choice.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_open(
    store: *const overbank_store,
    name: *const c_char,
    expected_keys: u64,
    false_positive_rate: f64,
    memory_bytes: usize,
    out: *mut *mut overbank_filter,
) -> i32 {
    let mut options = FilterOptions::new();
    if expected_keys != 0 {
        options = options.keys(expected_keys);
    }
    if false_positive_rate != 0.0 {
        options = options.false_positive_rate(false_positive_rate);
    }
    if memory_bytes != 0 {
        options = options.memory_bytes(memory_bytes);
    }
    // SAFETY: the caller's duty.
    unsafe { open_in(store, name, out, |store, name| Ok(store.filter(name, options)?)) }
}

/// Inserts `n` keys.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_insert(
    filter: *const overbank_filter,
    hashes: *const overbank_hash,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { ask(filter, |filter| Ok(filter.insert(&hashes_of(hashes, n)?)?)) }
}

/// Inserts those of `n` keys that are not there; `is_new[i]` is 1 where key `i` was not, also of equal keys of the call the first.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_insert_if_absent(
    filter: *const overbank_filter,
    hashes: *const overbank_hash,
    n: usize,
    is_new: *mut u8,
) -> i32 {
    // SAFETY: the caller's duty, here and below.
    call(|| unsafe {
        // Asked for before anything changes.
        write_all(is_new, std::iter::repeat_n(0, n), "is_new")?;
        let fresh = share(filter, |filter| Ok(filter.insert_if_absent(&hashes_of(hashes, n)?)?))?;
        write_all(is_new, fresh.into_iter().map(u8::from), "is_new")
    })
}

/// As `overbank_filter_insert_if_absent`, of keys that the filter hashes.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_insert_keys_if_absent(
    filter: *const overbank_filter,
    keys_in: *const overbank_bytes,
    n: usize,
    is_new: *mut u8,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        write_all(is_new, std::iter::repeat_n(0, n), "is_new")?;
        let keys = keys(keys_in, n, "keys")?;
        let fresh = share(filter, |filter| Ok(filter.insert_keys_if_absent(&keys)?))?;
        write_all(is_new, fresh.into_iter().map(u8::from), "is_new")
    })
}

/// Whether each of `n` keys is there: 1, or surely not: 0.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_contains(
    filter: *const overbank_filter,
    hashes: *const overbank_hash,
    n: usize,
    are_in: *mut u8,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let found = share(filter, |filter| Ok(filter.contains_many(&hashes_of(hashes, n)?)?))?;
        write_all(are_in, found.into_iter().map(u8::from), "are_in")
    })
}

/// Takes `n` keys out that were inserted before.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_remove(
    filter: *const overbank_filter,
    hashes: *const overbank_hash,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe { ask(filter, |filter| Ok(filter.remove(&hashes_of(hashes, n)?)?)) }
}

/// Frees the handle; the filter stays in its store.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_filter_free(filter: *mut overbank_filter) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(filter) })
}
