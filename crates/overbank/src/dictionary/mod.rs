//! The record of a key: exact keys and values beyond RAM, in hash order on flash.

mod item;
mod rank;

pub use rank::{HashRank, HashRankBuilder, HashRankOptions};
