//! The targets: one file each, named as the target.

use crate::Target;

pub mod block_codecs;
pub mod cascade_image;
pub mod count_min;
pub mod ddsketch;
pub mod dictionary_image;
pub mod elias_fano;
pub mod filter_block;
pub mod frequency_image;
pub mod hash_rank;
pub mod hyperloglog;
pub mod ingest;
pub mod memory_device;
pub mod planted;
pub mod profile_state;
pub mod quotient_filter;
pub mod radix_sort;
pub mod sealed_block;
pub mod space_saving;
pub mod sparse_tries;
pub mod store_image;

/// Every target but [`planted`], which exists to crash.
pub const ALL: &[&Target] = &[
    &block_codecs::TARGET,
    &cascade_image::TARGET,
    &count_min::TARGET,
    &ddsketch::TARGET,
    &dictionary_image::TARGET,
    &elias_fano::TARGET,
    &filter_block::TARGET,
    &frequency_image::TARGET,
    &hash_rank::TARGET,
    &hyperloglog::TARGET,
    &ingest::TARGET,
    &memory_device::TARGET,
    &profile_state::TARGET,
    &quotient_filter::TARGET,
    &radix_sort::TARGET,
    &sealed_block::TARGET,
    &space_saving::TARGET,
    &sparse_tries::TARGET,
    &store_image::TARGET,
];

/// The decoders of summaries under the sketches' header.
#[cfg(test)]
pub(crate) const SKETCHES: &[&Target] = &[
    &count_min::TARGET,
    &ddsketch::TARGET,
    &hash_rank::TARGET,
    &hyperloglog::TARGET,
    &quotient_filter::TARGET,
    &space_saving::TARGET,
];
