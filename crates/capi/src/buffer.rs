//! Bytes that the library made: read where they are, and freed by it.

use crate::arrays::{overbank_bytes, write};
use crate::error::call;
use crate::object::{Opaque, release, share};

/// Bytes of the library's.
pub struct overbank_buffer {
    _private: [u8; 0],
}

impl Opaque for overbank_buffer {
    type Inner = Vec<u8>;
    const TAG: u32 = u32::from_le_bytes(*b"buff");
    const NAME: &'static str = "buffer";
}

/// Where the bytes of a buffer are: until it is freed.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_buffer_bytes(
    buffer: *const overbank_buffer,
    bytes: *mut overbank_bytes,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { share(buffer, |buffer| write(bytes, overbank_bytes::of(buffer), "bytes")) })
}

/// Frees a buffer; NULL is none.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_buffer_free(buffer: *mut overbank_buffer) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(buffer) })
}
