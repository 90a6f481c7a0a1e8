//! Compact summaries of streams that outgrow RAM and one core: what was seen before, how often, how many different, which are heavy, which
//! quantile; inside a memory budget that really holds, kept on disk, and whole after a crash at any moment.
//!
//! # Which structure answers which question
//!
//! | question | structure | opened by | size | errs |
//! |---|---|---|---|---|
//! | was this key seen before? | [`Filter`] | [`Store::filter`] | beyond RAM | "yes" wrongly, at a rate that you choose; "no" never |
//! | … and with which value? | [`Maplet`] | [`Store::maplet`] | beyond RAM | likewise |
//! | what is the record of this key, exactly? | [`Dictionary`] | [`Store::dictionary`] | beyond RAM | never |
//! | how often did this key come? | [`Frequency`] | [`Store::frequency`] | beyond RAM | too high, with bounds; never too low |
//! | … in the last hours? | [`FrequencyWindow`] | [`Store::frequency_window`] | beyond RAM | likewise |
//! | how often, from a few MiB? | [`CountMin`](sketch::CountMin) | [`Store::sketch`] | RAM | likewise |
//! | how many different keys? | [`HyperLogLog`](sketch::HyperLogLog) | [`Store::sketch`] | RAM, some KiB | by 1 % or so, either way, with bounds |
//! | which keys are heavy? | [`SpaceSaving`](sketch::SpaceSaving) | [`Store::sketch`] | RAM | too high, with bounds; misses no key above a weight that it states |
//! | the median, the 99th percentile? | [`DdSketch`](sketch::DdSketch) | [`Store::sketch`] | RAM, some KiB | by 1 % of the value, or what you choose |
//! | how often, also where occurrences are taken back? | [`CountSketch`](sketch::CountSketch) | [`Store::sketch`] | RAM | either way, with bounds |
//! | how often does any part of the keys come? | [`CocoSketch`](sketch::CocoSketch) | [`Store::sketch`] | RAM | either way, right on average, with bounds |
//! | which keys are heavy, how are counts distributed, what is their entropy? | [`Elastic`](sketch::Elastic), [`UnivMon`](sketch::UnivMon) | [`Store::sketch`] | RAM | too high; either way, with a standard error |
//! | which sources have the most distinct items? | [`Locher`](sketch::Locher) | [`Store::sketch`] | RAM | either way, with bounds |
//! | was it seen, with removals and counts, in RAM? | [`QuotientFilter`](filter::QuotientFilter) | [`Store::sketch`] | RAM | as the filter |
//! | what do the rows of each key come to, exactly: counts, sums, extremes? | [`Groups`](aggregate::Groups) | by itself | RAM, some 10 bytes a key of ten | never |
//! | which flows are heavy right now, how many are there, who talks to the most others, of traffic that many cores receive? | [`monitor`] | by itself | RAM, a byte a counter and core | as the sketch, with bounds |
//! | all of that about a stream, in one pass of many threads | [`Profile`] | [`Store::profile`] | RAM, counts beyond | all bounds given |
//!
//! Every structure of RAM also works by itself, without a store, and goes to bytes and back.
//!
//! # A store
//!
//! A [`Store`] is a directory of named structures that commit as one, together with a *position*: whatever you need to go on from there.
//! After a crash the store is exactly at its last commit.
//!
//! ```
//! use overbank::sketch::HyperLogLog;
//! use overbank::{FrequencyOptions, Store, StoreOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let directory = folder.path().join("summaries");
//! // All that is open in the store together takes no more than this.
//! let store = Store::open_or_create(&directory, StoreOptions::new().memory_bytes(64 << 20))?;
//! let options = FrequencyOptions::new().error(1e-4, 0.01).memory_bytes(16 << 20);
//! let clicks = store.frequency("clicks", options.clone())?;
//! let users = store.sketch("users", || HyperLogLog::new(14, store.hasher()))?;
//!
//! let keys = ["ada", "grace", "ada"].map(|user| store.hasher().hash(user.as_bytes()));
//! clicks.update(&keys, None)?;
//! users.update(|users| users.update_batch(&keys))?;
//! // Both, and where the source stands, or nothing: also if the power fails now.
//! store.commit(b"line 3")?;
//! drop((clicks, users, store));
//!
//! let store = Store::open_or_create(&directory, StoreOptions::new())?;
//! assert_eq!(store.position(), b"line 3");
//! let clicks = store.frequency("clicks", options)?;
//! let ada = store.hasher().hash(b"ada");
//! assert_eq!(clicks.estimate(&[ada])?, [2]);
//! # Ok(()) }
//! ```
//!
//! The examples of this crate are longer: a crawler's seen set that goes on where it stopped, a frequency cap with several writers, and
//! sketches that four processes build and one merges.
//!
//! # Handles, threads, blocking
//!
//! What a store opens is a handle: clone it, give it to other threads, call it by `&self`. Opening a name twice gives the same structure.
//! Dropping the last handle gives its memory back to the budget, once a commit has what was inserted; [`Store::close`] does it now. There
//! is no lock that you hold, so none to hold too long.
//!
//! Calls block the thread: on the device, and on short locks. In asynchronous code, call them by `spawn_blocking` or its like, with batches
//! of keys. Keys that come one at a time cost more each: a batch of a thousand shares its sorting, and its reads go out together.
//!
//! A store belongs to one process for writing; others open it by [`Store::open_read_only`] beside it and see its last commit.
//! [`Store::refresh`] moves them to a newer one: what they open from then on is of that, and a handle stays of the commit that it was
//! opened from. A fork of the process is told [`Error::Forked`].
//!
//! # Keys
//!
//! A key is bytes, and is hashed once to 128 bits, a [`KeyHash`], by the store's [`KeyHasher`]: [`Store::hasher`]. Methods that end in
//! `_keys` hash for you; the others take hashes, so that several structures share the work. **A number is not its digits:**
//! `hasher.hash_u64(2)` and `hasher.hash(b"2")` are different keys. The readers of `overbank-ingest`, and the command, take integers as
//! decimal digits, whether they come from text, JSON or Parquet, unless they are told to take them as `hash_u64` does
//! (`KeyForm::Numbers`); a store that both they and your program fill wants one way. The seed of a store is random, so that nobody can
//! choose keys that meet; give one ([`StoreOptions::seed`]) where structures that were built apart are to be merged.
//!
//! # Errors and accuracy
//!
//! Everything that can fail says so as an [`Error`], whose text has the numbers and the remedy. An answer that is estimated comes with its
//! bounds, and its documentation says which side may err, how far, and how often.
//!
//! # Rooms
//!
//! The rooms stand on each other, and each may use only those below it; `ARCHITECTURE.md` is the map. What is not documented here (`bits`,
//! `batch`, `segment`, the runs of filters, the simulated device) is public with the feature `internals` alone, for this project's own
//! benches, fuzz targets and tests: no promise holds for it.

