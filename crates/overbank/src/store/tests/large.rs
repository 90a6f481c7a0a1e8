//! Records of any length: those that are too long for the manifest are files of their own.

use super::*;
use crate::store::format::SPILL_BYTES;

/// A summary of as much state and as many files as a test wants; every commit has changed it.
struct Long {
    record: Mutex<Record>,
}

impl Long {
    fn attach(store: &Store, name: &str, record: Record) -> Arc<Long> {
        let long = Arc::new(Long { record: Mutex::new(record) });
        store.attach(name, long.clone()).unwrap();
        long
    }
}

impl Participant for Long {
    fn structure(&self) -> Structure {
        Structure { id: 909, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        Ok(Prepared::Changed(lock(&self.record).clone()))
    }

    fn committed(&self) {}
}

fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|i| (i % 251) as u8 ^ seed).collect()
}

fn state(count: usize, seed: u8) -> Record {
    Record { state: bytes(count, seed), files: Vec::new() }
}

#[test]
fn a_hundred_thousand_runs_come_back() {
    const RUNS: usize = 100_000;
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let run = || {
        let (id, file) = store.files().create().unwrap();
        file.write(0, &[1; BLOCK_BYTES]).unwrap();
        FileRef { id, bytes: BLOCK_BYTES as u64, xxh3: 0 }
    };
    let mut files: Vec<FileRef> = (0..RUNS).map(|_| run()).collect();
    let long = Long::attach(&store, "runs", Record { state: bytes(32 * RUNS, 1), files: files.clone() });
    store.commit(b"1").unwrap();
    // A merge of some of them.
    files.truncate(RUNS - 4);
    files.push(run());
    let expected = Record { state: bytes(32 * RUNS, 2), files };
    *lock(&long.record) = expected.clone();
    store.commit(b"2").unwrap();
    assert_eq!(data_files(&*device), RUNS - 3 + 1, "the runs, and the record");
    let manifest = device.open("000001.man", Access::Read).unwrap().len_bytes().unwrap();
    assert!(manifest <= 6 * BLOCK_BYTES as u64, "{manifest} bytes of manifest");
    let info = &store.summaries()[0];
    assert_eq!(info.files, RUNS - 3 + 1);
    drop(store);
    for store in
        [Store::open_read_only_on(device.clone(), options()), Store::open_on(device.clone(), options())]
    {
        assert!(store.unwrap().record("runs").unwrap().record == expected);
    }
    assert_eq!(data_files(&*device), RUNS - 3 + 1, "the next writer needs all of it");
}

#[test]
fn a_record_moves_out_of_the_manifest_and_back() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options().manifest_bytes(64 << 10)).unwrap();
    let long = Long::attach(&store, "a", Record::default());
    let inline = SPILL_BYTES - 16;
    for (turn, bytes) in [0, inline, inline + 1, 300_000, inline + 1, inline, 5].into_iter().enumerate() {
        *lock(&long.record) = state(bytes, turn as u8);
        store.commit(&[turn as u8]).unwrap();
        assert_eq!(data_files(&device), usize::from(bytes > inline), "{bytes} bytes of state");
        assert!(store.verify().unwrap().is_whole());
        let copy =
            Store::open_on(Arc::new(device.crash(crate::device::sim::Plan::Nothing, 0)), options()).unwrap();
        assert_eq!(copy.record("a").unwrap().record, state(bytes, turn as u8));
    }
    *lock(&long.record) = state(40_000, 9);
    store.commit(b"long").unwrap();
    // Long enough for the manifest to be written anew: the new one names the same file.
    Long::attach(&store, "b", state(inline, 0));
    for turn in 0..20u8 {
        store.commit(&[turn]).unwrap();
    }
    assert!(!device.list().unwrap().contains(&"000001.man".to_owned()));
    let copy = Store::open_on(Arc::new(device.fork()), options()).unwrap();
    assert_eq!(copy.record("a").unwrap().record, state(40_000, 9));
    store.remove("a").unwrap();
    store.commit(b"gone").unwrap();
    assert_eq!(data_files(&device), 0);
}

#[test]
fn damage_to_a_long_record_is_told_and_never_returned() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    Long::attach(&store, "a", state(60_000, 3));
    store.commit(b"1").unwrap();
    let whole = store.verify().unwrap();
    assert_eq!((whole.files, whole.blocks), (3, 4 + 4 + 15));
    let name = device.list().unwrap().into_iter().find(|name| name.ends_with(".seg")).unwrap();
    for block in [0, 7, 14] {
        let image = device.fork();
        image.flip_bit(&name, 8 * (block * 4096 + 100));
        for result in [
            Store::open_read_only_on(Arc::new(image.clone()), options()),
            Store::open_on(Arc::new(image.clone()), options()),
        ] {
            let error = result.map(drop).unwrap_err();
            assert!(matches!(&error, Error::Corrupt { path, .. } if path.ends_with(&name)), "{error}");
        }
    }
    assert!(device.flip_bit(&name, 8 * 5000));
    let report = store.verify().unwrap();
    assert!(
        report.damaged.iter().all(|damage| damage.file == name) && report.damaged.len() == 2,
        "{report:?}"
    );
    let image = device.fork();
    image.remove(&name).unwrap();
    let error = Store::open_on(Arc::new(image), options()).map(drop).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what: "committed file", .. }), "{error}");
}

#[test]
fn a_full_disk_at_a_long_record_leaves_the_last_commit() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let long = Long::attach(&store, "a", state(60_000, 3));
    store.commit(b"1").unwrap();
    *lock(&long.record) = state(60_000, 4);
    for room in [0, 20_000, 64_000] {
        device.set_capacity_bytes(device.used_bytes() + room);
        let (used, result) = (device.used_bytes(), store.commit(b"2"));
        if result.is_err() {
            assert!(matches!(result, Err(Error::Full { .. })));
            assert_eq!((device.used_bytes(), store.position()), (used, b"1".to_vec()));
        }
    }
    device.set_capacity_bytes(u64::MAX);
    store.commit(b"3").unwrap();
    assert_eq!(data_files(&device), 1);
}
