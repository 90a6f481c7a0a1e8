//! A profile is a handle: shared, closed, given back, asked and committed beside a pass, and never waited for by itself.

use super::*;
use crate::Error;
use crate::frequency::FrequencyOptions;
use crate::sketch::HyperLogLog;
use crate::store::FORMAT_VERSION;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn place() -> Store {
    let options = StoreOptions::new().seed(Seed(7)).memory_bytes(64 << 20);
    Store::create_on(Arc::new(MemoryDevice::new()), options).unwrap()
}

fn with_flash() -> ProfileOptions {
    let flash = FrequencyOptions::new().bytes(64 << 10, 3).pending(2);
    ProfileOptions::new().memory_bytes(FLASH_MEMORY_BYTES_MIN).flash(flash)
}

#[test]
fn handles_share_a_profile_and_the_last_one_gives_its_budget_back() {
    let (store, parser) = (place(), parser(false));
    let all = store.budget().available_bytes();
    for options in [ProfileOptions::new().memory_bytes(MEMORY_BYTES_MIN), with_flash()] {
        let one = store.profile("one", options.clone()).unwrap();
        let other = store.profile("one", ProfileOptions::new()).unwrap();
        let held = all - store.budget().available_bytes();
        assert!(held as u64 == one.memory_bytes(), "{held} of {}", one.memory_bytes());
        count_in(&one, &parser, 2, &[vec![(1, 1); 10]]);
        assert_eq!((other.rows().unwrap(), other.weight().unwrap()), (10, 10));
        assert!(matches!(store.close("one"), Err(Error::InvalidOption { name: "name", .. })));
        store.commit(b"").unwrap();
        drop(one);
        assert!(store.budget().available_bytes() < all);
        drop(other);
        assert_eq!(store.budget().available_bytes(), all);

        let again = store.profile("one", ProfileOptions::new()).unwrap();
        assert_eq!(again.rows().unwrap(), 10);
        store.close("one").unwrap();
        assert_eq!(store.budget().available_bytes(), all);
        let closed = |error: Error| assert!(matches!(error, Error::Closed { .. }), "{error}");
        closed(again.rows().unwrap_err());
        closed(again.update(1, &parser, || Ok(Some(vec![(1, 1)]))).unwrap_err());
        for name in ["one", "one/counts"] {
            if store.record(name).is_some() {
                store.remove(name).unwrap();
            }
        }
        store.commit(b"").unwrap();
    }
}

#[test]
fn what_was_set_must_be_what_is_stored() {
    let (store, parser) = (place(), parser(false));
    let profile = empty_in(&store, &parser);
    let refused = |options: ProfileOptions| {
        let error = store.profile("profile", options).unwrap_err();
        assert!(matches!(error, Error::Incompatible { .. }), "{error}");
    };
    let all = || {
        refused(ProfileOptions::new().memory_bytes(MEMORY_BYTES_MIN + 1));
        refused(ProfileOptions::new().measure(Measure::Value));
        refused(with_flash().memory_bytes(MEMORY_BYTES_MIN));
    };
    all();
    store.commit(b"").unwrap();
    drop(profile);
    all();
    let error = store.frequency("profile", FrequencyOptions::new()).unwrap_err();
    assert!(matches!(error, Error::WrongKind { .. }), "{error}");
    let (small, large) = (ProfileOptions::new().memory_bytes(1), ProfileOptions::new().memory_bytes(1 << 30));
    assert!(matches!(store.profile("new", small), Err(Error::InvalidOption { .. })));
    assert!(matches!(store.profile("new", large), Err(Error::BudgetExceeded { .. })));
}

/// Ends the passes of a test when it drops.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A pass without an end goes on while another thread asks and commits; the end is what one pass would have seen.
#[test]
fn questions_and_commits_come_in_between_the_chunks_of_a_pass() {
    for options in [ProfileOptions::new().memory_bytes(MEMORY_BYTES_MIN), with_flash()] {
        let (device, parser) = (Arc::new(MemoryDevice::new()), parser(false));
        let store = StoreOptions::new().seed(Seed(7));
        let store = Store::create_on(device.clone(), store).unwrap();
        let profile = store.profile("profile", options).unwrap();
        let (is_done, chunks) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let pass = || {
                profile.update(3, &parser, || {
                    if is_done.load(Ordering::Relaxed) {
                        return Ok(None);
                    }
                    let chunk = chunks.fetch_add(1, Ordering::Relaxed) as u16;
                    Ok(Some((0..100).map(|row| (chunk.wrapping_mul(31) ^ row, 1)).collect()))
                })
            };
            let passes = [scope.spawn(pass), scope.spawn(pass)];
            // Also where an assertion fails.
            let done = Done(&is_done);
            let mut last = 0;
            for _ in 0..20 {
                let report = profile.report(5, &RANKS).unwrap();
                assert!(report.rows >= last && report.rows.is_multiple_of(100), "{} {last}", report.rows);
                assert_eq!((report.values.count, report.weight), (report.rows, u128::from(report.rows)));
                last = report.rows;
                store.commit(&last.to_le_bytes()).unwrap();
                let read = Store::open_read_only_on(device.clone(), StoreOptions::new()).unwrap();
                let stored = stored_in(&read);
                assert!(stored.rows().unwrap() >= last);
                if let Some(flash) = stored.flash().unwrap() {
                    // Every row is in a slot, on flash, or on its way between them, never twice.
                    let slots = stored.summary.look(|sketches| {
                        sketches
                            .heavy
                            .iter()
                            .flat_map(|shard| shard.top(shard.len()))
                            .map(|key| key.count.lower)
                            .sum::<u64>()
                    });
                    assert_eq!(slots.unwrap() + flash.weight, stored.rows().unwrap());
                }
            }
            drop(done);
            passes.into_iter().for_each(|pass| pass.join().unwrap().unwrap());
        });
        assert_eq!(profile.rows().unwrap(), 100 * chunks.load(Ordering::Relaxed));
    }
}

