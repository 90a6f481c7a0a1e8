//! Devices that fail in the middle of a merge: the runs stay as they were, and no file is left behind.

use super::*;
use crate::Error;
use crate::device::sim::{Fault, FaultKind, SimDevice};
use crate::store::{FileRef, Participant, Prepared, Record, Structure};

const BITS: u32 = 50;

/// A summary of some runs, so that the store keeps them.
struct Levels(Vec<FileRef>);

impl Participant for Levels {
    fn structure(&self) -> Structure {
        Structure { id: 4242, version: 1 }
    }

    fn prepare(&self) -> crate::Result<Prepared> {
        Ok(Prepared::Changed(Record { state: Vec::new(), files: self.0.clone() }))
    }

    fn committed(&self) {}
}

fn levels() -> [Model; 2] {
    [1, 2].map(|seed| {
        let fingerprints = uniform(150_000, BITS, seed).into_iter();
        fingerprints.map(|f| (f, if f % 5 == seed { -1 } else { 1 })).collect()
    })
}

/// A device whose store has two committed runs.
fn prepared() -> (SimDevice, Vec<FileRef>) {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let files: Vec<FileRef> = levels().iter().map(|model| write(store.files(), BITS, model).file).collect();
    store.attach("levels", Arc::new(Levels(files.clone()))).unwrap();
    store.commit(b"").unwrap();
    drop(store);
    (device, files)
}

fn reopen(device: &SimDevice) -> Store {
    Store::open_on(Arc::new(device.clone()), StoreOptions::new().threads(1).reserve_bytes(0)).unwrap()
}

fn merge(store: &Store, files: &[FileRef], is_threaded: bool) -> crate::Result<RunInfo> {
    let runs: Vec<FingerprintSegment> = files
        .iter()
        .map(|file| FingerprintSegment::open(store.files(), file, kind(BITS)))
        .collect::<crate::Result<_>>()?;
    let runs: Vec<&FingerprintSegment> = runs.iter().collect();
    let options =
        MergeOptions { is_oldest: false, is_ahead: is_threaded, is_behind: is_threaded, front: None };
    let sources: Vec<Source<'_>> = runs.into_iter().map(Source::Flash).collect();
    let mut merge = Merge::new(store.files(), kind(BITS), &sources, 0..=u64::MAX, options)?;
    while merge.step(100)? {}
    merge.finish()
}

fn check_levels(store: &Store, files: &[FileRef], models: &[Model]) {
    for (file, model) in files.iter().zip(models) {
        let run = FingerprintSegment::open(store.files(), file, kind(BITS)).unwrap();
        assert_eq!(run.fingerprints(), model.len() as u64);
        run.verify().unwrap();
    }
}

#[test]
fn a_fault_at_any_operation_leaves_the_runs_and_no_file() {
    let models = levels();
    let (clean, files) = prepared();
    let names = clean.list().unwrap();
    let store = reopen(&clean);
    let (changes, reads) = (clean.changes(), clean.reads());
    merge(&store, &files, false).unwrap();
    let (changes, reads) = (clean.changes() - changes, clean.reads() - reads);
    drop(store);
    assert!(changes >= 4 && reads >= 10, "{changes} changes, {reads} reads");
    let faults = (0..changes)
        .flat_map(|i| {
            [(i, false, FaultKind::Enospc), (i, false, FaultKind::Eio), (i, false, FaultKind::ShortWrite)]
        })
        .chain((0..reads).map(|i| (i, true, FaultKind::Eio)));
    let mut failed = 0;
    for ((operation, on_reads, fault), is_threaded) in
        faults.flat_map(|fault| [(fault, false), (fault, true)])
    {
        let device = prepared_again(&clean, &names);
        let store = reopen(&device);
        let before = if on_reads { device.reads() } else { device.changes() };
        device.inject(Fault { operation: before + operation, on_reads, kind: fault, sticky: false });
        let merged = merge(&store, &files, is_threaded);
        device.heal();
        if let Err(error) = merged {
            failed += 1;
            assert!(matches!(error, Error::Io { .. } | Error::Full { .. }), "{error}");
            if on_reads || fault == FaultKind::Enospc {
                assert_eq!(device.list().unwrap(), names, "{operation} {fault:?}");
            }
        } else {
            assert_eq!(fault, FaultKind::Enospc, "only what needs no space survives a full disk");
        }
        check_levels(&store, &files, &models);
        drop(store);
        let store = reopen(&device);
        assert_eq!(device.list().unwrap(), names, "nothing is left after the next open");
        check_levels(&store, &files, &models);
    }
    assert!(failed >= 2 * (changes + reads), "{failed} of {changes} changes and {reads} reads");
}

/// A device as it was before the merge.
fn prepared_again(clean: &SimDevice, names: &[String]) -> SimDevice {
    let device = clean.fork();
    for name in device.list().unwrap().iter().filter(|name| !names.contains(name)) {
        device.remove(name).unwrap();
    }
    device
}
