//! A fork of the process that has a store open: every use is an error there, and nothing that the child does or drops reaches
//! the store.

#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]

use overbank::device::{Access, BLOCK_BYTES, Device, Engine, FileDevice, FileOptions, ReadRequest};
use overbank::dictionary::{DictionaryOptions, Duplicates};
use overbank::filter::cascade::FilterOptions;
use overbank::frequency::FrequencyOptions;
use overbank::store::{Store, StoreOptions};
use overbank::{Error, KeyHash};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The id of the child; `None` in the child.
fn fork() -> Option<i32> {
    // SAFETY: other threads of this process wait, or hold locks of the store that the child is refused before it takes one.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "the test may fork");
    (child > 0).then_some(child)
}

/// What a child does, and its end.
fn end(work: impl FnOnce()) -> ! {
    // SAFETY: this touches the child's own clock only: a child that hangs is killed, which the parent sees.
    unsafe { libc::alarm(60) };
    let outcome = catch_unwind(AssertUnwindSafe(work));
    if let Err(panic) = &outcome {
        let text = panic.downcast_ref::<String>().map_or("a panic without text", String::as_str);
        let _ = writeln!(std::io::stderr(), "in the child: {text}");
    }
    // SAFETY: the child ends without the clean-up of the parent, whose it is.
    unsafe { libc::_exit(i32::from(outcome.is_err())) }
}

fn await_success(child: i32) {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's wait status");
}

fn refused<T: std::fmt::Debug>(what: &str, result: Result<T, Error>) {
    let id = std::process::id();
    let forked =
        matches!(&result, Err(Error::Forked { pid, opened_by, .. }) if *pid == id && *opened_by != id);
    assert!(forked, "{what}: {result:?}");
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn options() -> StoreOptions {
    StoreOptions::new().memory_bytes(64 << 20).threads(2)
}

// One test function: a fork beside other tests would copy whatever they hold.
#[test]
fn a_fork_can_neither_use_nor_harm_a_store() {
    for engine in [Engine::Auto, Engine::Threads] {
        let file = FileOptions::new().engine(engine);
        every_use_in_a_child_is_refused(options().file(file));
        batches_of_a_device_are_refused(file);
    }
    a_child_that_lives_on_does_not_keep_the_lock();
    a_child_has_stores_of_its_own();
}

fn every_use_in_a_child_is_refused(options: StoreOptions) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("s");
    let store = Store::create(&path, options.clone()).unwrap();
    let shape = FrequencyOptions::new().error(1e-4, 0.01).memory_bytes(8 << 20);
    let counts = store.frequency("counts", shape.clone()).unwrap();
    let seen_options = FilterOptions::new().memory_bytes(16 << 20).keys(1 << 17);
    let seen = store.filter("seen", seen_options).unwrap();
    let hasher = store.hasher();
    let keys: Vec<KeyHash> = (0..200_000).map(|i| hasher.hash_u64(i)).collect();
    counts.update(&keys, None).unwrap();
    seen.insert(&keys).unwrap();
    let page_options = DictionaryOptions::new().memory_bytes(16 << 20);
    let pages = store.dictionary("pages", page_options).unwrap();
    pages.insert_many(&["a", "b"], &["1", "2"]).unwrap();
    pages.flush().unwrap();
    store.commit(b"1").unwrap();
    pages.insert(b"c", b"3").unwrap();
    let snapshot = pages.snapshot().unwrap();
    let writer = counts.clone();
    writer.update(&keys, None).unwrap();
    let before = names(&path);
    let Some(child) = fork() else {
        end(move || {
            refused("commit", store.commit(b"lost"));
            refused("remove", store.remove("counts"));
            refused("verify", store.verify());
            refused("create", store.files().create());
            refused("a job", store.workers().spawn(|| Ok(())).wait());
            refused("another summary", store.frequency("more", shape));
            let sketch = &counts;
            refused("update", sketch.update(&keys, None));
            refused("apply", sketch.apply());
            refused("decay", sketch.decay());
            refused("estimate", sketch.estimate(&keys));
            refused("a clone's update", writer.update(&keys, None));
            let filter = &seen;
            refused("insert", filter.insert(&keys));
            refused("insert_if_absent", filter.insert_if_absent(&keys));
            refused("remove", filter.remove(&keys));
            refused("contains", filter.contains_many(&keys));
            refused("one insert_if_absent", filter.insert_one_if_absent(keys[0]));
            refused("one contains", filter.contains(keys[0]));
            refused("a dictionary's insert", pages.insert(b"a", b"4"));
            refused("a dictionary's remove", pages.remove(b"a"));
            refused("a dictionary's get", pages.get(b"a"));
            refused("a dictionary's get_many", pages.get_many(&["a", "c"]));
            refused("a dictionary's snapshot", pages.snapshot());
            refused("a snapshot's get", snapshot.get(b"c"));
            refused("a snapshot's scan", snapshot.scan(0..=u64::MAX));
            refused("a dictionary's flush", pages.flush());
            refused("a dictionary's compact", pages.compact());
            refused("a dictionary's verify", pages.verify());
            refused("a load", pages.load(Duplicates::Last));
            refused("a copy", pages.copy_from(&snapshot, 0..=u64::MAX));
            drop((writer, counts, seen, pages, snapshot, store));
        })
    };
    await_success(child);
    assert_eq!(names(&path), before, "the child removed nothing and made nothing");
    assert!(
        matches!(Store::open(&path, options.clone()), Err(Error::Locked { .. })),
        "the lock is still ours"
    );
    seen.insert(&keys[..10]).unwrap();
    store.commit(b"2").unwrap();
    assert_eq!(snapshot.get(b"c").unwrap().as_deref(), Some(&b"3"[..]));
    drop((writer, counts, seen, pages, snapshot, store));
    let store = Store::open(&path, options).unwrap();
    assert_eq!(store.position(), b"2");
    let counts = store.frequency("counts", shape).unwrap();
    assert!(counts.estimate(&keys).unwrap().iter().all(|&count| count >= 2));
    let seen = store.filter("seen", seen_options).unwrap();
    assert!(seen.contains_many(&keys).unwrap().iter().all(|&is_in| is_in));
    let pages = store.dictionary("pages", page_options).unwrap();
    let values: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|key| String::from_utf8(pages.get(key.as_bytes()).unwrap().unwrap()).unwrap())
        .collect();
    assert_eq!(values, ["1", "2", "3"]);
    assert!(store.verify().unwrap().is_whole());
}

