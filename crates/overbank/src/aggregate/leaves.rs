//! All leaves, and what they have in common.

use super::leaf::{Ground, Leaf};
use super::options::Shares;
use super::scratches::Scratches;
use super::state::Aggregate;
use std::sync::{Arc, Mutex};

/// All leaves, in the order of their hashes.
#[derive(Debug)]
pub(super) struct Leaves<A> {
    pub(super) ground: Arc<Ground<A>>,
    pub(super) shares: Shares,
    pub(super) all: Vec<Mutex<Leaf>>,
    /// Behind the locks of leaves.
    pub(super) scratches: Scratches,
}

impl<A: Aggregate> Leaves<A> {
    pub(super) fn new(ground: Ground<A>, shares: Shares) -> Self {
        let all = (0..1 << shares.lg_leaves).map(|_| Mutex::new(Leaf::new())).collect();
        let scratches = Scratches::new(ground.shape(), shares.scratches);
        Leaves { ground: Arc::new(ground), shares, all, scratches }
    }
}
