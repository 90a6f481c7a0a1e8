//! The store against its contract: commits, recovery, damage, budgets, on devices in RAM and simulated ones.

mod handles;
mod large;
mod publish;
mod waits;

use super::*;
use crate::device::memory::MemoryDevice;
use crate::device::sim::{Fault, FaultKind, SimDevice};
use crate::device::{Access, BLOCK_BYTES};

/// A summary whose whole state is one blob.
struct Blob {
    files: Files,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    bytes: Vec<u8>,
    saved: Option<Vec<u8>>,
    pending: Option<Vec<u8>>,
}

impl Blob {
    fn new(store: &Store, bytes: &[u8]) -> Arc<Blob> {
        let inner = Inner { bytes: bytes.to_vec(), ..Inner::default() };
        Arc::new(Blob { files: store.files().clone(), inner: Mutex::new(inner) })
    }

    fn set(&self, bytes: &[u8]) {
        lock(&self.inner).bytes = bytes.to_vec();
    }

    fn load(store: &Store, name: &str) -> Result<Vec<u8>> {
        let entry = store.record(name).ok_or(Error::NotFound { what: "summary", name: name.to_owned() })?;
        store.files().read_blob(&entry.record.files[0])
    }
}

impl Participant for Blob {
    fn structure(&self) -> Structure {
        Structure { id: 907, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        let mut inner = lock(&self.inner);
        if inner.saved.as_ref().is_some_and(|saved| *saved == inner.bytes) {
            return Ok(Prepared::Unchanged);
        }
        inner.pending = Some(inner.bytes.clone());
        let bytes = inner.bytes.clone();
        drop(inner);
        let file = self.files.write_blob(&bytes)?;
        Ok(Prepared::Changed(Record { state: b"inline".to_vec(), files: vec![file] }))
    }

    fn committed(&self) {
        let mut inner = lock(&self.inner);
        inner.saved = inner.pending.take();
    }

    fn is_changed(&self) -> bool {
        let inner = lock(&self.inner);
        inner.saved.as_ref() != Some(&inner.bytes)
    }
}

fn options() -> StoreOptions {
    StoreOptions::new().threads(0).reserve_bytes(8192)
}

fn data_files(device: &dyn Device) -> usize {
    device.list().unwrap().iter().filter(|name| name.ends_with(".seg")).count()
}

#[test]
fn blobs_of_every_length_come_back() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device, options()).unwrap();
    for bytes in [0, 1, 4071, 4072, 4073, 8152, 8153, 64 * 4080 - 8, 64 * 4080 - 7, 600_000] {
        let blob: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let file = store.files().write_blob(&blob).unwrap();
        assert_eq!(store.files().read_blob(&file).unwrap(), blob, "{bytes} bytes");
    }
}

#[test]
fn a_blob_in_pieces_is_the_blob_in_one() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    let files = store.files();
    for piece in [1, 4072, 4080, 5000, 64 * 4080, 300_000] {
        for bytes in [0, 4072, 4073, 8152, 64 * 4080 - 8, 64 * 4080 - 7, 300_000] {
            let blob: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
            let whole = files.write_blob(&blob).unwrap();
            let file = files.write_blob_with(bytes, |sink| blob.chunks(piece).try_for_each(sink)).unwrap();
            assert_eq!(file.bytes, whole.bytes);
            assert_eq!(files.read_blob(&file).unwrap(), blob, "{bytes} bytes by {piece}");
            let pull = |total_bytes: usize, source: &mut dyn FnMut(&mut [u8]) -> crate::Result<()>| {
                let mut back = vec![0; total_bytes];
                back.chunks_mut(piece).try_for_each(source)?;
                Ok(back)
            };
            assert_eq!(files.read_blob_with(&whole, pull).unwrap(), blob, "{bytes} bytes by {piece}");
        }
    }
}

