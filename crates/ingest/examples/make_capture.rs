//! Writes a capture of made-up traffic, the same for the same arguments, for whatever is to be tried on one:
//! `cargo run --release -p overbank-ingest --example make_capture -- OUT.pcap PACKETS [FLOWS [SKEW [SEED]]]`.
//!
//! The i-th heaviest of FLOWS flows (default 100,000) has a share of the packets like i to the power of -SKEW (default 1.1). Packets are
//! a microsecond apart, IPv4 and IPv6, TCP and UDP, tagged here and there; what is captured of each are its headers, and on the wire it
//! had 64 to 1518 bytes. A name that ends in `.pcapng` makes it that format, with times in nanoseconds as in the other.

#[path = "../tests/naive/packets.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod packets;

use packets::{Container, Form, Writer, capture, traffic};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::str::FromStr;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, count, ..] = &arguments[..] else {
        return Err("give at least: OUT.pcap PACKETS [FLOWS [SKEW [SEED]]]".into());
    };
    let flows = or_else(&arguments, 2, 100_000)?;
    let (skew, seed) = (or_else(&arguments, 3, 1.1)?, or_else(&arguments, 4, 1)?);
    let container = match path.ends_with(".pcapng") {
        true => Container::Pcapng { block: 6, is_noisy: false },
        false => Container::Nanoseconds,
    };
    let mut out = BufWriter::new(File::create(path)?);
    // What stands before the first packet.
    let form = Form { is_big_endian: false, container };
    if container == Container::Nanoseconds {
        out.write_all(&capture(form, &[]).0)?;
    } else {
        let mut writer = Writer::new(false);
        writer.section();
        writer.interface(1);
        out.write_all(&writer.bytes)?;
    }
    for packet in traffic(seed, count.parse()?, flows, skew) {
        let mut writer = Writer::new(false);
        if container == Container::Nanoseconds {
            writer.pcap_packet(&packet, 1);
            writer.bytes.extend(&packet.data);
        } else {
            writer.packet_block(6, 0, packet.time_ns, &packet);
        }
        out.write_all(&writer.bytes)?;
    }
    Ok(out.flush()?)
}

/// The argument at this place, if it is given.
fn or_else<T: FromStr>(arguments: &[String], at: usize, otherwise: T) -> Result<T, T::Err> {
    arguments.get(at).map_or(Ok(otherwise), |argument| argument.parse())
}
