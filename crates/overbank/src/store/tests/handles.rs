//! Handles: a name is one summary in a process, and it leaves with the last handle, never with what is not committed.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A blob that holds some of the budget.
pub(super) struct Held {
    pub(super) blob: Arc<Blob>,
    pub(super) publisher: Publisher,
    memory: Mutex<Option<Reservation>>,
}

/// Bytes that each of them holds.
const HELD_BYTES: usize = 1 << 20;

impl Participant for Held {
    fn structure(&self) -> Structure {
        self.blob.structure()
    }

    fn prepare(&self) -> Result<Prepared> {
        self.blob.prepare()
    }

    fn committed(&self) {
        self.blob.committed();
    }

    fn is_changed(&self) -> bool {
        self.blob.is_changed()
    }

    fn close(&self) {
        lock(&self.memory).take();
    }
}

impl Openable for Held {
    const KIND: registry::Kind = registry::Kind { id: 907, version: 1, name: "blob" };
}

/// The blob of this name: the stored one, or an empty one.
pub(super) fn open(store: &Store, name: &str) -> Result<Handle<Held>> {
    store.open_with(name, |stored| {
        let bytes = match stored {
            Some(entry) => store.files().read_blob(&entry.record.files[0])?,
            None => Vec::new(),
        };
        let blob = Blob::new(store, &bytes);
        lock(&blob.inner).saved = stored.map(|_| bytes);
        let memory = store.budget().reserve("a blob", HELD_BYTES, HELD_BYTES)?;
        Ok(Held { blob, publisher: store.publisher(name), memory: Mutex::new(Some(memory)) })
    })
}

fn held(store: &Store) -> usize {
    (store.budget().budget_bytes() - store.budget().available_bytes()) / HELD_BYTES
}

fn store() -> Store {
    Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap()
}

#[test]
fn a_name_that_is_opened_twice_is_one_summary() {
    let store = store();
    let one = open(&store, "a").unwrap();
    one.blob.set(b"not committed");
    let other = open(&store.clone(), "a").unwrap();
    assert!(std::ptr::eq::<Held>(&*one, &*other));
    assert_eq!(held(&store), 1);
    assert_eq!(lock(&other.blob.inner).bytes, b"not committed");
}

#[test]
fn threads_that_open_a_name_at_once_make_it_once() {
    let store = store();
    let (made, all) = (AtomicUsize::new(0), Barrier::new(4));
    let opened: Vec<Handle<Held>> = std::thread::scope(|scope| {
        let open = |_| {
            scope.spawn(|| {
                all.wait();
                let make = |_: Option<&Entry>| {
                    made.fetch_add(1, Ordering::Relaxed);
                    let memory = Mutex::new(None);
                    Ok(Held { blob: Blob::new(&store, b""), publisher: store.publisher("a"), memory })
                };
                store.open_with("a", make).unwrap()
            })
        };
        let threads: Vec<_> = (0..4).map(open).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.into_inner(), 1);
    assert!(opened.iter().all(|handle| std::ptr::eq::<Held>(&**handle, &*opened[0])));
}

#[test]
fn the_last_handle_gives_the_budget_back_once_all_is_committed() {
    let store = store();
    let handle = open(&store, "a").unwrap();
    handle.blob.set(b"1");
    let clone = handle.clone();
    drop(handle);
    store.commit(b"").unwrap();
    assert_eq!(held(&store), 1, "there is another handle");
    drop(clone);
    assert_eq!(held(&store), 0, "nothing has changed since the commit");
    let handle = open(&store, "a").unwrap();
    handle.blob.set(b"2");
    drop(handle);
    assert_eq!(held(&store), 1, "what was inserted is not lost by dropping a handle");
    let again = open(&store, "a").unwrap();
    assert_eq!((lock(&again.blob.inner).bytes.clone(), held(&store)), (b"2".to_vec(), 1));
    drop(again);
    store.commit(b"").unwrap();
    assert_eq!(held(&store), 0, "the commit took it in");
    assert_eq!(Blob::load(&store, "a").unwrap(), b"2");
}

#[test]
fn a_commit_that_fails_keeps_what_was_left() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options().reserve_bytes(0)).unwrap();
    let handle = open(&store, "a").unwrap();
    handle.blob.set(&[7; 50_000]);
    drop(handle);
    device.set_capacity_bytes(device.used_bytes());
    assert!(matches!(store.commit(b"1"), Err(Error::Full { .. })));
    assert_eq!((held(&store), data_files(&device)), (1, 0));
    device.set_capacity_bytes(u64::MAX);
    store.commit(b"1").unwrap();
    assert_eq!(held(&store), 0);
    assert_eq!(Blob::load(&store, "a").unwrap(), [7; 50_000]);
}