#[test]
fn a_blob_of_another_length_than_announced_is_refused() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    let files = store.files();
    for announced in [9, 11] {
        let file = files.write_blob_with(announced, |sink| sink(b"ten bytes!"));
        assert!(matches!(file, Err(Error::InvalidOption { name: "total_bytes", .. })));
    }
    let file = files.write_blob(b"ten bytes!").unwrap();
    let read = |bytes: usize| files.read_blob_with(&file, |_, source| source(&mut vec![0; bytes]));
    assert!(read(4).is_ok() && matches!(read(11), Err(Error::Corrupt { .. })));
}

#[test]
fn a_commit_is_what_the_next_open_finds() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let (id, seed) = (store.id(), store.seed());
    let blob = Blob::new(&store, b"one");
    store.attach("../weird name", blob.clone()).unwrap();
    assert_eq!(store.commit(b"p1").unwrap(), CommitId(1));
    blob.set(b"two, not committed");
    drop(store);
    let store = Store::open_on(device.clone(), options()).unwrap();
    assert_eq!((store.id(), store.seed()), (id, seed));
    assert_eq!(store.position(), b"p1");
    assert_eq!(Blob::load(&store, "../weird name").unwrap(), b"one");
    assert_eq!(store.summaries()[0].name, "../weird name");
    assert_eq!(device.list().unwrap(), ["000001.man", "000002.seg", "reserve", "superblock"]);
}

#[test]
fn what_did_not_change_costs_nothing() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let blob = Blob::new(&store, b"x");
    store.attach("a", blob).unwrap();
    store.commit(b"p").unwrap();
    device.reset_counts();
    assert_eq!(store.commit(b"p").unwrap(), CommitId(1));
    assert_eq!(device.io_counts(), Default::default());
    store.commit(b"q").unwrap();
    let counts = device.io_counts();
    assert_eq!((counts.blocks_written, counts.syncs, counts.blocks_read), (2, 1, 0));
}

#[test]
fn dead_files_are_removed_by_the_commit_that_drops_them() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let blob = Blob::new(&store, b"0");
    store.attach("a", blob.clone()).unwrap();
    for i in 0..5u8 {
        blob.set(&[i; 9000]);
        store.commit(&[i]).unwrap();
        assert_eq!(data_files(&*device), 1);
    }
    store.remove("a").unwrap();
    assert!(store.record("a").is_none());
    store.commit(b"gone").unwrap();
    assert_eq!(data_files(&*device), 0);
    assert!(matches!(store.remove("a"), Err(Error::NotFound { .. })));
}

#[test]
fn orphans_are_removed_by_the_next_writer_and_foreign_files_are_not() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    store.files().write_blob(b"nobody names me").unwrap();
    let (kept, _) = store.files().create().unwrap();
    store.files().discard(kept).unwrap();
    drop(store);
    device.create("README.seg").unwrap();
    assert_eq!(data_files(&*device), 2);
    Store::open_read_only_on(device.clone(), options()).unwrap();
    assert_eq!(data_files(&*device), 2, "a reader removes nothing");
    Store::open_on(device.clone(), options()).unwrap();
    assert_eq!(device.list().unwrap(), ["000001.man", "README.seg", "reserve", "superblock"]);
}

#[test]
fn the_manifest_log_stays_short() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options().manifest_bytes(64 << 10)).unwrap();
    store.attach("a", Blob::new(&store, b"x")).unwrap();
    for i in 0..100u32 {
        store.commit(&i.to_le_bytes()).unwrap();
    }
    let manifests: Vec<String> =
        device.list().unwrap().into_iter().filter(|name| name.ends_with(".man")).collect();
    assert_eq!(manifests.len(), 1);
    assert!(device.open(&manifests[0], Access::Read).unwrap().len_bytes().unwrap() <= 80 << 10);
    drop(store);
    let store = Store::open_on(device, options()).unwrap();
    assert_eq!(store.commit_info().commit, CommitId(100));
    assert_eq!(Blob::load(&store, "a").unwrap(), b"x");
}

