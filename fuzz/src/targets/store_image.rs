//! A store's files with bytes changed: every question has the answer of a commit that was made, or an error.

use crate::{Target, Verdict};
use overbank::device::block::{BlockOwner, Seal, seal};
use overbank::device::memory::MemoryDevice;
use overbank::device::{Access, BLOCK_BYTES, Device};
use overbank::store::{CommitId, Files, Participant, Prepared, Record, Store, StoreOptions, Structure};
use overbank::{Result, Seed};
use std::sync::{Arc, LazyLock, Mutex};

/// The target. Input: whether seals are mended (odd), then changes of four bytes each: which file, where (two bytes, in
/// steps that reach its whole length), and what is added to the byte there.
pub const TARGET: Target = Target { name: "store_image", seeds, run };

const COMMITS: u64 = 3;

/// A summary whose blob and state tell which commit they are of.
struct Marked(u64);

impl Participant for Marked {
    fn structure(&self) -> Structure {
        Structure { id: 900, version: 1 }
    }

    fn prepare(&mut self, files: &Files, _: CommitId) -> Result<Prepared> {
        self.0 += 1;
        let record = Record { state: vec![self.0 as u8; 40], files: vec![files.write_blob(&blob(self.0))?] };
        Ok(Prepared::Changed(record))
    }

    fn committed(&mut self, _: CommitId) {}
}

fn blob(commit: u64) -> Vec<u8> {
    vec![commit as u8; 3 * BLOCK_BYTES]
}

fn options() -> StoreOptions {
    StoreOptions::new().seed(Seed(9)).threads(0).reserve_bytes(0)
}

/// A store's id, and its files by name.
type Image = (u128, Vec<(String, Vec<u8>)>);

static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    let device = Arc::new(MemoryDevice::new());
    let store = Store::create_on(device.clone(), options()).expect("RAM takes a store");
    store.attach("marked", Arc::new(Mutex::new(Marked(0)))).expect("the name is free");
    for commit in 1..=COMMITS {
        store.commit(&commit.to_le_bytes()).expect("RAM takes a commit");
    }
    let id = store.id();
    drop(store);
    let names = device.list().expect("RAM lists its files");
    let files = names.into_iter().map(|name| {
        let file = device.open(&name, Access::Read).expect("it is listed");
        let mut bytes = vec![0; file.len_bytes().expect("a length") as usize];
        file.read(0, &mut bytes).expect("RAM reads");
        (name, bytes)
    });
    (id, files.collect())
});

fn seeds() -> Vec<Vec<u8>> {
    vec![vec![0], vec![1], vec![0, 0, 0, 0, 0], vec![1, 1, 1, 0, 0, 2, 9, 9, 0]]
}

fn run(data: &[u8]) -> Verdict {
    let Some((&mode, changes)) = data.split_first() else { return Verdict::Refused };
    let (id, mut files) = IMAGE.clone();
    for change in changes.chunks_exact(4).take(16) {
        let index = usize::from(change[0]) % files.len();
        let (name, bytes) = &mut files[index];
        if bytes.is_empty() {
            continue;
        }
        let at = (usize::from(u16::from_le_bytes([change[1], change[2]])) * 7) % bytes.len();
        bytes[at] = bytes[at].wrapping_add(change[3]);
        if mode % 2 == 1 {
            mend(id, name, bytes, at / BLOCK_BYTES);
        }
    }
    let device = MemoryDevice::new();
    for (name, bytes) in &files {
        device.create(name).and_then(|file| file.write(0, bytes)).expect("RAM takes the file");
    }
    match (mode % 2, ask(Arc::new(device))) {
        (_, Err(_)) => Verdict::Refused,
        (0, Ok((position, state, answer))) => {
            // Where both copies of the last record are hit, they are a torn tail, and the commit before is the last.
            let commit = position.first_chunk().copied().map_or(0, u64::from_le_bytes);
            assert!((1..=COMMITS).contains(&commit), "position {position:?}");
            assert_eq!((state, answer), (vec![commit as u8; 40], blob(commit)), "a mixture of commits");
            Verdict::Accepted
        }
        // With seals mended the bytes may say anything, as long as nothing panics.
        _ => Verdict::Accepted,
    }
}

/// The position, and the summary's state and blob.
fn ask(device: Arc<MemoryDevice>) -> Result<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let store = Store::open_read_only_on(device, options())?;
    let report = store.verify()?;
    let missing = || overbank::Error::NotFound { what: "summary", name: "marked".to_owned() };
    let entry = store.record("marked").ok_or_else(missing)?;
    let file = entry.record.files.first().ok_or_else(missing)?;
    let blob = store.files().read_blob(file);
    assert!(blob.is_ok() || !report.is_whole(), "verify calls a store whole that cannot be read: {blob:?}");
    Ok((store.position(), entry.record.state, blob?))
}

/// Seals block `number` of a file again.
fn mend(store_id: u128, name: &str, bytes: &mut [u8], number: usize) {
    let file_id = name.split('.').next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let Some(block) = bytes.get_mut(number * BLOCK_BYTES..(number + 1) * BLOCK_BYTES) else { return };
    let field = |range: std::ops::Range<usize>| {
        block[range].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
    };
    let as_it_was = Seal { tag: field(4084..4088) as u32, sequence: field(4088..4096) };
    seal(block, BlockOwner { store_id, file_id }, number as u64, as_it_was);
}
