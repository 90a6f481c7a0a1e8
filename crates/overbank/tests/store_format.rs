//! The bytes of a store of format version 3: a byte that changes bumps the version. Versions 1 and 2 are read.
//!
//! `OVERBANK_BLESS=1 cargo test -p overbank --features internals --test store_format` writes the golden files anew.
#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]

use overbank::device::sim::{Crash, Plan, SimDevice};
use overbank::device::{Access, Device};
use overbank::store::{FORMAT_VERSION, Files, Participant, Prepared, Record, Store, StoreOptions, Structure};
use overbank::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

struct Text(&'static str, Files);

impl Participant for Text {
    fn structure(&self) -> Structure {
        Structure { id: 4242, version: 3 }
    }

    fn prepare(&self) -> Result<Prepared> {
        let file = self.1.write_blob(self.0.as_bytes())?;
        Ok(Prepared::Changed(Record { state: b"inline state".to_vec(), files: vec![file] }))
    }

    fn committed(&self) {}
}

/// A summary whose record is too long for the manifest.
struct Long;

impl Participant for Long {
    fn structure(&self) -> Structure {
        Structure { id: 4243, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        Ok(Prepared::Changed(Record { state: long_state(), files: Vec::new() }))
    }

    fn committed(&self) {}
}

fn long_state() -> Vec<u8> {
    (0..20_000u32).map(|i| (i % 249) as u8).collect()
}

fn golden(version: u32, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/store-v{version}")).join(name)
}

fn options() -> StoreOptions {
    StoreOptions::new().threads(0).reserve_bytes(0)
}

/// A simulated device draws the same ids, seeds and times every time.
fn written() -> SimDevice {
    let device = SimDevice::new(20261121);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    store.attach("clicks by page", Arc::new(Text("a blob", store.files().clone()))).unwrap();
    store.commit(b"offset=4711").unwrap();
    store.remove("clicks by page").unwrap();
    store.attach("seen", Arc::new(Text("another blob", store.files().clone()))).unwrap();
    store.attach("very long", Arc::new(Long)).unwrap();
    store.commit(b"offset=4712").unwrap();
    device
}

fn bytes(device: &dyn Device, name: &str) -> Vec<u8> {
    let file = device.open(name, Access::Read).unwrap();
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_store_has_the_bytes_of_its_golden_files() {
    let device = written();
    for name in device.list().unwrap() {
        let found = bytes(&device, &name);
        if std::env::var_os("OVERBANK_BLESS").is_some() {
            std::fs::create_dir_all(golden(FORMAT_VERSION, "")).unwrap();
            std::fs::write(golden(FORMAT_VERSION, &name), &found).unwrap();
        }
        let expected = std::fs::read(golden(FORMAT_VERSION, &name)).unwrap();
        let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((found.len(), first), (expected.len(), None), "{name}: length, first byte that differs");
    }
}

/// The device with the golden files of a version.
fn stored(version: u32) -> SimDevice {
    let device = SimDevice::new(1);
    for entry in std::fs::read_dir(golden(version, "")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        device.create(name).unwrap().write(0, &std::fs::read(&path).unwrap()).unwrap();
    }
    device
}

#[test]
fn the_golden_files_open() {
    for version in 1..=FORMAT_VERSION {
        let device = Arc::new(stored(version));
        let read_only = Store::open_read_only_on(device.clone(), options()).unwrap();
        assert_eq!((read_only.position(), read_only.format_version()), (b"offset=4712".to_vec(), version));
        let store = Store::open_on(device.clone(), options()).unwrap();
        assert_eq!(store.position(), b"offset=4712");
        assert!(store.record("clicks by page").is_none());
        let entry = store.record("seen").unwrap();
        assert_eq!(entry.structure, Structure { id: 4242, version: 3 });
        assert_eq!(entry.record.state, b"inline state");
        assert_eq!(store.files().read_blob(&entry.record.files[0]).unwrap(), b"another blob");
        let long = store.record("very long").map(|entry| entry.record.state);
        assert_eq!(long, (version >= 3).then(long_state));
        assert!(store.verify().unwrap().is_whole());
        drop(store);
        assert_eq!(
            Store::open_on(device, options()).unwrap().position(),
            b"offset=4712",
            "closed, and opened again"
        );
    }
}

#[test]
fn a_store_of_an_older_version_is_of_this_one_from_its_first_commit_on() {
    for version in 1..FORMAT_VERSION {
        let device = stored(version);
        let store = Store::open_on(Arc::new(device.clone()), options()).unwrap();
        assert_eq!(claimed(&device), [version; 4]);
        store.attach("seen", Arc::new(Text("a new blob", store.files().clone()))).unwrap();
        store.attach("very long", Arc::new(Long)).unwrap();
        // Wherever a power cut stops the commit, there is a store that its version can read.
        device.keep_crash_points();
        store.commit(b"offset=4713").unwrap();
        for operation in 0..device.crash_points() {
            for plan in Plan::ALL {
                let image = device.crash_at(Crash { operation, plan, seed: 1 }).unwrap();
                let is_new = claimed(&image).contains(&FORMAT_VERSION);
                let found = Store::open_on(Arc::new(image), options()).unwrap();
                let is_there = found.record("very long").is_some();
                assert_eq!(is_there, found.position() == b"offset=4713");
                assert!(is_new || !is_there, "an older build would meet a record that it does not know");
            }
        }
        assert!(claimed(&device).contains(&FORMAT_VERSION));
        drop(store);
        let store = Store::open_on(Arc::new(device), options()).unwrap();
        assert_eq!(store.record("very long").unwrap().record.state, long_state());
        assert_eq!(store.position(), b"offset=4713");
    }
}

/// The versions that the slots of a superblock claim.
fn claimed(device: &SimDevice) -> [u32; 4] {
    let slots = bytes(device, "superblock");
    std::array::from_fn(|slot| u32::from_le_bytes(slots[slot * 4096 + 8..][..4].try_into().unwrap()))
}

#[test]
fn a_store_of_version_1_that_a_writer_closed_has_its_mark() {
    let device = stored(1);
    let cut = |device: SimDevice| {
        let manifest = device.open("000001.man", Access::Write).unwrap();
        manifest.set_len(manifest.len_bytes().unwrap() - 8192).unwrap();
        Store::open_read_only_on(Arc::new(device), options())
    };
    assert!(!matches!(cut(device.fork()), Err(Error::Corrupt { what, .. }) if what.contains("length")));
    drop(Store::open_on(Arc::new(device.clone()), options()).unwrap());
    assert!(matches!(cut(device), Err(Error::Corrupt { what, .. }) if what.contains("length")));
}
