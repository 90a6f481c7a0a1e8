//! Readers of streams: bytes of files and pipes in, batches of hashed keys out.
//!
//! ```text
//! paths, patterns, stdin                         any number of threads
//!   │                                              ┌──▶ Parser::parse ──▶ Batch ─┐
//!   └─▶ Reader: open, decompress, cut ──▶ Chunk ───┼──▶ Parser::parse ──▶ Batch ─┼─▶ in order of Chunk::sequence
//!         (one thread)                             └──▶ Parser::parse ──▶ Batch ─┘
//! ```
//!
//! 1. Chunks, their order, their rows and their positions depend on inputs and options only, not on threads or time.
//! 2. Every byte of an input is in exactly one chunk, or behind an error; a row is in exactly one batch: with its key, or counted as
//!    malformed or as without a key. Where sequences come in pieces ([`Options::sequence_overlap`]), pieces are the rows.
//! 3. [`Reader::resume`] from the [`Position`] of a chunk gives what followed that chunk.
//! 4. Memory is bounded by [`Options`], whatever the input holds.
//!
//! ```
//! use keyhash::{HashKind, KeyHasher, Seed};
//! use overbank_ingest::{Batch, Delimiter, Format, Options, Parser, Reader};
//!
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(file.path(), "GET /\nGET /about\nGET /\n")?;
//! # let path = file.path();
//! let mut options = Options::new([path]);
//! options.format = Format::Delimited(Delimiter::Whitespace);
//! options.keys = vec!["2".into()];
//! let mut reader = Reader::open(options.clone())?;
//! let parser = Parser::new(&options, KeyHasher::new(HashKind::Xxh3, Seed(1)));
//! let mut batch = Batch::new();
//! while let Some(chunk) = reader.next_chunk()? {
//!     parser.parse(chunk, &mut batch)?;
//!     assert_eq!(batch.keys().collect::<Vec<_>>(), [&b"/"[..], b"/about", b"/"]);
//!     assert_eq!(batch.hashes()[0], batch.hashes()[2]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod boundary;
pub mod capture;
mod cell;
mod chunk;
mod csv;
mod decoder;
mod delimited;
mod error;
mod fasta;
mod inputs;
mod json;
mod key;
pub mod key_text;
mod layout;
mod lengths;
mod options;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;
mod parser;
mod path_tree;
mod pattern;
mod piece;
mod position;
mod raw;
mod reader;
mod rows;
mod stream;
mod system;
mod text;
mod wait;

pub use batch::{BadRow, Batch, Column, Fault, Texts};
pub use cell::ColumnType;
pub use chunk::Chunk;
pub use error::{Error, Result};
pub use key::{KeyForm, join_key};
pub use options::{ColumnOption, Delimiter, Format, Missing, Options, Payload};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetWriter, is_panic_caught};
pub use parser::Parser;
pub use position::Position;
#[cfg(feature = "parquet")]
pub use reader::parquet_inputs;
pub use reader::{Progress, Reader};
pub use system::InputHandle;
pub use wait::{SystemWaiter, Waiter, Wake};