#[test]
fn close_gives_the_budget_back_while_handles_live() {
    let store = store();
    assert!(matches!(store.close("a"), Err(Error::NotFound { .. })));
    let old = open(&store, "a").unwrap();
    old.blob.set(b"1");
    let refused = store.close("a").unwrap_err();
    assert!(refused.to_string().contains("commit first"), "{refused}");
    store.commit(b"").unwrap();
    store.close("a").unwrap();
    assert_eq!(held(&store), 0);
    let new = open(&store, "a").unwrap();
    assert!(!std::ptr::eq::<Held>(&*old, &*new));
    old.blob.set(b"of nobody");
    store.commit(b"").unwrap();
    drop(old);
    assert_eq!((Blob::load(&store, "a").unwrap(), held(&store)), (b"1".to_vec(), 1));
}

#[test]
fn a_reader_closes_at_once() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    open(&store, "a").unwrap().blob.set(b"1");
    store.commit(b"").unwrap();
    let reader = Store::open_read_only_on(device, options()).unwrap();
    let handle = open(&reader, "a").unwrap();
    assert_eq!(held(&reader), 1);
    drop(handle);
    assert_eq!(held(&reader), 0);
}

#[test]
fn another_kind_of_summary_says_which_it_is() {
    struct Other;
    impl Participant for Other {
        fn structure(&self) -> Structure {
            registry::FREQUENCY.structure()
        }
        fn prepare(&self) -> Result<Prepared> {
            Ok(Prepared::Unchanged)
        }
        fn committed(&self) {}
    }
    impl Openable for Other {
        const KIND: registry::Kind = registry::FREQUENCY;
    }
    let store = store();
    store.attach("keys", Blob::new(&store, b"")).unwrap();
    let make = |_: Option<&Entry>| -> Result<Other> { panic!("the name is taken") };
    for is_stored in [false, true] {
        let error = store.open_with("keys", make).map(drop).unwrap_err();
        assert!(matches!(&error, Error::WrongKind { expected: "frequency sketch", .. }), "{error}");
        assert!(error.to_string().starts_with("\"keys\" is a summary of kind 907"), "{error}");
        if !is_stored {
            store.commit(b"").unwrap();
            store.close("keys").unwrap();
        }
    }
    assert!(matches!(store.attach("keys", Arc::new(Other)), Err(Error::WrongKind { .. })));
}

#[test]
fn a_panic_or_an_error_while_a_summary_is_made_leaves_the_name_free() {
    let store = store();
    let panics = std::panic::AssertUnwindSafe(|| {
        drop(store.open_with("a", |_| -> Result<Held> { panic!("a planted panic") }));
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    let missing = |_: Option<&Entry>| Err(Error::NotFound { what: "file", name: "x".to_owned() });
    assert!(matches!(store.open_with::<Held>("a", missing).map(drop), Err(Error::NotFound { .. })));
    open(&store, "a").unwrap();
}

#[test]
fn the_last_clone_closes_the_store() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options().threads(1)).unwrap();
    let (handle, clone) = (open(&store, "a").unwrap(), store.clone());
    drop(store);
    clone.commit(b"1").unwrap();
    drop(clone);
    let next = Store::open_on(device, options()).unwrap();
    assert_eq!(next.position(), b"1");
    assert!(matches!(handle.blob.files.create(), Err(Error::Poisoned { .. })));
    assert!(!handle.publisher.publish(|| panic!("the store was closed")).unwrap());
}

#[test]
fn a_panic_in_a_commit_poisons_the_store() {
    struct Panics;
    impl Participant for Panics {
        fn structure(&self) -> Structure {
            Structure { id: 908, version: 1 }
        }
        fn prepare(&self) -> Result<Prepared> {
            panic!("a planted panic")
        }
        fn committed(&self) {}
    }
    let store = store();
    store.attach("a", Arc::new(Panics)).unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(store.commit(b"")))).is_err());
    let error = store.commit(b"").unwrap_err();
    assert!(matches!(&error, Error::Poisoned { why, .. } if why.contains("panicked")), "{error}");
}

#[test]
fn a_name_that_is_removed_in_the_middle_of_a_commit_goes_with_the_next() {
    struct Removes(Store);
    impl Participant for Removes {
        fn structure(&self) -> Structure {
            Structure { id: 908, version: 1 }
        }
        fn prepare(&self) -> Result<Prepared> {
            drop(self.0.remove("a"));
            Ok(Prepared::Changed(Record::default()))
        }
        fn committed(&self) {}
    }
    let store = store();
    let blob = open(&store, "a").unwrap();
    blob.blob.set(b"1");
    // The later name is asked after the earlier one.
    store.attach("b", Arc::new(Removes(store.clone()))).unwrap();
    store.commit(b"1").unwrap();
    assert!(store.record("a").is_none());
    assert_eq!(store.summaries().len(), 2, "it was in the commit that was under way");
    store.commit(b"2").unwrap();
    assert_eq!(store.summaries().len(), 1);
    store.remove("b").unwrap();
}
