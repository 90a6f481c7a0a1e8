//! The picture of a stream in one pass.
pub mod pipeline;