#[test]
fn a_reader_keeps_its_snapshot_beside_a_writer() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let blob = Blob::new(&store, b"old");
    store.attach("a", blob.clone()).unwrap();
    store.commit(b"1").unwrap();
    let reader = Store::open_read_only_on(device.clone(), options()).unwrap();
    blob.set(b"new");
    store.commit(b"2").unwrap();
    assert_eq!(Blob::load(&reader, "a").unwrap(), b"old");
    assert_eq!(reader.position(), b"1");
    assert!(matches!(reader.commit(b"3"), Err(Error::ReadOnly { .. })));
    assert!(matches!(reader.files().create(), Err(Error::ReadOnly { .. })));
    let reader = Store::open_read_only_on(device.clone(), options()).unwrap();
    assert_eq!(Blob::load(&reader, "a").unwrap(), b"new");
    assert!(matches!(Store::open_on(device, options()), Err(Error::Locked { .. })));
}

#[test]
fn a_manifest_shorter_than_at_the_last_close_is_corrupt() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let blob = Blob::new(&store, b"0");
    store.attach("a", blob.clone()).unwrap();
    for i in 0..4u8 {
        blob.set(&[i]);
        store.commit(&[i]).unwrap();
    }
    let cut = |device: &SimDevice, blocks: usize| {
        let image = device.fork();
        let file = image.open("000001.man", Access::Write).unwrap();
        file.set_len((blocks * BLOCK_BYTES) as u64).unwrap();
        let reader =
            Store::open_read_only_on(Arc::new(image.clone()), options()).map(|store| store.position());
        let writer = Store::open_on(Arc::new(image), options()).map(|store| store.position());
        assert_eq!(reader.as_ref().ok(), writer.as_ref().ok());
        writer
    };
    // A crash leaves no mark: a cut that ends with a record is a commit less, and nothing can tell.
    assert_eq!(cut(&device, 2 * 5).unwrap(), [3]);
    assert!(matches!(cut(&device, 2 * 4), Err(Error::Corrupt { what: "committed file", .. })));
    drop(store);
    assert_eq!(cut(&device, 2 * 5).unwrap(), [3]);
    for blocks in 0..2 * 5 - 1 {
        let error = cut(&device, blocks).unwrap_err();
        let Error::Corrupt { path, .. } = &error else { panic!("{blocks} blocks: {error}") };
        assert!(path.ends_with("000001.man"), "{blocks} blocks: {error}");
    }
    assert_eq!(cut(&device, 2 * 5 - 1).unwrap(), [3], "one copy of the last record is enough");
}

#[test]
fn a_committed_file_that_is_missing_is_damage() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    store.attach("a", Blob::new(&store, b"x")).unwrap();
    store.commit(b"1").unwrap();
    drop(store);
    for name in ["000002.seg", "000001.man"] {
        let hidden = format!("{name}.hidden");
        device.rename(name, &hidden).unwrap();
        let reader = Store::open_read_only_on(device.clone(), options()).map(drop);
        let writer = Store::open_on(device.clone(), options()).map(drop);
        for result in [reader, writer] {
            let error = result.unwrap_err();
            let Error::Corrupt { path, what: "committed file", .. } = &error else { panic!("{error}") };
            assert!(path.ends_with(name) && error.to_string().contains("missing"), "{error}");
        }
        device.rename(&hidden, name).unwrap();
    }
    Store::open_on(device, options()).unwrap();
}

#[test]
fn a_close_marks_what_commits_did_not() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    store.commit(b"1").unwrap();
    device.reset_counts();
    store.commit(b"2").unwrap();
    assert_eq!(device.io_counts().syncs, 1, "a commit syncs the manifest, and nothing for the mark");
    drop(store);
    let counts = device.io_counts();
    assert_eq!(
        (counts.blocks_written, counts.syncs),
        (4, 2),
        "a pair of slots beside the pair of the record"
    );
    let store = Store::open_on(Arc::new(device.clone()), options()).unwrap();
    device.reset_counts();
    drop(store);
    assert_eq!(device.io_counts(), Default::default(), "what is marked is not marked again");
}

#[test]
fn a_poisoned_store_leaves_no_mark() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    store.commit(b"1").unwrap();
    let operation = device.changes() + 1;
    device.inject(Fault { operation, on_reads: false, kind: FaultKind::Eio, sticky: false });
    assert!(matches!(store.commit(b"2"), Err(Error::Io { op: "sync", .. })));
    let changes = device.changes();
    drop(store);
    assert_eq!(device.changes(), changes);
}

