//! Captures of packets as flow keys: pcap and pcapng in, batches of five-tuples with lengths and times out.
//!
//! ```text
//! files, pipes, stdin                              any number of threads
//!   │                                                ┌──▶ FlowDecoder::decode ──▶ FlowBatch ─┐   in order of
//!   └─▶ CaptureReader: decompress, ──▶ PacketChunk ──┼──▶ FlowDecoder::decode ──▶ FlowBatch ─┼─▶ PacketChunk::sequence:
//!         find packets (one thread)                  └──▶ FlowDecoder::decode ──▶ FlowBatch ─┘   Fragments::resolve
//! ```
//!
//! 1. Chunks, their packets and the packets' flows depend on inputs and options only, not on threads or time.
//! 2. No bytes make a panic, or take more memory than [`CaptureOptions`] says: lengths are compared before they are used, and what need not
//!    be in memory is passed over.
//! 3. All whole packets before a damaged place, or the end of a capture that was cut off, are given before the error that names it.
//!
//! The crates for this were measured and left: `etherparse` has no SCTP, MPLS, loopback, PPP or tunnels and takes twice the time;
//! `pcap-parser` holds each block whole, however long, skips obsolete packets, and does not tell why a read failed.
//!
//! ```
//! use overbank_ingest::capture::{CaptureOptions, CaptureReader, FlowBatch, FlowDecoder, FlowKind, Fragments, PacketChunk};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/captures/ntp.pcap");
//! let mut reader = CaptureReader::open(CaptureOptions::new([path]))?;
//! let (decoder, mut fragments) = (FlowDecoder::default(), Fragments::default());
//! let (mut chunk, mut batch) = (PacketChunk::new(), FlowBatch::new());
//! while reader.next_chunk(&mut chunk)? {
//!     decoder.decode(&chunk, &mut batch);
//!     fragments.resolve(&mut batch);
//!     for packet in batch.packets() {
//!         let pair = packet.key.project(FlowKind::SOURCE_DESTINATION).expect("a five-tuple has both");
//!         println!("{pair}: {} bytes", packet.wire_bytes);
//!     }
//! }
//! # Ok::<(), overbank_ingest::Error>(())
//! ```

mod flow;
mod flow_text;
mod flows;
mod fragments;
mod headers;
mod ip;
mod link;
mod packet;
mod pcap;
mod pcapng;
mod reader;
mod tunnel;

pub use flow::{FlowKey, FlowKind};
pub use flows::{FlowBatch, FlowDecoder, FlowPacket, PacketCounts};
pub use fragments::Fragments;
pub use link::LinkType;
pub use packet::Packet;
pub use reader::{CaptureOptions, CaptureReader, PacketChunk};
