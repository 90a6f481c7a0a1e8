//! Integers in few bits: packed arrays, unary, Elias-Fano, block codecs.

pub(crate) mod stream;