fn batches_of_a_device_are_refused(options: FileOptions) {
    let scratch = tempfile::tempdir().unwrap();
    let device = FileDevice::open(scratch.path(), options).unwrap();
    let file = device.create("f").unwrap();
    file.write(0, &[7; 16 * BLOCK_BYTES]).unwrap();
    let requests: Vec<ReadRequest> =
        (0..16).map(|i| ReadRequest { offset: i * 4096, bytes: BLOCK_BYTES as u32 }).collect();
    let read = || file.read_many(&requests, 8, &mut |_, _| Ok(()));
    read().unwrap();
    let Some(child) = fork() else {
        end(|| {
            refused("a batch", read());
            let own = FileDevice::open(scratch.path(), options).unwrap();
            let file = own.open("f", Access::Read).unwrap();
            file.read_many(&requests, 8, &mut |_, _| Ok(())).unwrap();
            drop(device);
        })
    };
    await_success(child);
    read().unwrap();
}

fn a_child_that_lives_on_does_not_keep_the_lock() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("s");
    let store = Store::create(&path, options()).unwrap();
    let (mut ear, bell) = std::io::pipe().unwrap();
    let Some(child) = fork() else {
        end(move || {
            drop(bell);
            // Until the parent rings off.
            assert_eq!(ear.read(&mut [0]).unwrap(), 0);
            drop(store);
        })
    };
    drop(ear);
    store.commit(b"1").unwrap();
    drop(store);
    let again = Store::open(&path, options()).unwrap();
    again.commit(b"2").unwrap();
    drop(bell);
    await_success(child);
    assert!(
        matches!(Store::open(&path, options()), Err(Error::Locked { .. })),
        "the child's end unlocked nothing"
    );
    assert_eq!(again.position(), b"2");
}

fn a_child_has_stores_of_its_own() {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::create(scratch.path().join("parent"), options()).unwrap();
    let Some(child) = fork() else {
        end(move || {
            let own = Store::create(scratch.path().join("child"), options()).unwrap();
            own.commit(b"1").unwrap();
            refused("the parent's", store.commit(b"1"));
            let Some(grandchild) = fork() else {
                end(|| {
                    refused("the child's", own.commit(b"2"));
                    refused("the parent's", store.commit(b"2"));
                })
            };
            await_success(grandchild);
            own.commit(b"2").unwrap();
            std::mem::forget(scratch);
        })
    };
    await_success(child);
    store.commit(b"1").unwrap();
    let read = Store::open_read_only(scratch.path().join("child"), options()).unwrap();
    assert_eq!(read.position(), b"2");
}
