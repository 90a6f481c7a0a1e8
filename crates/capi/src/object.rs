//! What a handle points to: its kind, who is in it, and the thing itself.
//!
//! ```text
//!   Object   kind │ users: 0 free, n asking, -1 changing │ poisoned │ value
//! ```
//!
//! 1. `value` is reached by those alone who raised `users` from 0 or more, or took it from 0 to -1.
//! 2. A call that unwinds leaves `poisoned` behind, whatever it held.

use crate::error::overbank_status::*;
use crate::error::{Answer, fail};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// An opaque type of the header, and what is behind it.
pub(crate) trait Opaque {
    /// What its handles point to: `Sync` where several threads may ask at once.
    type Inner: Send;
    /// Says the kind where a handle begins.
    const TAG: u32;
    /// For people.
    const NAME: &'static str;
}

/// What stands where a handle was freed.
const FREED: u32 = u32::from_le_bytes(*b"gone");

#[repr(C)]
struct Head {
    kind: AtomicU32,
    users: AtomicI32,
    poisoned: AtomicBool,
}

#[repr(C)]
struct Object<T> {
    head: Head,
    value: UnsafeCell<T>,
}

/// Takes a user off, and poisons what it left in the midst of a call.
struct Visit<'a> {
    head: &'a Head,
    came: i32,
    is_done: bool,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.head.poisoned.store(true, Ordering::Relaxed);
        }
        self.head.users.fetch_sub(self.came, Ordering::Release);
    }
}

impl Head {
    /// Enters as one of several (1) or alone (-1).
    fn enter(&self, came: i32, name: &str) -> Answer<Visit<'_>> {
        let next = |users: i32| match (came, users) {
            (1, 0..) => users.checked_add(1),
            (-1, 0) => Some(-1),
            _ => None,
        };
        match self.users.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) {
            Ok(_) => Ok(Visit { head: self, came, is_done: false }),
            Err(-1) => fail(
                OVERBANK_BUSY,
                format!("another call changes this {name}; let one thread at a time use it"),
            ),
            Err(_) => fail(
                OVERBANK_BUSY,
                format!("another call uses this {name}; change and free it when none does"),
            ),
        }
    }

    fn require_sound(&self, name: &str) -> Answer<()> {
        if self.poisoned.load(Ordering::Relaxed) {
            let why = format!("an earlier call panicked in this {name}, which may be half changed; free it");
            return fail(OVERBANK_POISONED, why);
        }
        Ok(())
    }
}

/// The head behind a handle, if it is of this kind.
///
/// # Safety
/// NULL, or what [`give`] gave, or something else of at least the size of a head that is not written meanwhile.
unsafe fn head<'a, F: Opaque>(handle: *const F) -> Answer<&'a Head> {
    let name = F::NAME;
    if handle.is_null() {
        return fail(OVERBANK_NULL_POINTER, format!("the {name} is NULL; make one first"));
    }
    let at = handle.cast::<Head>();
    if !at.is_aligned() {
        return fail(OVERBANK_WRONG_KIND, format!("this is not a {name}: no handle has such an address"));
    }
    // SAFETY: the caller's duty; all fields are atomic, and any bytes are such but for the flag, which is not read here.
    let kind = unsafe { &(*at).kind }.load(Ordering::Relaxed);
    match kind {
        // SAFETY: only `give` writes this kind, in front of a whole head.
        kind if kind == F::TAG => Ok(unsafe { &*at }),
        FREED => fail(OVERBANK_CLOSED, format!("this {name} was freed; do not use it any more")),
        _ => fail(OVERBANK_WRONG_KIND, format!("this is not a {name}, but a handle of another kind")),
    }
}

/// Hands a new object out.
///
/// # Safety
/// `out` is NULL or can be written.
pub(crate) unsafe fn give<F: Opaque>(
    out: *mut *mut F,
    make: impl FnOnce() -> Answer<F::Inner>,
) -> Answer<()> {
    if out.is_null() {
        return fail(OVERBANK_NULL_POINTER, format!("the pointer for the new {} is NULL", F::NAME));
    }
    // Who does not look at the code finds no handle.
    // SAFETY: the caller's duty.
    unsafe { out.write(std::ptr::null_mut()) };
    let value = UnsafeCell::new(make()?);
    let head =
        Head { kind: AtomicU32::new(F::TAG), users: AtomicI32::new(0), poisoned: AtomicBool::new(false) };
    let made = Box::into_raw(Box::new(Object { head, value }));
    // SAFETY: as above.
    unsafe { out.write(made.cast()) };
    Ok(())
}

/// Asks an object, beside others that ask.
///
/// # Safety
/// The handle is as [`head`] wants it, and nobody frees it meanwhile without asking.
pub(crate) unsafe fn share<F: Opaque, T>(
    handle: *const F,
    ask: impl FnOnce(&F::Inner) -> Answer<T>,
) -> Answer<T>
where
    F::Inner: Sync,
{
    // SAFETY: the caller's duty.
    let head = unsafe { head(handle) }?;
    let mut visit = head.enter(1, F::NAME)?;
    let answer = head.require_sound(F::NAME).and_then(|()| {
        // SAFETY: a whole object, as its kind says; while there are users above 0, nobody changes it (1).
        ask(unsafe { &*(*handle.cast::<Object<F::Inner>>()).value.get() })
    });
    visit.is_done = true;
    answer
}

