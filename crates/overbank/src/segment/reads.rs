//! Reads single blocks of several files at once, those that lie near each other in one request.
//!
//! ```text
//!   wanted   file a: 3 4 5       9      file b: 7            in the order of files, and of blocks in each
//!   requests        └─ one ─┘    └ if the gap is worth it    └ one, at the same time
//!   answers  each block by itself, in any order, as its request arrives
//! ```
//!
//! Invariants:
//! 1. Each wanted block is answered exactly once, unless an error ends the batch; a block that is wanted twice in a row is read once.
//! 2. Requests in flight, and blocks between wanted ones that are read along, never take more than [`Coalesce::in_flight_bytes`], or
//!    one request where that is longer.
//! 3. What is answered is the device's bytes: seals are the caller's to check, for files differ in them.
//!
//! | k wanted blocks | CPU | block reads | RAM |
//! |---|---|---|---|
//! | [`read_blocks`] | O(k) | k, and the gaps | 40 bytes a request, and what is in flight |

use crate::Result;
use crate::device::{BLOCK_BYTES, DeviceFile, FileRead, ReadRequest};
use crate::store::Files;
use std::ops::Range;

/// How blocks are read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Coalesce {
    /// The longest request, in blocks; at least 1.
    pub(crate) longest_blocks: u64,
    /// How far a block may lie behind the one before to be read with it: 1 joins neighbours only, `g` reads up to `g - 1` blocks
    /// along that nobody wants.
    pub(crate) gap_blocks: u64,
    /// The most requests in flight.
    pub(crate) depth: usize,
    /// The most bytes in flight.
    pub(crate) in_flight_bytes: usize,
}

/// Reads the blocks of `wanted`, each at the file and block number that `place` says, and calls `done` with each and its 4096 bytes,
/// in any order. Blocks of one file that follow each other in `wanted` ascend or repeat; all files are of `files`.
///
/// # Errors
/// What the device says, or `done` fails with; the first error ends the batch.
pub(crate) fn read_blocks<'a, W>(
    files: &Files,
    how: Coalesce,
    wanted: &[W],
    place: impl Fn(&W) -> (&'a dyn DeviceFile, u64),
    done: &mut dyn FnMut(&W, &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut reads, mut parts) = (Vec::new(), Vec::new());
    let mut rest = 0..wanted.len();
    while rest.start < rest.end {
        let (read, part) = next_request(how, wanted, rest.start, &place);
        rest.start = part.end;
        reads.push(read);
        parts.push(part);
    }
    let longest = reads.iter().map(|read| read.request.bytes as usize).max().unwrap_or(BLOCK_BYTES);
    let depth = how.depth.min(how.in_flight_bytes / longest).max(1);
    files.read_many(&reads, depth, &mut |i, bytes| {
        let first = reads[i].request.offset / BLOCK_BYTES as u64;
        wanted[parts[i].clone()].iter().try_for_each(|one| {
            let at = (place(one).1 - first) as usize * BLOCK_BYTES;
            done(one, &bytes[at..at + BLOCK_BYTES])
        })
    })
}

