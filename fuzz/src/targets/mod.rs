//! The targets: one file each, named as the target.

use crate::Target;
use tempfile::NamedTempFile;

pub mod aggregate_image;
pub mod aggregate_tail;
pub mod block_codecs;
pub mod captures;
pub mod cascade_image;
pub mod coco;
pub mod count_min;
pub mod count_sketch;
pub mod ddsketch;
pub mod dictionary_image;
pub mod elastic;
pub mod elias_fano;
pub mod filter_block;
pub mod foreign_hll;
pub mod frequency_image;
pub mod hash_rank;
pub mod hyperloglog;
pub mod ingest;
pub mod locher;
pub mod log_log;
pub mod memory_device;
pub mod planted;
pub mod profile_state;
pub mod quotient_filter;
pub mod radix_sort;
pub mod sealed_block;
pub mod space_saving;
pub mod sparse_tries;
pub mod store_image;
pub mod univ_mon;

/// Every target but [`planted`], which exists to crash.
pub const ALL: &[&Target] = &[
    &aggregate_image::TARGET,
    &aggregate_tail::TARGET,
    &block_codecs::TARGET,
    &captures::TARGET,
    &cascade_image::TARGET,
    &coco::TARGET,
    &count_min::TARGET,
    &count_sketch::TARGET,
    &ddsketch::TARGET,
    &dictionary_image::TARGET,
    &elastic::TARGET,
    &elias_fano::TARGET,
    &filter_block::TARGET,
    &foreign_hll::TARGET,
    &frequency_image::TARGET,
    &hash_rank::TARGET,
    &hyperloglog::TARGET,
    &ingest::TARGET,
    &locher::TARGET,
    &log_log::TARGET,
    &memory_device::TARGET,
    &profile_state::TARGET,
    &quotient_filter::TARGET,
    &radix_sort::TARGET,
    &sealed_block::TARGET,
    &space_saving::TARGET,
    &sparse_tries::TARGET,
    &store_image::TARGET,
    &univ_mon::TARGET,
];

/// The decoders of summaries under the sketches' header.
#[cfg(test)]
pub(crate) const SKETCHES: &[&Target] = &[
    &coco::TARGET,
    &count_min::TARGET,
    &count_sketch::TARGET,
    &ddsketch::TARGET,
    &elastic::TARGET,
    &hash_rank::TARGET,
    &hyperloglog::TARGET,
    &locher::TARGET,
    &log_log::TARGET,
    &quotient_filter::TARGET,
    &space_saving::TARGET,
    &univ_mon::TARGET,
];

/// In RAM where there is such a place: a disk's journal takes longer than a pass over the file.
fn file_in_ram() -> NamedTempFile {
    NamedTempFile::new_in("/dev/shm").or_else(|_| NamedTempFile::new()).expect("a temporary file")
}
