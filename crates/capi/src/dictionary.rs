//! Exact keys and values beyond RAM.

use crate::arrays::{keys, overbank_bytes, write};
use crate::error::overbank_status::*;
use crate::error::{call, fail};
use crate::object::{Opaque, give, release, share};
use crate::store::{ask, open_in, overbank_store};
use overbank::{Dictionary, DictionaryOptions};
use std::ffi::c_char;

/// A dictionary of a store.
pub struct overbank_dictionary {
    _private: [u8; 0],
}

impl Opaque for overbank_dictionary {
    type Inner = Dictionary;
    const TAG: u32 = u32::from_le_bytes(*b"dict");
    const NAME: &'static str = "dictionary";
}

/// What a lookup of several keys found.
pub struct overbank_values {
    _private: [u8; 0],
}

impl Opaque for overbank_values {
    type Inner = Vec<Option<Vec<u8>>>;
    const TAG: u32 = u32::from_le_bytes(*b"vals");
    const NAME: &'static str = "list of values";
}

/// Opens a dictionary, or makes one, in so much of the store's memory; 0: the library's choice.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_dictionary_open(
    store: *const overbank_store,
    name: *const c_char,
    memory_bytes: usize,
    out: *mut *mut overbank_dictionary,
) -> i32 {
    let mut options = DictionaryOptions::new();
    if memory_bytes != 0 {
        options = options.memory_bytes(memory_bytes);
    }
    // SAFETY: the caller's duty.
    unsafe { open_in(store, name, out, |store, name| Ok(store.dictionary(name, options)?)) }
}

/// Gives each of `n` keys its value, in place of one that it has.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_dictionary_insert(
    dictionary: *const overbank_dictionary,
    keys_in: *const overbank_bytes,
    values: *const overbank_bytes,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let (keys, values) = (keys(keys_in, n, "keys")?, keys(values, n, "values")?);
        share(dictionary, |dictionary| Ok(dictionary.insert_many(&keys, &values)?))
    })
}

/// Looks `n` keys up: one wave of reads.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_dictionary_get(
    dictionary: *const overbank_dictionary,
    keys_in: *const overbank_bytes,
    n: usize,
    out: *mut *mut overbank_values,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let keys = keys(keys_in, n, "keys")?;
        give(out, || share(dictionary, |dictionary| Ok(dictionary.get_many(&keys)?)))
    })
}

/// Removes `n` keys, those that are there.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_dictionary_remove(
    dictionary: *const overbank_dictionary,
    keys_in: *const overbank_bytes,
    n: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let keys = keys(keys_in, n, "keys")?;
        share(dictionary, |dictionary| Ok(dictionary.remove_many(&keys)?))
    })
}

/// The value of key `i` of a lookup, until the list is freed. OVERBANK_NOT_FOUND where the key has none.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_values_get(
    values: *const overbank_values,
    i: usize,
    value: *mut overbank_bytes,
) -> i32 {
    // SAFETY: the caller's duty.
    unsafe {
        ask(values, |values| match values.get(i) {
            Some(Some(found)) => write(value, overbank_bytes::of(found), "value"),
            Some(None) => fail(OVERBANK_NOT_FOUND, format!("key {i} has no value")),
            None => fail(OVERBANK_INVALID, format!("i cannot be {i}: {} keys were looked up", values.len())),
        })
    }
}

/// Frees a list of values; NULL is none.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_values_free(values: *mut overbank_values) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(values) })
}

/// Frees the handle; the dictionary stays in its store.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_dictionary_free(dictionary: *mut overbank_dictionary) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(dictionary) })
}