/// Neither a source nor a parser waits for the pass that waits for it.
#[test]
fn what_a_pass_calls_is_refused_instead_of_waiting_for_itself() {
    let (store, parser) = (place(), parser(false));
    let profile = store.profile("profile", with_flash()).unwrap();
    let other = store.profile("other", ProfileOptions::new().memory_bytes(MEMORY_BYTES_MIN)).unwrap();
    let mut chunks = 0;
    let refused = |error: Error| assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    profile
        .update(2, &parser, || {
            refused(profile.rows().unwrap_err());
            refused(profile.update(1, &parser, || Ok(None)).unwrap_err());
            refused(store.commit(b"").unwrap_err());
            refused(store.close("profile").unwrap_err());
            assert_eq!(other.rows().unwrap(), 0);
            chunks += 1;
            Ok((chunks < 4).then(|| vec![(1, 1)]))
        })
        .unwrap();
    assert_eq!(profile.rows().unwrap(), 3);
    store.commit(b"").unwrap();
    store.close("profile").unwrap();
}

/// A parser that asks the profile that it works for.
struct Asking<'a>(&'a Profile, Slices);

impl Parse for Asking<'_> {
    type Chunk = Vec<(u16, u64)>;
    type Rows = SliceRows;
    type Error = crate::Error;

    fn parse(&self, chunk: Self::Chunk, rows: &mut SliceRows) -> Result<()> {
        assert!(matches!(self.0.rows(), Err(Error::InvalidOption { .. })));
        self.1.parse(chunk, rows)
    }
}

/// Nor for a commit of another thread, which waits for the pass.
#[test]
fn what_a_pass_calls_is_refused_what_waits_for_a_commit() {
    for options in [ProfileOptions::new().memory_bytes(MEMORY_BYTES_MIN), with_flash()] {
        let store = place();
        let profile = store.profile("profile", options).unwrap();
        let other = store.profile("other", with_flash()).unwrap();
        let users = store.sketch("users", || HyperLogLog::new(8, store.hasher())).unwrap();
        let parser = Asking(&profile, parser(false));
        let refused = |error: Error| assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        let mut chunks = 0;
        std::thread::scope(|scope| {
            let mut commit = None;
            let update = profile.update(2, &parser, || {
                chunks += 1;
                if chunks == 1 {
                    commit = Some(scope.spawn(|| store.commit(b"beside").map(drop)));
                    while !profile.summary.turns.is_wanted() {
                        std::thread::yield_now();
                    }
                    refused(store.commit(b"inside").unwrap_err());
                    refused(store.close("users").unwrap_err());
                    refused(store.verify().unwrap_err());
                    // The commit has it, for it has a sketch on flash.
                    refused(other.update(1, &parser.1, || Ok(None)).unwrap_err());
                    assert_eq!(store.format_version(), FORMAT_VERSION);
                    users.update(|users| users.update_batch(&[parser.1.hasher.hash(b"a")]))?;
                }
                Ok((chunks < 4).then(|| vec![(1, 1)]))
            });
            update.unwrap();
            commit.unwrap().join().unwrap().unwrap();
        });
        assert_eq!((profile.rows().unwrap(), store.position()), (3, b"beside".to_vec()));
        store.commit(b"behind").unwrap();
    }
}

#[test]
fn a_profile_is_removed_with_its_sketch_on_flash() {
    for is_open in [true, false] {
        let (store, parser) = (place(), parser(false));
        let files = || store.device().list().unwrap().len();
        store.sketch("profile/own", || HyperLogLog::new(8, store.hasher())).unwrap();
        store.commit(b"").unwrap();
        let before = files();
        let profile = store.profile("profile", with_flash()).unwrap();
        count_in(&profile, &parser, 2, &[vec![(1, 1); 10]]);
        store.commit(b"").unwrap();
        assert!(files() > before);
        let profile = is_open.then_some(profile);
        store.remove("profile").unwrap();
        store.commit(b"").unwrap();
        let names: Vec<String> = store.summaries().into_iter().map(|summary| summary.name).collect();
        assert_eq!((names, files()), (vec!["profile/own".to_owned()], before));
        drop(profile);
        let again = store.profile("profile", with_flash()).unwrap();
        assert_eq!(again.rows().unwrap(), 0);
    }
}

/// What a panic leaves half-done is neither answered nor committed.
#[test]
fn a_panic_in_a_pass_leaves_nothing_to_be_trusted() {
    let (store, parser) = (place(), parser(false));
    let profile = empty_in(&store, &parser);
    let mut chunks = 0;
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        profile.update(1, &parser, || {
            chunks += 1;
            assert!(chunks < 3, "a test's panic");
            Ok(Some(vec![(1, 1)]))
        })
    }));
    assert!(panicked.is_err());
    assert!(matches!(profile.rows(), Err(Error::Poisoned { .. })));
    assert!(matches!(store.commit(b""), Err(Error::Poisoned { .. })));
}