#[test]
fn what_is_not_a_store_is_left_as_it_is() {
    let device = Arc::new(MemoryDevice::new());
    assert!(matches!(Store::open_on(device.clone(), options()), Err(Error::NotAStore { .. })));
    assert!(device.list().unwrap().is_empty());
    device.create("thesis.doc").unwrap();
    let error = Store::create_on(device.clone(), options()).unwrap_err();
    assert!(error.to_string().contains("thesis.doc"), "{error}");
    let file = device.create("superblock").unwrap();
    file.write(0, &[b'#'; 4 * BLOCK_BYTES]).unwrap();
    assert!(matches!(Store::open_on(device.clone(), options()), Err(Error::NotAStore { .. })));
    assert_eq!(device.list().unwrap(), ["superblock", "thesis.doc"]);
}

#[test]
fn another_version_says_so() {
    let device = Arc::new(MemoryDevice::new());
    drop(Store::create_on(device.clone(), options()).unwrap());
    let file = device.open("superblock", Access::Write).unwrap();
    let mut slots = vec![0; 4 * BLOCK_BYTES];
    file.read(0, &mut slots).unwrap();
    for slot in slots.chunks_exact_mut(BLOCK_BYTES) {
        slot[8] = 9;
    }
    file.write(0, &slots).unwrap();
    let error = Store::open_on(device, options()).unwrap_err();
    assert!(
        matches!(error, Error::UnsupportedVersion { found: 9, supported: FORMAT_VERSION, .. }),
        "{error}"
    );
}

#[test]
fn another_seed_or_hash_kind_is_incompatible() {
    let device = Arc::new(MemoryDevice::new());
    let seeded = options().seed(Seed(5)).hash_kind(HashKind::SipHash13);
    drop(Store::create_on(device.clone(), seeded.clone()).unwrap());
    let store = Store::open_on(device.clone(), seeded).unwrap();
    assert_eq!((store.seed(), store.hash_kind()), (Seed(5), HashKind::SipHash13));
    drop(store);
    let other_seed = Store::open_on(device.clone(), options().seed(Seed(6)));
    assert!(matches!(other_seed, Err(Error::Incompatible { what: "seed", .. })));
    let other_kind = Store::open_on(device, options().hash_kind(HashKind::Xxh3));
    assert!(matches!(other_kind, Err(Error::Incompatible { what: "hash kind", .. })));
}

#[test]
fn a_full_disk_leaves_the_last_commit_and_lets_a_removal_through() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    let (big, small) = (Blob::new(&store, &[1; 100_000]), Blob::new(&store, b"s"));
    store.attach("big", big).unwrap();
    store.attach("small", small.clone()).unwrap();
    store.commit(b"1").unwrap();
    device.set_capacity_bytes(device.used_bytes());
    small.set(b"does not fit");
    assert!(matches!(store.commit(b"2"), Err(Error::Full { .. })));
    assert_eq!(data_files(&device), 2, "the files of the failed commit are taken back");
    assert_eq!((store.position(), Blob::load(&store, "small").unwrap()), (b"1".to_vec(), b"s".to_vec()));
    small.set(b"s");
    store.remove("big").unwrap();
    store.commit(b"3").unwrap();
    assert!(device.list().unwrap().iter().any(|name| name == "reserve"), "the reserve is back");
    small.set(b"fits");
    store.commit(b"4").unwrap();
    drop(store);
    let store = Store::open_on(Arc::new(device), options()).unwrap();
    assert_eq!(Blob::load(&store, "small").unwrap(), b"fits");
}