/// Changes an object, alone.
///
/// # Safety
/// As [`share`].
pub(crate) unsafe fn change<F: Opaque, T>(
    handle: *mut F,
    work: impl FnOnce(&mut F::Inner) -> Answer<T>,
) -> Answer<T> {
    // SAFETY: the caller's duty.
    let head = unsafe { head(handle.cast_const()) }?;
    let mut visit = head.enter(-1, F::NAME)?;
    let answer = head.require_sound(F::NAME).and_then(|()| {
        // SAFETY: a whole object, as its kind says; users are -1, so nobody else reaches it (1).
        work(unsafe { &mut *(*handle.cast::<Object<F::Inner>>()).value.get() })
    });
    visit.is_done = true;
    answer
}

/// Frees an object, poisoned or not; NULL is none.
///
/// # Safety
/// As [`share`].
pub(crate) unsafe fn release<F: Opaque>(handle: *mut F) -> Answer<()> {
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's duty.
    let head = unsafe { head(handle.cast_const()) }?;
    // Nobody enters any more: the object stays at -1.
    let mut visit = head.enter(-1, F::NAME)?;
    visit.is_done = true;
    std::mem::forget(visit);
    head.kind.store(FREED, Ordering::Relaxed);
    // SAFETY: `give` made it a box of this type, and this call alone is in it.
    drop(unsafe { Box::from_raw(handle.cast::<Object<F::Inner>>()) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{call, overbank_last_error};
    use std::ffi::CStr;
    use std::ptr::null_mut;

    struct Number(#[allow(dead_code)] [u8; 0]);
    struct Other(#[allow(dead_code)] [u8; 0]);

    impl Opaque for Number {
        type Inner = u64;
        const TAG: u32 = 1;
        const NAME: &'static str = "number";
    }

    impl Opaque for Other {
        type Inner = u64;
        const TAG: u32 = 2;
        const NAME: &'static str = "other";
    }

    fn number() -> *mut Number {
        let mut made = null_mut();
        // SAFETY: a place for it.
        unsafe { give(&raw mut made, || Ok(7)) }.expect("a number");
        made
    }

    fn last() -> String {
        // SAFETY: never NULL, and nothing fails before it is copied.
        unsafe { CStr::from_ptr(overbank_last_error()) }.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn a_panic_is_answered_and_poisons() {
        let made = number();
        // SAFETY: a handle of its kind, here and below.
        assert_eq!(call(|| unsafe { change(made, |_| -> Answer<()> { panic!("planted {}", 4711) }) }), 7);
        assert!(last().contains("planted 4711"), "{}", last());
        // SAFETY: as above.
        assert_eq!(call(|| unsafe { share(made, |_| Ok(())) }), 6);
        assert!(last().contains("free it"), "{}", last());
        // SAFETY: as above.
        assert_eq!(call(|| unsafe { change(made, |_| Ok(())) }), 6);
        // SAFETY: as above.
        assert_eq!(call(|| unsafe { release(made) }), 0);
    }

    #[test]
    fn a_panic_of_who_asks_poisons_too() {
        let made = number();
        // SAFETY: a handle of its kind, here and below.
        assert_eq!(call(|| unsafe { share(made, |_| -> Answer<()> { panic!("planted") }) }), 7);
        // SAFETY: as above.
        assert_eq!(call(|| unsafe { share(made, |_| Ok(())) }), 6);
        // SAFETY: as above.
        assert_eq!(call(|| unsafe { release(made) }), 0);
    }

    #[test]
    fn one_changes_or_several_ask() {
        let made = number();
        // SAFETY: a handle of its kind, here and below.
        let inside = |outer: &dyn Fn(&dyn Fn())| {
            outer(&|| {
                // SAFETY: as above.
                assert_eq!(call(|| unsafe { change(made, |_| Ok(())) }), 4);
                // SAFETY: as above.
                assert_eq!(call(|| unsafe { release(made) }), 4);
            });
        };
        inside(&|check| {
            // SAFETY: as above.
            let ask = || unsafe {
                share(made, |_| {
                    check();
                    share(made, |&seven| {
                        assert_eq!(seven, 7);
                        Ok(())
                    })
                })
            };
            assert_eq!(call(ask), 0);
        });
        inside(&|check| {
            // SAFETY: as above.
            let work = || unsafe {
                change(made, |_| {
                    check();
                    assert_eq!(call(|| share(made, |_| Ok(()))), 4);
                    Ok(())
                })
            };
            assert_eq!(call(work), 0);
        });
        // SAFETY: as above.
        assert_eq!(call(|| unsafe { release(made) }), 0);
    }

    #[test]
    fn another_kind_null_and_odd_addresses() {
        let made = number();
        // SAFETY: an object of another kind; the kind alone is read.
        assert_eq!(call(|| unsafe { share(made.cast::<Other>(), |_| Ok(())) }), 3);
        assert!(last().contains("not a other"), "{}", last());
        // SAFETY: NULL is allowed.
        assert_eq!(call(|| unsafe { share(null_mut::<Number>(), |_| Ok(())) }), 1);
        // SAFETY: an odd address is refused before it is read.
        assert_eq!(call(|| unsafe { share(made.wrapping_byte_add(1), |_| Ok(())) }), 3);
        // SAFETY: NULL is allowed.
        assert_eq!(call(|| unsafe { release(null_mut::<Number>()) }), 0);
        // SAFETY: NULL is refused.
        assert_eq!(call(|| unsafe { give::<Number>(null_mut(), || Ok(1)) }), 1);
        // SAFETY: a handle of its kind.
        assert_eq!(call(|| unsafe { release(made) }), 0);
    }

    #[test]
    fn no_handle_where_making_one_fails() {
        let mut made = std::ptr::dangling_mut::<Number>();
        // SAFETY: a place for it.
        assert_eq!(call(|| unsafe { give(&raw mut made, || fail(OVERBANK_INVALID, "no\0thing")) }), 2);
        assert!(made.is_null());
        assert_eq!(last(), "no\u{fffd}thing");
    }
}
