//! The paper's: the published compressed buffer tree, with its knobs.

use super::job::Counter;
use super::workload::Workload;
use crate::{Metric, Result, thread_cpu_ns};
use overbank::aggregate::{BufferTree, BufferTreeOptions, Count, ZstdCodec};

/// What fragments are compressed by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    /// Not at all: the paper's BT.
    None,
    /// LZ4 over everything, hashes and sizes, too.
    General,
    /// Hashes as differences, sizes as runs, LZ4 over the rest: the paper's CBT.
    Columns,
    /// As `Columns`, by Zstandard at level 1.
    Zstd,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Knobs {
    pub(super) compression: Compression,
    pub(super) buffer_bytes: usize,
    pub(super) fan_out: usize,
    pub(super) root_buffers: usize,
    pub(super) trees: usize,
    pub(super) workers: usize,
}

impl Knobs {
    /// The paper's for 100 M records: buffers of 30 MB, 64 children; for fewer records, buffers are as much smaller. A worker a core.
    pub(super) fn of(workload: Workload, compression: Compression) -> Self {
        let buffer_bytes = (workload.records as usize * 3 / 10).max(1 << 10);
        Self { compression, buffer_bytes, fan_out: 64, root_buffers: 4, trees: 1, workers: 2 }
    }
}

pub(super) struct OfTree(BufferTree<Count>);

impl OfTree {
    pub(super) fn new(knobs: Knobs) -> Result<Self> {
        let options = BufferTreeOptions::new()
            .buffer_bytes(knobs.buffer_bytes)
            .fan_out(knobs.fan_out / 2, knobs.fan_out)
            .root_buffers(knobs.root_buffers)
            .trees(knobs.trees)
            .workers(knobs.workers)
            .clock(thread_cpu_ns);
        let options = match knobs.compression {
            Compression::None => options.without_codec().column_codes(false),
            Compression::General => options.column_codes(false),
            Compression::Columns => options,
            Compression::Zstd => options.codec(ZstdCodec::default()),
        };
        Ok(Self(BufferTree::new(Count, options)?))
    }
}

impl Counter for OfTree {
    fn insert(&self, keys: &[&[u8]]) -> Result<()> {
        Ok(self.0.insert_many(keys, &[])?)
    }

    fn finalize(&self) -> Result<()> {
        Ok(self.0.finalize()?)
    }

    fn breakdown(&self) -> Vec<(Metric, u64)> {
        let stats = self.0.stats();
        vec![
            (Metric::SortNs, stats.sort_time),
            (Metric::DecompressNs, stats.decompress_time),
            (Metric::MergeNs, stats.merge_time),
            (Metric::DivideNs, stats.divide_time),
            (Metric::CompressNs, stats.compress_time),
        ]
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], u64)) -> Result<()> {
        let mut scan = self.0.scan()?;
        while let Some(group) = scan.next_group()? {
            visit(&group.key, group.words[0]);
        }
        Ok(())
    }
}
