//! Integers in few bits: packed arrays, unary, Elias-Fano, block codecs.
//!
//! ```text
//!   PackedArray   one width for all          random access            low bits of Elias-Fano
//!   BitWriter     mixed widths and unary     from the front only      counts of runs
//!   EliasFano     monotone sequence          access and search        block indexes of segments
//!   blocks        128 values at a time       decode a block at once   columns of segments
//!   varint        seven bits a byte          from the front only      lengths and counts of entries
//! ```
//!
//! Invariants:
//! 1. Byte forms are little-endian, fields least significant bit first, padding zero and verified.
//! 2. A decoder compares the length it expects with the length it has before it allocates, and answers bytes
//!    that no encoder wrote with `Corrupt`. It never panics on them.
//! 3. Unsafe code stands only in the files per instruction set (`equal/`, `select/`, `stream/`, `prefetch/`), each with a scalar
//!    twin of the same shape.

mod bit_stream;
mod blocks;
mod elias_fano;
pub(crate) mod equal;
pub(crate) mod fields;
mod packed;
pub(crate) mod prefetch;
mod select;
pub(crate) mod stream;
pub(crate) mod varint;
pub(crate) mod word;

pub use bit_stream::{BitReader, BitWriter};
pub use blocks::{BLOCK_VALUES, decode_deltas, encode_deltas};
#[cfg(feature = "internals")]
pub use blocks::{decode_block, encode_block};
pub use elias_fano::{EliasFano, EliasFanoBuilder};
#[cfg(feature = "internals")]
pub use packed::PackedArray;
pub use select::{pass_zeros, select_as_many, select_in_word};
