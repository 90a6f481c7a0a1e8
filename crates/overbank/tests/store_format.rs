//! The bytes of a store of format version 2: a byte that changes bumps the version. Version 1 is read.
//!
//! `OVERBANK_BLESS=1 cargo test -p overbank --test store_format` writes the golden files anew.
#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]

use overbank::device::sim::SimDevice;
use overbank::device::{Access, Device};
use overbank::store::{Files, Participant, Prepared, Record, Store, StoreOptions, Structure};
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
            std::fs::create_dir_all(golden(2, "")).unwrap();
            std::fs::write(golden(2, &name), &found).unwrap();
        }
        let expected = std::fs::read(golden(2, &name)).unwrap();
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
    for version in [1, 2] {
        let device = Arc::new(stored(version));
        let read_only = Store::open_read_only_on(device.clone(), options()).unwrap();
        assert_eq!(read_only.position(), b"offset=4712");
        let store = Store::open_on(device.clone(), options()).unwrap();
        assert_eq!(store.position(), b"offset=4712");
        assert!(store.record("clicks by page").is_none());
        let entry = store.record("seen").unwrap();
        assert_eq!(entry.structure, Structure { id: 4242, version: 3 });
        assert_eq!(entry.record.state, b"inline state");
        assert_eq!(store.files().read_blob(&entry.record.files[0]).unwrap(), b"another blob");
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
