//! What waits for a commit and what does not, without a clock: the commit is parked, and what must not wait is done meanwhile. If it
//! waited, the test would hang.

use super::handles::{Held, open};
use super::*;
use crate::device::sim::planted::{Instead, WithoutDataSync};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Stands still once at its gate until it is let on.
struct Gate {
    arrived: SyncSender<()>,
    on: Mutex<Option<Receiver<()>>>,
}

/// The gate, who tells that somebody stands at it, and what lets them on.
fn gate() -> (Gate, Receiver<()>, SyncSender<()>) {
    let ((arrived, told), (let_on, on)) = (sync_channel(1), sync_channel(1));
    (Gate { arrived, on: Mutex::new(Some(on)) }, told, let_on)
}

impl Gate {
    fn pass(&self) {
        let on = lock(&self.on).take();
        if let Some(on) = on {
            self.arrived.send(()).unwrap();
            on.recv().unwrap();
        }
    }
}

struct Parked(Gate);

impl Participant for Parked {
    fn structure(&self) -> Structure {
        Structure { id: 908, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        self.0.pass();
        Ok(Prepared::Changed(Record::default()))
    }

    fn committed(&self) {}
}

/// Everything that does not wait for the commit under way, which is the second.
fn nothing_waits(store: &Store) {
    assert_eq!((store.position(), store.commit_info().commit), (b"1".to_vec(), CommitId(1)));
    assert_eq!(store.summaries().len(), 1);
    assert_eq!(store.record("a").unwrap().record.state, b"inline");
    let (one, other) = (open(store, "a").unwrap(), open(store, "new").unwrap());
    one.blob.set(b"inserted meanwhile");
    assert!(!one.publisher.publish(|| panic!("a commit is under way")).unwrap());
    store.attach("attached", Blob::new(store, b"")).unwrap();
    drop(other);
    store.remove("attached").unwrap();
    assert_eq!(store.files().read_blob(&store.record("a").unwrap().record.files[0]).unwrap(), b"1");
    store.files().retire(store.files().create().unwrap().0);
}

#[test]
fn a_participant_that_is_parked_in_prepare_holds_up_nobody() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    open(&store, "a").unwrap().blob.set(b"1");
    store.commit(b"1").unwrap();
    let (gate, told, let_on) = gate();
    store.attach("parked", Arc::new(Parked(gate))).unwrap();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| store.commit(b"2").unwrap());
        told.recv().unwrap();
        nothing_waits(&store);
        let_on.send(()).unwrap();
        assert_eq!(commit.join().unwrap(), CommitId(2));
    });
    assert_eq!(store.position(), b"2");
    store.commit(b"3").unwrap();
    assert_eq!(Blob::load(&store, "a").unwrap(), b"inserted meanwhile");
}

#[test]
fn a_device_that_is_parked_in_a_sync_holds_up_nobody() {
    for suffix in [".seg", ".man"] {
        let (gate, told, let_on) = gate();
        let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let arm = Arc::clone(&armed);
        let instead = Instead::of(suffix, move || {
            if arm.load(std::sync::atomic::Ordering::Acquire) {
                gate.pass();
            }
        });
        let device = Arc::new(WithoutDataSync(SimDevice::new(1), instead));
        let store = Store::create_on(device, options()).unwrap();
        let handle = open(&store, "a").unwrap();
        handle.blob.set(b"1");
        store.commit(b"1").unwrap();
        handle.blob.set(b"2");
        armed.store(true, std::sync::atomic::Ordering::Release);
        std::thread::scope(|scope| {
            let commit = scope.spawn(|| store.commit(b"2").unwrap());
            told.recv().unwrap();
            nothing_waits(&store);
            let_on.send(()).unwrap();
            commit.join().unwrap();
        });
        assert_eq!((store.position(), Blob::load(&store, "a").unwrap()), (b"2".to_vec(), b"2".to_vec()));
    }
}

#[test]
fn a_publish_beside_another_is_refused() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    let handle = open(&store, "a").unwrap();
    store.commit(b"1").unwrap();
    let (gate, told, let_on) = gate();
    std::thread::scope(|scope| {
        let publish = scope.spawn(|| {
            handle.publisher.publish(|| {
                gate.pass();
                None
            })
        });
        told.recv().unwrap();
        assert!(!handle.publisher.publish(|| panic!("another is under way")).unwrap());
        assert_eq!(store.position(), b"1");
        let_on.send(()).unwrap();
        assert!(!publish.join().unwrap().unwrap());
    });
}

#[test]
fn the_last_clone_may_be_a_jobs() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options().threads(2)).unwrap();
    open(&store, "a").unwrap();
    let (ended, told) = sync_channel(1);
    let (gate, parked, let_on) = gate();
    let last = store.clone();
    store.workers().spawn(move || {
        gate.pass();
        last.commit(b"by the job")?;
        drop(last);
        ended.send(()).unwrap();
        Ok(())
    });
    parked.recv().unwrap();
    drop(store);
    let_on.send(()).unwrap();
    told.recv().unwrap();
    assert_eq!(Store::open_on(device, options()).unwrap().position(), b"by the job");
}

/// A summary that commits its own store while that prepares it.
struct Committing(Mutex<Option<Store>>);

impl Participant for Committing {
    fn structure(&self) -> Structure {
        Structure { id: 909, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        let store = lock(&self.0).take().unwrap();
        store.commit(b"inside")?;
        Ok(Prepared::Unchanged)
    }

    fn committed(&self) {}
}

#[test]
fn who_prepares_or_opens_is_refused_instead_of_waiting_for_itself() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let refused = |error: Error| assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    store.attach("committing", Arc::new(Committing(Mutex::new(Some(store.clone()))))).unwrap();
    refused(store.commit(b"outside").unwrap_err());
    store.remove("committing").unwrap();
    let again = store.open_with::<Held>("a", |_| open(&store, "a").map(|_| panic!("it was opened twice")));
    refused(again.map(drop).unwrap_err());
    let handle = open(&store, "a").unwrap();
    store.commit(b"1").unwrap();
    let published = handle.publisher.publish(|| {
        refused(store.commit(b"inside").unwrap_err());
        None
    });
    assert!(!published.unwrap());
    assert_eq!(store.position(), b"1");

    let reader = Store::open_read_only_on(device, options()).unwrap();
    let refreshed = reader.open_with::<Held>("a", |_| reader.refresh().map(|_| panic!("it moved on")));
    refused(refreshed.map(drop).unwrap_err());
    assert!(!reader.refresh().unwrap());
}

#[test]
fn the_last_clone_waits_for_a_publish_of_a_job_and_not_for_itself() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options().threads(1)).unwrap();
    let handle = open(&store, "a").unwrap();
    store.commit(b"1").unwrap();
    let (gate, told, let_on) = gate();
    let publisher = handle.publisher.clone();
    let files = store.files().clone();
    store.workers().spawn(move || {
        let published = publisher.publish(|| {
            gate.pass();
            Some(Record { state: b"published".to_vec(), files: vec![files.write_blob(b"").unwrap()] })
        });
        assert!(published?);
        Ok(())
    });
    told.recv().unwrap();
    std::thread::scope(|scope| {
        let close = scope.spawn(move || drop(store));
        let_on.send(()).unwrap();
        close.join().unwrap();
    });
    let store = Store::open_on(device, options()).unwrap();
    assert_eq!(store.record("a").unwrap().record.state, b"published");
}