#[test]
fn verify_collects_all_damage() {
    let device = SimDevice::new(1);
    let store = Store::create_on(Arc::new(device.clone()), options()).unwrap();
    store.attach("a", Blob::new(&store, &[1; 20_000])).unwrap();
    store.commit(b"1").unwrap();
    let whole = store.verify().unwrap();
    assert!(whole.is_whole(), "{whole:?}");
    assert_eq!((whole.files, whole.blocks, whole.bytes), (3, 4 + 4 + 5, 13 * 4096));
    let name = device.list().unwrap().into_iter().find(|name| name.ends_with(".seg")).unwrap();
    assert!(device.flip_bit(&name, 8 * 5000) && device.flip_bit(&name, 8 * 17000));
    assert!(device.flip_bit("superblock", 3) && device.flip_bit("000001.man", 8 * 4096));
    let report = store.verify().unwrap();
    let places: Vec<(&str, u64)> = report.damaged.iter().map(|d| (d.file.as_str(), d.offset)).collect();
    let expected = [("superblock", 0), ("000001.man", 4096), (&name, 4096), (&name, 16384), (&name, 0)];
    assert_eq!(places, expected, "both blocks, and the whole-file hash");
    assert!(matches!(Blob::load(&store, "a"), Err(Error::Corrupt { at: 4096, .. })));
}

#[test]
fn names_and_records_are_checked() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options()).unwrap();
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert!(matches!(store.attach(name, Blob::new(&store, b"")), Err(Error::InvalidOption { .. })));
    }
    store.attach("a", Blob::new(&store, b"")).unwrap();
    assert!(matches!(store.attach("a", Blob::new(&store, b"")), Err(Error::AlreadyExists { .. })));
    assert!(matches!(store.commit(&[0; 65537]), Err(Error::InvalidOption { .. })));
    store.commit(&[0; 65536]).unwrap();
    assert!(store.files().discard(FileId(2)).is_err(), "a committed file is not discarded");
}

#[test]
fn a_handle_that_outlives_the_store_writes_nothing() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let files = store.files().clone();
    let (_, file) = files.create().unwrap();
    drop(store);
    let _next_writer = Store::open_on(device, options()).unwrap();
    assert!(matches!(file.write(0, &[0; BLOCK_BYTES]), Err(Error::Poisoned { .. })));
    assert!(matches!(files.create(), Err(Error::Poisoned { .. })));
}

#[test]
fn snapshots_opened_while_a_writer_commits_are_never_mixed() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options().manifest_bytes(48 << 10)).unwrap();
    let blob = Blob::new(&store, b"0");
    store.attach("a", blob.clone()).unwrap();
    store.commit(b"0").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 1..400 {
                let text = i.to_string().into_bytes();
                blob.set(&text);
                store.commit(&text).unwrap();
            }
        });
        while !writer.is_finished() {
            let reader = Store::open_read_only_on(device.clone(), options()).unwrap();
            assert_eq!(Blob::load(&reader, "a").unwrap(), reader.position());
        }
    });
}

#[test]
fn a_failing_job_poisons_the_store() {
    let store = Store::create_on(Arc::new(MemoryDevice::new()), options().threads(1)).unwrap();
    assert!(store.workers().spawn(|| panic!("merge of layers 3 and 4")).wait().is_err());
    let error = store.commit(b"p").unwrap_err();
    assert!(error.to_string().contains("merge of layers 3 and 4"), "{error}");
}

#[test]
fn a_directory_on_disk_is_a_store_like_any_other() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("summaries");
    assert!(matches!(Store::open(&path, options()), Err(Error::NotFound { .. })));
    let store = Store::create(&path, options()).unwrap();
    store.attach("a", Blob::new(&store, &[7; 300_000])).unwrap();
    store.commit(b"p").unwrap();
    let again = Store::open(&path, options()).unwrap_err();
    assert!(matches!(again, Error::Locked { pid, .. } if pid == std::process::id()));
    assert!(again.to_string().contains("in this process already; use a clone of that store"), "{again}");
    let reader = Store::open_read_only(&path, options()).unwrap();
    store.remove("a").unwrap();
    store.commit(b"q").unwrap();
    assert_eq!(Blob::load(&reader, "a").unwrap(), [7; 300_000], "the snapshot outlives the file's name");
    drop(store);
    let store = Store::open_or_create(&path, options()).unwrap();
    assert_eq!((store.position(), store.summaries().len()), (b"q".to_vec(), 0));
    assert!(store.verify().unwrap().is_whole());
    let foreign = scratch.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("mail.txt"), "dear").unwrap();
    assert!(matches!(Store::open(&foreign, options()), Err(Error::NotAStore { .. })));
    assert!(matches!(Store::create(&foreign, options()), Err(Error::NotAStore { .. })));
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn bytes_that_are_damaged_in_a_file_name_the_file() {
    let store = Store::in_memory(options()).unwrap();
    let file = store.files().write_blob(b"a blob").unwrap();
    let decode = |_: usize, source: &mut dyn FnMut(&mut [u8]) -> Result<()>| {
        source(&mut [0; 6])?;
        Err::<(), _>(crate::error::corrupt_bytes(3, "the magic number", "b", "x"))
    };
    let error = store.files().read_blob_with(&file, decode).unwrap_err();
    assert!(error.to_string().starts_with("memory/000002.seg is damaged at byte 3: the magic"), "{error}");
}

