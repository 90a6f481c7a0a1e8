//! Integers in few bits: packed arrays, unary, Elias-Fano, block codecs.
