//! Publishing one summary, and files that are given up.

use super::handles::open;
use super::*;

/// A record of a new file with these bytes.
fn record(store: &Store, bytes: &[u8]) -> Record {
    Record { state: b"inline".to_vec(), files: vec![store.files().write_blob(bytes).unwrap()] }
}

#[test]
fn a_publish_is_durable_and_leaves_everything_else_as_it_is() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let (merged, other) = (open(&store, "merged").unwrap(), open(&store, "other").unwrap());
    assert!(!merged.publisher.publish(|| panic!("it was never committed")).unwrap());
    merged.blob.set(b"1");
    other.blob.set(b"1");
    store.commit(b"p").unwrap();
    other.blob.set(b"2, not committed");
    let files = device.list().unwrap();
    device.reset_counts();
    assert!(!merged.publisher.publish(|| None).unwrap());
    assert_eq!(device.io_counts(), Default::default());
    assert!(merged.publisher.publish(|| Some(record(&store, b"another form of 1"))).unwrap());
    assert_eq!(device.io_counts().syncs, 2, "the new file and the manifest");
    assert_eq!(device.list().unwrap().len(), files.len(), "the file that it does not name any more is gone");
    assert_eq!(store.position(), b"p");
    // As a power cut leaves it.
    let image = Arc::new(device.crash(crate::device::sim::Plan::Nothing, 0));
    let found = Store::open_on(image, options()).unwrap();
    assert_eq!(found.position(), b"p");
    assert_eq!(Blob::load(&found, "merged").unwrap(), b"another form of 1");
    assert_eq!(Blob::load(&found, "other").unwrap(), b"1");
    store.commit(b"q").unwrap();
    assert_eq!(Blob::load(&store, "other").unwrap(), b"2, not committed");
}

#[test]
fn a_summary_that_was_closed_removed_or_replaced_is_not_published() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    let old = open(&store, "a").unwrap();
    store.commit(b"").unwrap();
    assert!(old.publisher.publish(|| Some(record(&store, b""))).unwrap());
    store.close("a").unwrap();
    let refused = || assert!(!old.publisher.publish(|| panic!("it is not open")).unwrap());
    refused();
    let new = open(&store, "a").unwrap();
    refused();
    store.remove("a").unwrap();
    assert!(!new.publisher.publish(|| panic!("it was removed")).unwrap());
    assert!(!store.publisher("none").publish(|| panic!("there is none")).unwrap());
}

#[test]
fn a_publish_that_fails_leaves_the_last_commit() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let handle = open(&store, "a").unwrap();
    handle.blob.set(b"1");
    store.commit(b"p").unwrap();
    let foreign = FileRef { id: FileId(99), bytes: 0, xxh3: 1 };
    let files = device.list().unwrap();
    let error = handle.publisher.publish(|| {
        record(&store, b"given up with the publish");
        Some(Record { state: Vec::new(), files: vec![foreign] })
    });
    assert!(matches!(error, Err(Error::InvalidOption { name: "file", .. })));
    assert_eq!(device.list().unwrap(), files);
    assert!(handle.publisher.publish(|| Some(record(&store, b"1"))).unwrap());
}

#[test]
fn a_file_that_is_given_up_goes_when_no_record_names_it() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let files = store.files();
    let (unnamed, _) = files.create().unwrap();
    files.retire(unnamed);
    assert_eq!(data_files(&*device), 0, "nobody can have named it");
    files.retire(unnamed);
    let handle = open(&store, "a").unwrap();
    handle.blob.set(b"1");
    store.commit(b"").unwrap();
    let named = store.record("a").unwrap().record.files[0];
    let reader = files.open(&named).unwrap();
    files.retire(named.id);
    assert_eq!(Blob::load(&store, "a").unwrap(), b"1", "the last commit names it");
    handle.blob.set(b"2");
    store.commit(b"").unwrap();
    assert_eq!(data_files(&*device), 1);
    assert!(reader.read(0, &mut vec![0; BLOCK_BYTES]).is_ok(), "who has it open can read it");
}

/// Gives its file up while the commit that names it is under way.
struct Fickle {
    files: Files,
    file: Mutex<Option<FileRef>>,
    is_kept: bool,
}

impl Participant for Fickle {
    fn structure(&self) -> Structure {
        Structure { id: 908, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        let (id, file) = self.files.create()?;
        file.write(0, &[0; BLOCK_BYTES])?;
        file.sync()?;
        let file = FileRef { id, bytes: BLOCK_BYTES as u64, xxh3: 0 };
        *lock(&self.file) = Some(file);
        self.files.retire(id);
        // Of two blobs, one is named.
        self.files.write_blob(b"forgotten")?;
        let files = if self.is_kept { vec![file, self.files.write_blob(b"named")?] } else { Vec::new() };
        Ok(Prepared::Changed(Record { state: Vec::new(), files }))
    }

    fn committed(&self) {}
}

#[test]
fn a_file_that_is_given_up_in_the_middle_of_a_commit_stays_if_that_names_it() {
    for is_kept in [true, false] {
        let device = SimDevice::new(1);
        let store = Store::create_on(Arc::new(device.clone()), options().reserve_bytes(0)).unwrap();
        let files = store.files().clone();
        store.attach("a", Arc::new(Fickle { files, file: Mutex::default(), is_kept })).unwrap();
        for _ in 0..2 {
            store.commit(b"").unwrap();
            assert_eq!(data_files(&device), if is_kept { 2 } else { 0 });
            assert!(store.verify().unwrap().is_whole());
        }
        let room = device.used_bytes() + 3 * BLOCK_BYTES as u64;
        device.set_capacity_bytes(room);
        assert!(matches!(store.commit(b"no room for the record"), Err(Error::Full { .. })));
        assert_eq!(data_files(&device), if is_kept { 2 } else { 0 }, "a commit that failed leaves nothing");
        assert!(store.verify().unwrap().is_whole());
    }
}

#[test]
fn a_blob_that_finds_no_room_leaves_no_file() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options().reserve_bytes(0)).unwrap();
    device.set_capacity_bytes(device.used_bytes() + 2 * BLOCK_BYTES as u64);
    assert!(matches!(store.files().write_blob(&[0; 600_000]), Err(Error::Full { .. })));
    assert_eq!(data_files(&device), 0);
}
