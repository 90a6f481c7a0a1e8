//! The bytes of a store of format version 1: a byte that changes bumps the version.
//!
//! `OVERBANK_BLESS=1 cargo test -p overbank --test store_format` writes the golden files anew.
#![allow(clippy::unwrap_used, reason = "a test may fail by a panic; clippy.toml covers only test functions")]

use overbank::Result;
use overbank::device::sim::SimDevice;
use overbank::device::{Access, Device};
use overbank::store::{CommitId, Files, Participant, Prepared, Record, Store, StoreOptions, Structure};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

struct Text(&'static str);

impl Participant for Text {
    fn structure(&self) -> Structure {
        Structure { id: 4242, version: 3 }
    }

    fn prepare(&mut self, files: &Files, _: CommitId) -> Result<Prepared> {
        let file = files.write_blob(self.0.as_bytes())?;
        Ok(Prepared::Changed(Record { state: b"inline state".to_vec(), files: vec![file] }))
    }

    fn committed(&mut self, _: CommitId) {}
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/store-v1").join(name)
}

fn options() -> StoreOptions {
    StoreOptions::new().threads(0).reserve_bytes(0)
}

/// A simulated device draws the same ids, seeds and times every time.
fn written() -> SimDevice {
    let device = SimDevice::new(20261121);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    store.attach("clicks by page", Arc::new(Mutex::new(Text("a blob")))).unwrap();
    store.commit(b"offset=4711").unwrap();
    store.remove("clicks by page").unwrap();
    store.attach("seen", Arc::new(Mutex::new(Text("another blob")))).unwrap();
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
            std::fs::create_dir_all(golden("")).unwrap();
            std::fs::write(golden(&name), &found).unwrap();
        }
        let expected = std::fs::read(golden(&name)).unwrap();
        let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((found.len(), first), (expected.len(), None), "{name}: length, first byte that differs");
    }
}

#[test]
fn the_golden_files_open() {
    let device = SimDevice::new(1);
    for entry in std::fs::read_dir(golden("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        device.create(name).unwrap().write(0, &std::fs::read(&path).unwrap()).unwrap();
    }
    let store = Store::open_on(Arc::new(device), options()).unwrap();
    assert_eq!(store.position(), b"offset=4712");
    assert!(store.record("clicks by page").is_none());
    let entry = store.record("seen").unwrap();
    assert_eq!(entry.structure, Structure { id: 4242, version: 3 });
    assert_eq!(entry.record.state, b"inline state");
    assert_eq!(store.files().read_blob(&entry.record.files[0]).unwrap(), b"another blob");
    assert!(store.verify().unwrap().is_whole());
}
