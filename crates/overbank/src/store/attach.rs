//! Which summaries take part in commits, and the handles that share them.
//!
//! ```text
//!   open_with(name) ─▶ attached already: the same summary          Handle ─┐
//!                   └▶ being opened by another thread: wait        Handle ─┼─▶ summary ◀─ attached under its name
//!                   └▶ neither: make it, attach it                 Handle ─┘
//!                                                     the last one is dropped: released, now or by the commit that takes it in
//! ```
//!
//! Invariants:
//! 1. A name has at most one summary at a time, and one thread at a time makes it.
//! 2. The lock of the state is held for look-ups alone: no summary is asked for anything, made or dropped under it.
//! 3. A summary that nobody has a handle of leaves when it holds nothing that no commit does. While a commit is under way it
//!    stays: its record may not arrive.

use super::participant::wrong_kind;
use super::registry::Kind;
use super::{Core, Entry, Participant, State, Store, check_name};
use crate::error::invalid;
use crate::lock::{lock, wait};
use crate::{Error, Result};
use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};

/// A summary under its name.
pub(super) struct Attached {
    pub(super) participant: Arc<dyn Participant>,
    /// The same, to be handed out again; none for one that was attached without a handle.
    whole: Option<Arc<dyn Any + Send + Sync>>,
    /// Tells it from others of the same name before and after it.
    pub(super) number: u64,
    pub(super) handles: Weak<Token>,
    /// The number of its kind.
    pub(super) kind: u16,
}

/// Who makes a summary.
pub(super) struct Maker {
    /// What it will be attached by.
    pub(super) number: u64,
    thread: ThreadId,
}

impl Attached {
    /// Whether all its handles were dropped.
    pub(super) fn is_left(&self) -> bool {
        self.whole.is_some() && self.handles.strong_count() == 0
    }
}

/// Shared by the handles of a summary: drops with the last one.
#[derive(Debug)]
pub(super) struct Token {
    core: Weak<Core>,
    name: String,
}

impl Drop for Token {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.leave(&self.name);
        }
    }
}

/// A summary that can be opened by its name.
pub trait Openable: Participant + 'static {
    /// What it is.
    const KIND: Kind;
}

/// A summary that is open in a store. Clones share it; when the last one is dropped, it is released, and with it its budget: at
/// once if it holds nothing that is not committed, else with the next commit, so that nothing is lost.
#[derive(Debug)]
pub struct Handle<P> {
    summary: Arc<P>,
    _token: Arc<Token>,
}

impl<P> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Handle { summary: Arc::clone(&self.summary), _token: Arc::clone(&self._token) }
    }
}

impl<P> Deref for Handle<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.summary
    }
}

impl Store {
    /// Takes a summary into the commits under `name`: a new one, or one that was recovered from [`Store::record`]. In a store
    /// that is open read-only, which commits nothing, it vouches for its blocks to [`Store::verify`].
    ///
    /// # Errors
    /// `InvalidOption` for an empty name, a name over 255 bytes or with control characters; `AlreadyExists` if
    /// something is attached under it; `WrongKind` if another kind of summary is stored under it.
    pub fn attach(&self, name: &str, participant: Arc<dyn Participant>) -> Result<()> {
        self.core.poison.check()?;
        check_name(name)?;
        let structure = participant.structure();
        let mut state = self.core.state();
        if state.attached.contains_key(name) || state.opening.contains_key(name) {
            return Err(Error::AlreadyExists { what: "summary", name: name.to_owned() });
        }
        if let Some(stored) = state.record(name) {
            stored.entry.require_kind(name, structure.id)?;
        }
        let number = state.number();
        let attached =
            Attached { participant, whole: None, number, handles: Weak::new(), kind: structure.id };
        state.attached.insert(name.to_owned(), attached);
        Ok(())
    }

    /// The summary of this name: the one that is open in this process, or what `make` makes of what the last commit holds of it.
    ///
    /// `make` runs without a lock of the store; who asks for the same name meanwhile waits for it.
    ///
    /// # Errors
    /// What `make` returns; `WrongKind` if another kind of summary is open or stored under the name; `InvalidOption` for what `make` calls
    /// if it is the same name; as [`Store::attach`].
    pub fn open_with<P: Openable>(
        &self,
        name: &str,
        make: impl FnOnce(Option<&Entry>) -> Result<P>,
    ) -> Result<Handle<P>> {
        let core = &self.core;
        core.poison.check()?;
        check_name(name)?;
        let mut state = core.state();
        let (number, stored) = loop {
            if let Some(attached) = state.attached.get_mut(name) {
                if let Some(summary) = attached.whole.clone().and_then(|whole| whole.downcast::<P>().ok()) {
                    let token = attached.handles.upgrade();
                    let token = token.unwrap_or_else(|| core.token(name, &mut attached.handles));
                    drop(state);
                    return Ok(Handle { summary, _token: token });
                }
                return Err(wrong_kind(name, P::KIND.id, attached.kind));
            }
            if !state.opening.contains_key(name) {
                let number = state.number();
                state.opening.insert(name.to_owned(), Maker { number, thread: thread::current().id() });
                break (number, state.record(name));
            }
            if state.is_making(Some(name)) {
                return invalid(
                    "name",
                    format!("{name:?}"),
                    "it is being opened by what opens it here; open each name once",
                );
            }
            state = wait(&core.opened, state);
        };
        drop(state);
        let opening = Opening { core, name };
        let entry = stored.as_ref().map(|stored| &stored.entry);
        if let Some(entry) = entry {
            entry.require_kind(name, P::KIND.id)?;
        }
        let summary = Arc::new(make(entry)?);
        let mut attached = Attached {
            participant: Arc::clone(&summary) as Arc<dyn Participant>,
            whole: Some(Arc::clone(&summary) as Arc<dyn Any + Send + Sync>),
            number,
            handles: Weak::new(),
            kind: P::KIND.id,
        };
        let token = core.token(name, &mut attached.handles);
        core.state().attached.insert(name.to_owned(), attached);
        drop(opening);
        Ok(Handle { summary, _token: token })
    }

