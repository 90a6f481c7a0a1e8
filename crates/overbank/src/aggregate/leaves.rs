//! All leaves, and what they have in common.

use super::leaf::{Ground, Leaf};
use super::options::Shares;
use super::state::Aggregate;
use std::sync::{Arc, Mutex};

/// All leaves, in the order of their hashes.
#[derive(Debug)]
pub(super) struct Leaves<A> {
    pub(super) ground: Arc<Ground<A>>,
    pub(super) shares: Shares,
    pub(super) all: Vec<Mutex<Leaf>>,
}

impl<A: Aggregate> Leaves<A> {
    pub(super) fn new(ground: Ground<A>, shares: Shares) -> Self {
        let all = (0..1 << shares.lg_leaves).map(|_| Mutex::new(Leaf::new())).collect();
        Leaves { ground: Arc::new(ground), shares, all }
    }
}
