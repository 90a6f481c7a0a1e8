//! Arrays, texts and places for answers, as C gives them.

use crate::error::overbank_status::*;
use crate::error::{Answer, fail};
use std::ffi::{CStr, c_char};

/// Bytes of the caller's, or of a handle's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_bytes {
    /// The first; may be NULL if there are none.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

impl overbank_bytes {
    /// Of these.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }
}

fn require<T>(at: *const T, len: usize, what: &str) -> Answer<()> {
    if at.is_null() {
        return fail(
            OVERBANK_NULL_POINTER,
            format!("{what} is NULL, but {len} elements are said to be there"),
        );
    }
    if !at.is_aligned() {
        let why = format!("{what} is not aligned to {} bytes, as its type is", align_of::<T>());
        return fail(OVERBANK_INVALID, why);
    }
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    match bytes {
        Some(_) => Ok(()),
        None => fail(OVERBANK_INVALID, format!("{what} cannot have {len} elements: no memory is as large")),
    }
}

/// An array; NULL is none.
///
/// # Safety
/// NULL, or so many elements that are not changed while the slice lives.
pub(crate) unsafe fn slice<'a, T>(at: *const T, len: usize, what: &str) -> Answer<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    require(at, len, what)?;
    // SAFETY: not NULL, aligned, no longer than memory is; the rest is the caller's duty.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// An array that may be left out: NULL is.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn optional<'a, T>(at: *const T, len: usize, what: &str) -> Answer<Option<&'a [T]>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's duty.
    unsafe { slice(at, len, what) }.map(Some)
}

/// Writes answers to a place that may be uninitialised.
///
/// # Safety
/// NULL, or room for so many that nobody else uses.
pub(crate) unsafe fn write_all<T>(
    at: *mut T,
    values: impl ExactSizeIterator<Item = T>,
    what: &str,
) -> Answer<()> {
    if values.len() == 0 {
        return Ok(());
    }
    require(at.cast_const(), values.len(), what)?;
    for (i, value) in values.enumerate() {
        // SAFETY: within the room that the caller's duty promises.
        unsafe { at.add(i).write(value) };
    }
    Ok(())
}

/// Writes one answer.
///
/// # Safety
/// As [`write_all`], of one.
pub(crate) unsafe fn write<T>(at: *mut T, value: T, what: &str) -> Answer<()> {
    // SAFETY: the caller's duty.
    unsafe { write_all(at, std::iter::once(value), what) }
}

/// What a pointer points to.
///
/// # Safety
/// As [`slice`], of one.
pub(crate) unsafe fn one<'a, T>(at: *const T, what: &str) -> Answer<&'a T> {
    // SAFETY: the caller's duty.
    unsafe { slice(at, 1, what) }.map(|one| &one[0])
}

/// A text that ends in a zero.
///
/// # Safety
/// NULL, or a text that is not changed while it is used.
pub(crate) unsafe fn text<'a>(at: *const c_char, what: &str) -> Answer<&'a str> {
    if at.is_null() {
        return fail(OVERBANK_NULL_POINTER, format!("{what} is NULL; give a text"));
    }
    // SAFETY: not NULL; the rest is the caller's duty.
    match unsafe { CStr::from_ptr(at) }.to_str() {
        Ok(text) => Ok(text),
        Err(_) => fail(OVERBANK_INVALID, format!("{what} is not UTF-8")),
    }
}

/// Arrays of bytes.
///
/// # Safety
/// As [`slice`], and so are the bytes of each.
pub(crate) unsafe fn keys<'a>(at: *const overbank_bytes, len: usize, what: &str) -> Answer<Vec<&'a [u8]>> {
    // SAFETY: the caller's duty, here and below.
    let keys = unsafe { slice(at, len, what) }?;
    // SAFETY: as above.
    keys.iter().map(|key| unsafe { slice(key.data, key.len, what) }).collect()
}