    /// Closes the summary of this name, or what is made of several, as a window is of its panes: its budget is free, it takes part in
    /// no commit any more, and who still has a handle of it is refused. What is stored stays.
    ///
    /// # Cost
    /// Waits for a commit under way.
    ///
    /// # Errors
    /// `NotFound` if none of that name is open; `InvalidOption` if it holds what is not committed: commit first; `InvalidOption` also for
    /// a part alone, and inside what a summary of the store calls.
    pub fn close(&self, name: &str) -> Result<()> {
        let core = &self.core;
        core.poison.check_process()?;
        core.files.refuse_called("close")?;
        let _turn = lock(&core.journal);
        let refuse =
            |why: String| Err(Error::InvalidOption { name: "name", value: format!("{name:?}"), why });
        let mut closing = core.parts(name);
        closing.retain(|(own, participant)| own == name || participant.whole() == Some(name));
        if closing.is_empty() {
            return Err(Error::NotFound { what: "open summary", name: name.to_owned() });
        }
        if let Some(whole) = closing.iter().find_map(|(_, part)| part.whole().filter(|&whole| whole != name))
        {
            return refuse(format!("it is a part of {whole:?}: close that"));
        }
        let is_bound = !core.read_only && core.poison.check().is_ok();
        if is_bound && closing.iter().any(|(_, participant)| participant.is_changed()) {
            return refuse("it holds what is not committed: commit first, or remove it".to_owned());
        }
        let mut state = core.state();
        let closed: Vec<_> = closing.iter().filter_map(|(own, _)| state.attached.remove(own)).collect();
        drop(state);
        closed.iter().for_each(|one| one.participant.close());
        Ok(())
    }
}

impl Core {
    fn token(self: &Arc<Self>, name: &str, handles: &mut Weak<Token>) -> Arc<Token> {
        let token = Arc::new(Token { core: Arc::downgrade(self), name: name.to_owned() });
        *handles = Arc::downgrade(&token);
        token
    }

    /// What is attached under a name, or under one that continues it as a path.
    fn parts(&self, name: &str) -> Vec<(String, Arc<dyn Participant>)> {
        let state = self.state();
        let alike = state.attached.range(name.to_owned()..).take_while(|(own, _)| own.starts_with(name));
        let parts = alike.filter(|(own, _)| own.len() == name.len() || own[name.len()..].starts_with('/'));
        parts.map(|(own, attached)| (own.clone(), Arc::clone(&attached.participant))).collect()
    }

    /// The last handle of a summary is gone.
    fn leave(&self, name: &str) {
        if self.poison.check_process().is_err() {
            return;
        }
        let state = self.state();
        let left = state.attached.get(name).filter(|attached| attached.is_left() && !state.is_committing);
        let left = left.map(|attached| (Arc::clone(&attached.participant), attached.handles.clone()));
        drop(state);
        if let Some((participant, handles)) = left {
            self.release(name, &*participant, &handles);
        }
    }

    /// Releases a summary whose last handles these were, if it holds nothing that is not committed.
    pub(super) fn release(&self, name: &str, participant: &dyn Participant, handles: &Weak<Token>) {
        // After a failed write there is no commit to wait for.
        if !self.read_only && self.poison.check().is_ok() && participant.is_changed() {
            return;
        }
        let mut state = self.state();
        // A commit that began since sees to it.
        let released = if state.is_committing { None } else { state.release(name, handles) };
        drop(state);
        drop(released);
    }
}

impl State {
    /// A number that no other summary of this store has had.
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether this thread makes a summary, of this name or of any.
    pub(super) fn is_making(&self, name: Option<&str>) -> bool {
        let thread = thread::current().id();
        let of_name = |own: &String| name.is_none_or(|name| own == name);
        self.opening.iter().any(|(own, maker)| of_name(own) && maker.thread == thread)
    }

    /// Takes a summary out whose last handles these were; nothing if somebody has taken another since.
    pub(super) fn release(&mut self, name: &str, handles: &Weak<Token>) -> Option<Attached> {
        let is_left = |attached: &&Attached| attached.is_left() && attached.handles.ptr_eq(handles);
        self.attached.get(name).filter(is_left)?;
        self.attached.remove(name)
    }
}

/// A name that a thread makes a summary for.
struct Opening<'a> {
    core: &'a Core,
    name: &'a str,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.core.state().opening.remove(self.name);
        self.core.opened.notify_all();
    }
}