/// The request that begins with `wanted[start]`, and which of the wanted blocks it answers.
fn next_request<'a, W>(
    how: Coalesce,
    wanted: &[W],
    start: usize,
    place: impl Fn(&W) -> (&'a dyn DeviceFile, u64),
) -> (FileRead<'a>, Range<usize>) {
    let (file, first) = place(&wanted[start]);
    let mut last = first;
    let joined = wanted[start + 1..].iter().take_while(|one| {
        let (other, block) = place(one);
        // Numbers that fall are not joined, so a caller that does not sort pays in requests, not in answers.
        let is_near = block >= last && block - last <= how.gap_blocks && block - first < how.longest_blocks;
        let is_joined = is_near && std::ptr::addr_eq(file, other);
        if is_joined {
            last = block;
        }
        is_joined
    });
    let end = start + 1 + joined.count();
    let bytes = (last - first + 1) as usize * BLOCK_BYTES;
    let request = ReadRequest { offset: first * BLOCK_BYTES as u64, bytes: bytes as u32 };
    (FileRead { file, request }, start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::SimDevice;
    use crate::device::{Access, Device};
    use crate::store::{Store, StoreOptions};
    use proptest::prelude::*;
    use std::sync::Arc;

    const FILE_BLOCKS: u64 = 64;

    /// A store beside three files, whose blocks hold their file's and their own number.
    fn files() -> (SimDevice, Store, Vec<Arc<dyn DeviceFile>>) {
        let device = SimDevice::new(1);
        let store = Store::create_on(Arc::new(device.clone()), StoreOptions::new().threads(0)).unwrap();
        let make = |number: u64| {
            let name = format!("other-{number}");
            let file = device.create(&name).unwrap();
            let bytes: Vec<u8> = (0..FILE_BLOCKS).flat_map(|block| block_of(number, block)).collect();
            file.write(0, &bytes).unwrap();
            device.open(&name, Access::Read).unwrap()
        };
        let files = (0..3).map(make).collect();
        (device, store, files)
    }

    fn block_of(file: u64, block: u64) -> Vec<u8> {
        let words = [file, block].map(u64::to_le_bytes).concat();
        words.repeat(BLOCK_BYTES / 16)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn each_wanted_block_is_answered_once_in_few_requests(
            mut wanted in prop::collection::vec((0u64..3, 0u64..FILE_BLOCKS), 0..150),
            longest_blocks in 1u64..20, gap_blocks in 1u64..6, depth in 1usize..40, blocks_in_flight in 0usize..64,
            is_sorted in prop_oneof![3 => Just(true), 1 => Just(false)],
        ) {
            let (device, store, opened) = files();
            if is_sorted {
                wanted.sort_unstable();
            }
            let how = Coalesce { longest_blocks, gap_blocks, depth, in_flight_bytes: blocks_in_flight * BLOCK_BYTES };
            device.reset_counts();
            let mut answered = Vec::new();
            read_blocks(
                store.files(), how, &wanted, |&(file, block)| (&*opened[file as usize], block),
                &mut |&(file, block), bytes| {
                    assert_eq!(bytes, block_of(file, block));
                    answered.push((file, block));
                    Ok(())
                },
            ).unwrap();
            answered.sort_unstable();
            let mut expected = wanted.clone();
            expected.sort_unstable();
            prop_assert_eq!(answered, expected);
            let io = device.io_counts();
            prop_assert!(io.blocks_read <= io.reads * longest_blocks);
            if is_sorted {
                wanted.dedup();
                // As few requests as blocks that are far from the one before, and a cut where one would be too long.
                let is_far = |pair: &&[(u64, u64)]| pair[0].0 != pair[1].0 || pair[1].1 - pair[0].1 > gap_blocks;
                let far = wanted.windows(2).filter(is_far).count() as u64 + u64::from(!wanted.is_empty());
                prop_assert!(io.reads >= far && io.reads <= far + 3 * FILE_BLOCKS.div_ceil(longest_blocks));
                prop_assert!(io.blocks_read >= wanted.len() as u64);
                prop_assert!(gap_blocks > 1 || io.blocks_read == wanted.len() as u64, "nothing is read along");
            }
        }
    }

    #[test]
    fn an_error_of_an_answer_ends_the_batch() {
        let (_, store, opened) = files();
        let how = Coalesce { longest_blocks: 4, gap_blocks: 1, depth: 1, in_flight_bytes: 1 << 20 };
        let mut answers = 0;
        let read =
            read_blocks(store.files(), how, &[0u64, 9, 20], |&block| (&*opened[0], block), &mut |_, _| {
                answers += 1;
                crate::error::invalid("an answer", answers, "the test refuses it")
            });
        assert!(read.is_err());
        assert_eq!(answers, 1);
    }
}
