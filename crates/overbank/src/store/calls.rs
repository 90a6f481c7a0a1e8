//! Which summaries of which stores call this thread's code, and wait for it: what would wait for one of them is refused there, for it
//! would wait for itself.
//!
//! ```text
//!   thread 1   profile.update ─▶ next() ─▶ store.commit()     waits for the journal
//!   thread 2   store.commit() has the journal                 waits for the end of the chunk, and so for next()
//! ```

use super::Files;
use crate::Result;
use crate::error::invalid;
use std::cell::RefCell;
use std::marker::PhantomData;

thread_local! {
    static CALLERS: RefCell<Vec<Caller>> = const { RefCell::new(Vec::new()) };
}

/// Who calls code that is not ours while it holds what others wait for, by the addresses of its store and of itself.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Caller {
    store: usize,
    summary: usize,
}

impl Caller {
    /// Notes that it calls, until what is returned drops.
    pub(crate) fn call(self) -> Called {
        CALLERS.with_borrow_mut(|callers| callers.push(self));
        Called(PhantomData)
    }

    /// Refuses what the caller itself called: `name` is that of the summary, which is a `what`.
    pub(crate) fn refuse_own(self, what: &'static str, name: &str) -> Result<()> {
        let is_own = CALLERS.with_borrow(|callers| callers.contains(&self));
        if is_own { refuse(what, &format!("what {name:?} itself calls")) } else { Ok(()) }
    }
}

/// A call of code that is not ours, in this thread.
pub(crate) struct Called(PhantomData<*const ()>);

impl Drop for Called {
    fn drop(&mut self) {
        CALLERS.with_borrow_mut(Vec::pop);
    }
}

impl Files {
    /// The caller that `summary` of this store is.
    pub(crate) fn caller<T>(&self, summary: &T) -> Caller {
        Caller { store: self.address(), summary: std::ptr::from_ref(summary).addr() }
    }

    /// Refuses `what` waits for commits in code that the store called: a commit may be waiting for the end of that.
    pub(crate) fn refuse_called(&self, what: &'static str) -> Result<()> {
        let store = self.address();
        let is_called = CALLERS.with_borrow(|callers| callers.iter().any(|caller| caller.store == store));
        if is_called { refuse(what, "what a summary of the store calls") } else { Ok(()) }
    }
}

fn refuse(what: &'static str, inside: &str) -> Result<()> {
    let why = "each would wait for the other; do it between two such calls, or leave it to a thread that none of them waits for";
    invalid(what, format!("used inside {inside}"), why)
}
