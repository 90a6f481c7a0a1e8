//! The knobs of the tree.

use super::codec::Codec;
use super::fragment::Compressor;
use crate::error::invalid;
use crate::{KeyHasher, Result};

/// The paper's.
const BUFFER_BYTES: usize = 30_000_000;
const BUFFER_BYTES_MIN: usize = 256;
/// A place in a root's buffer has 32 bits, and the last object may be as long as a buffer.
const BUFFER_BYTES_MAX: usize = 1 << 30;
const CHILDREN_MAX: usize = 64;
const FAN_OUT_MAX: usize = 4096;
const ROOT_BUFFERS: usize = 4;
const ROOT_BUFFERS_MAX: usize = 64;
const TREES_MAX: usize = 256;
const WORKERS_MAX: usize = 1024;

/// Options of a [`BufferTree`](super::BufferTree). As they are first, they are the paper's, but for the codec, which is LZ4, and the number
/// of workers.
#[derive(Debug)]
pub struct BufferTreeOptions {
    knobs: Knobs,
    hasher: Option<KeyHasher>,
    codec: Option<Box<dyn Codec>>,
    codes_columns: bool,
    clock: Option<fn() -> u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Knobs {
    pub(super) buffer_bytes: usize,
    /// The paper's a and b.
    pub(super) children_min: usize,
    pub(super) children_max: usize,
    pub(super) root_buffers: usize,
    pub(super) trees: usize,
    pub(super) workers: usize,
}

impl Default for BufferTreeOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl BufferTreeOptions {
    /// One tree with buffers of 30 MB and 32 to 64 children a node, four buffers for the root, four workers, LZ4 if it is built in, and
    /// hashes of a random seed.
    pub fn new() -> Self {
        BufferTreeOptions {
            knobs: Knobs {
                buffer_bytes: BUFFER_BYTES,
                children_min: CHILDREN_MAX / 2,
                children_max: CHILDREN_MAX,
                root_buffers: ROOT_BUFFERS,
                trees: 1,
                workers: 4,
            },
            hasher: None,
            codec: usual_codec(),
            codes_columns: true,
            clock: None,
        }
    }

    /// Bytes of a node's buffer, before compression; a hash and a size count for 8. Larger ones are emptied less often, and hold more
    /// objects of keys that are elsewhere, too.
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.knobs.buffer_bytes = bytes;
        self
    }

    /// How many children an inner node has: the paper's a and b. The tree is as high as they make it.
    pub fn fan_out(mut self, least: usize, most: usize) -> Self {
        (self.knobs.children_min, self.knobs.children_max) = (least, most);
        self
    }

    /// Buffers of each root: rows go on coming in while all but one are being sorted and emptied.
    pub fn root_buffers(mut self, buffers: usize) -> Self {
        self.knobs.root_buffers = buffers;
        self
    }

    /// Trees, each for its part of the hashes: one is idle while whole levels of another are emptied.
    pub fn trees(mut self, trees: usize) -> Self {
        self.knobs.trees = trees;
        self
    }

    /// Threads that work for all trees. With none, whoever inserts does the work.
    pub fn workers(mut self, workers: usize) -> Self {
        self.knobs.workers = workers;
        self
    }

    /// What compresses objects.
    pub fn codec(mut self, codec: impl Codec) -> Self {
        self.codec = Some(Box::new(codec));
        self
    }

    /// Objects are not compressed.
    pub fn without_codec(mut self) -> Self {
        self.codec = None;
        self
    }

    /// Whether hashes are coded as differences and sizes as lengths of runs; if not, the codec gets these columns as they are. Together
    /// with [`BufferTreeOptions::without_codec`], no is the paper's BT, the buffer tree without compression.
    pub fn column_codes(mut self, are_coded: bool) -> Self {
        self.codes_columns = are_coded;
        self
    }

    /// How keys are hashed, so that trees that were built apart are in the same order.
    pub fn hasher(mut self, hasher: KeyHasher) -> Self {
        self.hasher = Some(hasher);
        self
    }

    /// A clock that threads read before and after each of their tasks, in any unit: what tasks of each kind took is then among the
    /// [`stats`](super::BufferTree::stats). With the time that the calling thread had a processor, they are the paper's figure 8. Default
    /// none.
    pub fn clock(mut self, clock: fn() -> u64) -> Self {
        self.clock = Some(clock);
        self
    }

    pub(super) fn chosen_clock(&self) -> Option<fn() -> u64> {
        self.clock
    }

    pub(super) fn chosen_hasher(&self) -> Option<KeyHasher> {
        self.hasher
    }

    /// The knobs, and what compresses.
    pub(super) fn into_parts(self) -> Result<(Knobs, Compressor)> {
        let knobs = self.knobs;
        within("buffer_bytes", knobs.buffer_bytes, BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)?;
        within("the most children of a node", knobs.children_max, 2, FAN_OUT_MAX)?;
        within("the least children of a node", knobs.children_min, 1, knobs.children_max.div_ceil(2))?;
        within("root_buffers", knobs.root_buffers, 1, ROOT_BUFFERS_MAX)?;
        within("trees", knobs.trees, 1, TREES_MAX)?;
        within("workers", knobs.workers, 0, WORKERS_MAX)?;
        Ok((knobs, Compressor { codec: self.codec, codes_columns: self.codes_columns }))
    }
}

fn within(name: &'static str, value: usize, least: usize, most: usize) -> Result<()> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => invalid(name, value, format!("choose {least} to {most}")),
    }
}

#[cfg(feature = "lz4")]
fn usual_codec() -> Option<Box<dyn Codec>> {
    Some(Box::new(super::codec::Lz4Codec))
}

#[cfg(all(feature = "zstd", not(feature = "lz4")))]
fn usual_codec() -> Option<Box<dyn Codec>> {
    Some(Box::<super::codec::ZstdCodec>::default())
}

#[cfg(not(any(feature = "zstd", feature = "lz4")))]
fn usual_codec() -> Option<Box<dyn Codec>> {
    None
}
