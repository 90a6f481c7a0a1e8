//! The files of a store with bytes changed, for targets that then ask it questions.

use crate::Verdict;
use overbank::device::block::{BlockOwner, Seal, seal};
use overbank::device::memory::MemoryDevice;
use overbank::device::{Access, BLOCK_BYTES, Device};
use overbank::store::{Store, StoreOptions};
use overbank::{Result, Seed};
use std::sync::Arc;

/// A store's id, and its files by name.
#[derive(Clone)]
pub(crate) struct Image {
    store_id: u128,
    files: Vec<(String, Vec<u8>)>,
}

/// Inputs of [`judge`] to begin with: nothing changed, and one byte.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![vec![0], vec![1], vec![0, 0, 0, 0, 0], vec![1, 2, 0, 0, 0]]
}

/// Lets `ask` see the changed files. `data`: whether seals are mended (odd), then the changes of [`Image::changed`]. Answers, if there
/// are any, are those of a commit, unless seals were mended.
///
/// # Panics
/// If damage changed an answer.
pub(crate) fn judge<T: PartialEq>(
    (image, expected): &(Image, Vec<T>),
    data: &[u8],
    ask: impl FnOnce(Arc<MemoryDevice>) -> Result<T>,
) -> Verdict {
    let Some((&mode, changes)) = data.split_first() else { return Verdict::Refused };
    let is_mended = mode % 2 == 1;
    match ask(image.changed(changes, is_mended)) {
        Err(_) => Verdict::Refused,
        Ok(answers) => {
            assert!(is_mended || expected.contains(&answers), "damage changed an answer");
            Verdict::Accepted
        }
    }
}

/// Of every store that is imaged.
pub(crate) fn options() -> StoreOptions {
    StoreOptions::new().seed(Seed(9)).threads(0).reserve_bytes(0)
}

impl Image {
    /// The files that `fill` leaves of a new store.
    pub(crate) fn new(fill: impl FnOnce(&Store)) -> Self {
        let device = Arc::new(MemoryDevice::new());
        let store = Store::create_on(device.clone(), options()).expect("RAM takes a store");
        fill(&store);
        let store_id = store.id();
        drop(store);
        let names = device.list().expect("RAM lists its files");
        let files = names.into_iter().map(|name| {
            let file = device.open(&name, Access::Read).expect("it is listed");
            let mut bytes = vec![0; file.len_bytes().expect("a length") as usize];
            file.read(0, &mut bytes).expect("RAM reads");
            (name, bytes)
        });
        Self { store_id, files: files.collect() }
    }

    /// A device with the files, changed. Each change is four bytes: which file, where (two bytes, in steps that reach its
    /// whole length), and what is added to the byte there. `mended`: the seals of changed blocks are made right again.
    pub(crate) fn changed(&self, changes: &[u8], mended: bool) -> Arc<MemoryDevice> {
        let Image { store_id, mut files } = self.clone();
        for change in changes.chunks_exact(4).take(16) {
            let index = usize::from(change[0]) % files.len();
            let (name, bytes) = &mut files[index];
            if bytes.is_empty() {
                continue;
            }
            let at = (usize::from(u16::from_le_bytes([change[1], change[2]])) * 7) % bytes.len();
            bytes[at] = bytes[at].wrapping_add(change[3]);
            if mended {
                mend(store_id, name, bytes, at / BLOCK_BYTES);
            }
        }
        let device = MemoryDevice::new();
        for (name, bytes) in &files {
            device.create(name).and_then(|file| file.write(0, bytes)).expect("RAM takes the file");
        }
        Arc::new(device)
    }
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
