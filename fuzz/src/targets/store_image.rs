//! A store's files with bytes changed: every question has the answer of a commit that was made, or an error.

use crate::image::{Image, options};
use crate::{Target, Verdict};
use overbank::Result;
use overbank::device::BLOCK_BYTES;
use overbank::device::memory::MemoryDevice;
use overbank::store::{Files, Participant, Prepared, Record, Store, Structure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// The target. Input: whether seals are mended (odd), then the changes of [`Image::changed`].
pub const TARGET: Target = Target { name: "store_image", seeds, run };

const COMMITS: u64 = 3;

/// A summary whose blob and state tell which commit they are of.
struct Marked(AtomicU64, Files);

impl Participant for Marked {
    fn structure(&self) -> Structure {
        Structure { id: 900, version: 1 }
    }

    fn prepare(&self) -> Result<Prepared> {
        let commit = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let record = Record { state: vec![commit as u8; 40], files: vec![self.1.write_blob(&blob(commit))?] };
        Ok(Prepared::Changed(record))
    }

    fn committed(&self) {}
}

fn blob(commit: u64) -> Vec<u8> {
    vec![commit as u8; 3 * BLOCK_BYTES]
}

static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    Image::new(|store| {
        store
            .attach("marked", Arc::new(Marked(AtomicU64::new(0), store.files().clone())))
            .expect("the name is free");
        for commit in 1..=COMMITS {
            store.commit(&commit.to_le_bytes()).expect("RAM takes a commit");
        }
    })
});

fn seeds() -> Vec<Vec<u8>> {
    vec![vec![0], vec![1], vec![0, 0, 0, 0, 0], vec![1, 1, 1, 0, 0, 2, 9, 9, 0]]
}

fn run(data: &[u8]) -> Verdict {
    let Some((&mode, changes)) = data.split_first() else { return Verdict::Refused };
    match (mode % 2, ask(IMAGE.changed(changes, mode % 2 == 1))) {
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
