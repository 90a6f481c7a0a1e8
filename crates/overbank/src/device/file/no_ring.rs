//! In the place of `ring.rs` where there is no io_uring: on other systems and architectures, and without the feature `io_uring`.

use super::reads::{Begun, Reads};
use crate::Result;

/// There is none.
#[derive(Debug)]
pub(super) enum RingPool {}

impl RingPool {
    /// Says why there is none.
    pub(super) fn open() -> std::io::Result<Self> {
        let why = "it is for 64-bit Linux, built with the feature `io_uring`";
        Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why))
    }

    pub(super) fn read_many(
        &self,
        _: &Reads<'_>,
        _: usize,
        _: usize,
        _: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<Begun> {
        match *self {}
    }
}