/// A summary that is made of two records is made of two of one commit, whoever moves the store on meanwhile.
#[test]
fn a_refresh_waits_for_what_is_being_opened() {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).unwrap();
    let (one, two) = (Blob::new(&store, b"1"), Blob::new(&store, b"1"));
    store.attach("one", one.clone()).unwrap();
    store.attach("two", two.clone()).unwrap();
    store.commit(b"1").unwrap();
    let reader = Store::open_read_only_on(device, options()).unwrap();
    one.set(b"2");
    two.set(b"2");
    store.commit(b"2").unwrap();
    std::thread::scope(|scope| {
        let mut refresh = None;
        let opened = reader.open_with::<handles::Held>("one", |_| {
            let first = Blob::load(&reader, "one").unwrap();
            refresh = Some(scope.spawn(|| reader.refresh().unwrap()));
            (0..10_000).for_each(|_| std::thread::yield_now());
            assert_eq!((Blob::load(&reader, "two").unwrap(), reader.position()), (first, b"1".to_vec()));
            Err(Error::NotFound { what: "a test's end", name: String::new() })
        });
        assert!(opened.is_err());
        assert!(refresh.unwrap().join().unwrap());
        assert_eq!((Blob::load(&reader, "one").unwrap(), reader.position()), (b"2".to_vec(), b"2".to_vec()));
    });
    one.set(b"3");
    store.commit(b"3").unwrap();
    let stay = reader.stay();
    std::thread::scope(|scope| {
        let refresh = scope.spawn(|| reader.refresh().unwrap());
        (0..10_000).for_each(|_| std::thread::yield_now());
        assert_eq!(reader.position(), b"2");
        drop(stay);
        assert!(refresh.join().unwrap());
    });
    assert_eq!(reader.position(), b"3");
}

/// A run that failed before its first commit has left nothing to keep, not even its seed.
#[test]
fn a_store_that_nothing_was_committed_to_is_as_good_as_none() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), options().seed(Seed(1))).unwrap();
    store.files().write_blob(b"of no commit").unwrap();
    let first = store.id();
    let beside = Store::open_or_create_on(device.clone(), options().seed(Seed(2)));
    assert!(matches!(beside, Err(Error::Incompatible { .. } | Error::Locked { .. })));
    drop(store);
    // Whoever only opens it is told what it is.
    assert!(matches!(
        Store::open_on(device.clone(), options().seed(Seed(2))),
        Err(Error::Incompatible { what: "seed", .. })
    ));
    let reader = Store::open_read_only_on(device.clone(), StoreOptions::new()).unwrap();
    let store = Store::open_or_create_on(device.clone(), options().seed(Seed(2))).unwrap();
    assert!(store.seed() == Seed(2) && store.id() != first);
    assert!(matches!(reader.refresh(), Err(Error::NotAStore { .. })));
    store.commit(b"1").unwrap();
    drop(store);
    for (seed, is_open) in [(2, true), (1, false)] {
        let store = Store::open_or_create_on(device.clone(), options().seed(Seed(seed)));
        assert_eq!(store.is_ok(), is_open, "{store:?}");
        assert!(store.is_err() || store.is_ok_and(|store| store.position() == b"1"));
    }
    assert_eq!(device.list().unwrap().iter().filter(|name| name.ends_with(".man")).count(), 1);
}