// The rooms under the structures are public to this project's own benches, fuzz targets and tests alone. Without the feature the
// dead-code lint sees what the product does not use.
#![cfg_attr(not(feature = "internals"), allow(unreachable_pub))]

pub mod aggregate;
#[cfg(not(feature = "internals"))]
mod batch;
#[cfg(feature = "internals")]
pub mod batch;
#[cfg(not(feature = "internals"))]
mod bits;
#[cfg(feature = "internals")]
pub mod bits;
mod bytes;
pub mod device;
pub mod dictionary;
pub mod error;
pub mod filter;
pub mod frequency;
mod lock;
mod lsm;
pub mod monitor;
pub mod pipeline;
pub mod profile;
#[cfg(not(feature = "internals"))]
mod segment;
#[cfg(feature = "internals")]
pub mod segment;
pub mod sketch;
pub mod store;
mod stored;
#[cfg(not(feature = "internals"))]
mod trie;
#[cfg(feature = "internals")]
pub mod trie;

pub use dictionary::{Dictionary, DictionaryOptions};
pub use error::{Error, Result};
pub use filter::cascade::{Filter, FilterOptions, Maplet, MapletOptions};
pub use frequency::{Frequency, FrequencyOptions, FrequencyWindow};
pub use keyhash::{HashKind, KeyHash, KeyHasher, Seed};
pub use profile::{Profile, ProfileOptions};
pub use store::{Store, StoreOptions};
pub use stored::{Sketch, Stored};
