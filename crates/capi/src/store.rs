//! A store: what structures beyond RAM are opened in, and what commits them.

use crate::arrays::{one, slice, text, write};
use crate::buffer::overbank_buffer;
use crate::error::{Answer, call};
use crate::hash::{hasher_of, overbank_hasher};
use crate::object::{Opaque, change, give, release, share};
use overbank::{Store, StoreOptions};
use std::ffi::c_char;

/// A directory of structures that commit as one.
pub struct overbank_store {
    _private: [u8; 0],
}

impl Opaque for overbank_store {
    type Inner = Store;
    const TAG: u32 = u32::from_le_bytes(*b"stor");
    const NAME: &'static str = "store";
}

/// How a store is opened: all zero for the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct overbank_store_options {
    /// What all that is open in it takes of RAM together; 0: the library's choice.
    pub memory_bytes: usize,
    /// Threads that work beside the callers; 0: the library's choice.
    pub threads: usize,
    /// The hasher of a new store; a kind of 0: XXH3 with a random seed. A store that is there keeps its own.
    pub hasher: overbank_hasher,
}

/// # Safety
/// NULL, or options that are not changed meanwhile.
unsafe fn options_of(options: *const overbank_store_options) -> Answer<StoreOptions> {
    let mut chosen = StoreOptions::new();
    if options.is_null() {
        return Ok(chosen);
    }
    // SAFETY: the caller's duty, here and below.
    let options = unsafe { one(options, "the options") }?;
    if options.memory_bytes != 0 {
        chosen = chosen.memory_bytes(options.memory_bytes);
    }
    if options.threads != 0 {
        chosen = chosen.threads(options.threads);
    }
    if options.hasher.kind != 0 {
        // SAFETY: as above.
        let hasher = unsafe { hasher_of(&raw const options.hasher) }?;
        chosen = chosen.seed(hasher.seed()).hash_kind(hasher.kind());
    }
    Ok(chosen)
}

/// Opens the store of a directory for writing, or makes it. `options` may be NULL.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_open(
    path: *const c_char,
    options: *const overbank_store_options,
    out: *mut *mut overbank_store,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe { Ok(Store::open_or_create(text(path, "the path")?, options_of(options)?)?) };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// Opens the last commit of a store, also beside its writer.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_open_read_only(
    path: *const c_char,
    options: *const overbank_store_options,
    out: *mut *mut overbank_store,
) -> i32 {
    // SAFETY: the caller's duty.
    let make = || unsafe { Ok(Store::open_read_only(text(path, "the path")?, options_of(options)?)?) };
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, make) })
}

/// A store in RAM, gone when it is freed.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_in_memory(
    options: *const overbank_store_options,
    out: *mut *mut overbank_store,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || Ok(Store::in_memory(options_of(options)?)?)) })
}

/// Makes all structures durable as they are, together with the source's position, of 64 KiB at most; or nothing.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_commit(
    store: *const overbank_store,
    position: *const u8,
    len: usize,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let position = slice(position, len, "the position")?;
        share(store, |store| Ok(store.commit(position).map(|_| ())?))
    })
}

/// The position of the last commit.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_position(
    store: *const overbank_store,
    out: *mut *mut overbank_buffer,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { give(out, || share(store, |store| Ok(store.position()))) })
}

/// How the store's keys are hashed.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_hasher(
    store: *const overbank_store,
    hasher: *mut overbank_hasher,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { share(store, |store| write(hasher, store.hasher().into(), "hasher")) })
}

/// Closes a structure by name: handles of it answer OVERBANK_CLOSED from then on.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_close(store: *const overbank_store, name: *const c_char) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let name = text(name, "the name")?;
        share(store, |store| Ok(store.close(name)?))
    })
}

/// Frees a store, which closes it. What was not committed is gone; handles of its structures write nothing any more, and are still to be
/// freed.
///
/// # Safety
/// The crate's rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn overbank_store_free(store: *mut overbank_store) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { release(store) })
}

/// Opens something in a store.
///
/// # Safety
/// The crate's rules.
pub(crate) unsafe fn open_in<F: Opaque>(
    store: *const overbank_store,
    name: *const c_char,
    out: *mut *mut F,
    open: impl FnOnce(&Store, &str) -> Answer<F::Inner>,
) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe {
        let name = text(name, "the name")?;
        give(out, || share(store, |store| open(store, name)))
    })
}

/// Asks a structure, which takes any number of threads.
///
/// # Safety
/// The crate's rules.
pub(crate) unsafe fn ask<F: Opaque>(handle: *const F, work: impl FnOnce(&F::Inner) -> Answer<()>) -> i32
where
    F::Inner: Sync,
{
    // SAFETY: the caller's duty.
    call(|| unsafe { share(handle, work) })
}

/// Changes what one thread at a time may use.
///
/// # Safety
/// The crate's rules.
pub(crate) unsafe fn work<F: Opaque>(handle: *mut F, work: impl FnOnce(&mut F::Inner) -> Answer<()>) -> i32 {
    // SAFETY: the caller's duty.
    call(|| unsafe { change(handle, work) })
}
