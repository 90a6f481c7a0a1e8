//! The C interface of Overbank: `include/overbank.h`, which cbindgen writes from here.
//!
//! ```text
//!   C ── overbank_sketch * ──▶ call ──▶ object: kind? freed? poisoned? in use? ──▶ the library
//!    ◀── int32_t: OVERBANK_OK, or a code ── error: its sentence is kept for this thread ◀──┘
//! ```
//!
//! 1. Nothing unwinds into C: a panic is `OVERBANK_PANICKED`, and the handle that it happened in answers `OVERBANK_POISONED` from then on,
//!    and can only be freed.
//! 2. NULL where something is needed, a handle of another kind, an argument out of its range, and a handle that another thread changes are
//!    answered by a code. A handle that was freed can be told only until its memory is used again.
//! 3. No data-structure logic: each function checks, calls the library, and copies the answer.
//!
//! # Rules of safety
//! What each function's `# Safety` refers to. A handle is NULL or came from this library and was not freed. A pointer to an array, where
//! its length is not 0, is NULL or points to so many initialised elements that nobody changes during the call; a pointer for an answer is
//! NULL or can be written. What a buffer, a list or a group points to lives until that is freed or moved on.
//!
//! # Errors
//! A function returns a code, and what went wrong as a sentence is [`overbank_last_error`]: of the thread, as `errno` is. So there is
//! nothing to free on a path that failed, functions that make a handle have it too, and no call has a parameter more. An error object would
//! outlive the next call, which a copy of the sentence does as well.
//!
//! # Threads
//! Stores, filters, frequencies, dictionaries, groups and readers: any number at once. A sketch: any number that ask, or one that changes
//! it. Workers and aggregators: one at a time, not always the same. Another one meanwhile is answered `OVERBANK_BUSY`; nobody waits.
//!
//! # Cost
//! A call has two atomic operations on the handle and no allocation, some 10 ns in all, so arrays are cheaper than single keys.

// The names are those of the header.
#![allow(non_camel_case_types)]

mod arrays;
mod buffer;
mod dictionary;
mod error;
mod filter;
mod frequency;
mod groups;
mod hash;
mod monitor;
mod object;
mod sketch;
mod sketch_query;
mod store;

pub use arrays::overbank_bytes;
pub use buffer::*;
pub use dictionary::*;
pub use error::*;
pub use filter::*;
pub use frequency::*;
pub use groups::*;
pub use hash::*;
pub use monitor::*;
pub use sketch::*;
pub use sketch_query::*;
pub use store::*;
