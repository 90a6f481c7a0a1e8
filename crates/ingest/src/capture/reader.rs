//! Captures as chunks of whole packets.

use super::packet::{Fault, Packet, Placed, Walked};
use super::pcap::{self, Pcap};
use super::pcapng::{self, Pcapng};
use crate::inputs;
use crate::stream::{Opened, Stream};
use crate::{Error, Options, Result, SystemWaiter, Waiter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What captures to read and how. The fields are public; [`CaptureOptions::new`] has the defaults.
///
/// # Cost
/// A reader takes what a decoder's window takes (as [`crate::Options`]), and each chunk the larger of `chunk_bytes` and
/// `packet_bytes_max`, and 24 bytes a packet.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Paths, patterns and `-`, as [`crate::Options::inputs`]; none means stdin.
    pub inputs: Vec<PathBuf>,
    /// How many bytes of a capture a chunk holds, more only where one packet is longer. Default 1 MiB.
    pub chunk_bytes: usize,
    /// The most captured bytes that a packet may have; one that says more is [`Error::Damaged`]. Default 1 MiB, four times what
    /// libpcap takes for networks.
    pub packet_bytes_max: usize,
    /// As [`crate::Options::window_bytes_max`].
    pub window_bytes_max: usize,
    /// With live inputs (pipes, terminals), a chunk comes at the latest so long after it was asked for, with the packets that came;
    /// it may be empty. By default, and from regular files, packets wait until a chunk is full.
    pub pause: Option<Duration>,
    /// The clock, and what may call the reader away from an input that it waits for.
    pub waiter: Arc<dyn Waiter>,
}

impl CaptureOptions {
    /// Options for `inputs` with everything else at its default.
    pub fn new<I>(inputs: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<PathBuf>,
    {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            chunk_bytes: 1 << 20,
            packet_bytes_max: 1 << 20,
            window_bytes_max: 128 << 20,
            pause: None,
            waiter: Arc::new(SystemWaiter::default()),
        }
    }

    /// Those of the streams below; a packet is their record.
    fn of_streams(&self) -> Result<Options> {
        let mut options = Options::new(self.inputs.iter());
        (options.chunk_bytes, options.window_bytes_max) = (self.chunk_bytes, self.window_bytes_max);
        options.waiter = Arc::clone(&self.waiter);
        options.validate()?;
        if !(1..=PACKET_BYTES_MAX).contains(&self.packet_bytes_max) {
            return Err(Error::InvalidOption {
                name: "packet_bytes_max",
                value: self.packet_bytes_max.to_string(),
                why: format!("it must be between 1 and {PACKET_BYTES_MAX} bytes"),
            });
        }
        Ok(options)
    }
}

/// No link has longer ones.
const PACKET_BYTES_MAX: usize = 128 << 20;

/// Whole packets of one input, in the order of the capture. Meant to be filled again: that allocates nothing once it has grown.
#[derive(Debug, Default)]
pub struct PacketChunk {
    sequence: u64,
    input: Option<Arc<Path>>,
    /// Initialised to its length: reading into it then costs no zeroing.
    bytes: Vec<u8>,
    packets: Vec<Placed>,
}

impl PacketChunk {
    /// An empty chunk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its number in the stream, from 0. What depends on the order of packets takes chunks in this one.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The input's path, `-` for stdin; `None` before it was filled.
    pub fn input(&self) -> Option<&Path> {
        self.input.as_deref()
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        self.packets.iter().map(|packet| packet.of(&self.bytes))
    }
}

/// Reads pcap and pcapng, of either byte order, plain or compressed as other inputs are, from files, pipes and stdin.
///
/// Which it is, the first bytes tell. Chunks depend on inputs and options only; with live inputs and
/// [`CaptureOptions::pause`], on time too.
///
/// # Cost
/// Some 25 ns a packet of 60 bytes from pcap and 40 from pcapng on one core, the copy from the kernel included. Memory as
/// [`CaptureOptions`] says, and 64 bytes an interface of pcapng, of which a section has at most 65,536.
///
/// ```no_run
/// use overbank_ingest::capture::{CaptureOptions, CaptureReader, PacketChunk};
/// let mut reader = CaptureReader::open(CaptureOptions::new(["trace.pcap.zst"]))?;
/// let mut chunk = PacketChunk::new();
/// let mut bytes = 0;
/// while reader.next_chunk(&mut chunk)? {
///     bytes += chunk.packets().map(|packet| u64::from(packet.wire_bytes)).sum::<u64>();
/// }
/// # Ok::<(), overbank_ingest::Error>(())
/// ```
pub struct CaptureReader {
    options: CaptureOptions,
    stream_options: Options,
    inputs: Vec<Arc<Path>>,
    next_input: usize,
    current: Option<Current>,
    sequence: u64,
    bytes_read: Arc<AtomicU64>,
}

/// The input being read.
struct Current {
    path: Arc<Path>,
    stream: Stream,
    format: Option<Container>,
    /// What was read and not walked over: less than a packet, or a whole buffer after a read that was called away.
    carried: Vec<u8>,
    /// How many bytes there must be for the walk to go on.
    needed: usize,
    /// The place of the next byte to be walked over in the decompressed input.
    at: u64,
    packets: u64,
    /// What is wrong behind the packets that were given.
    failure: Option<Error>,
    has_ended: bool,
}

/// The formats of captures.
enum Container {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl CaptureReader {
    /// Expands the inputs and gets ready to read the first.
    ///
    /// # Errors
    /// An option out of range, a pattern without a match, a directory, a file that cannot be opened.
    pub fn open(options: CaptureOptions) -> Result<Self> {
        let stream_options = options.of_streams()?;
        let inputs = inputs::expand(&options.inputs)?;
        let (next_input, current, sequence) = (0, None, 0);
        Ok(Self {
            options,
            stream_options,
            inputs,
            next_input,
            current,
            sequence,
            bytes_read: Arc::default(),
        })
    }

    /// Fills `chunk` with the next packets; `false`, with an empty chunk, at the end of the last input.
    ///
    /// # Errors
    /// An input that cannot be read, is damaged, cut short or no capture: after all whole packets before that place were given. The next
    /// call goes on with the next input; after [`Error::Interrupted`], with the same.
    pub fn next_chunk(&mut self, chunk: &mut PacketChunk) -> Result<bool> {
        chunk.packets.clear();
        loop {
            let Some(current) = &mut self.current else {
                let Some(path) = self.inputs.get(self.next_input) else { return Ok(false) };
                match Current::open(path, &self.bytes_read, &self.stream_options) {
                    Err(called @ Error::Interrupted { .. }) => return Err(called),
                    outcome => {
                        self.next_input += 1;
                        self.current = Some(outcome?);
                    }
                }
                continue;
            };
            if let Some(failure) = current.failure.take() {
                self.current = None;
                return Err(failure);
            }
            if current.has_ended {
                self.current = None;
                continue;
            }
            let is_time = current.fill(chunk, &self.options)?;
            if is_time || !chunk.is_empty() {
                (chunk.sequence, chunk.input) = (self.sequence, Some(Arc::clone(&current.path)));
                self.sequence += 1;
                return Ok(true);
            }
        }
    }

    /// Bytes of the inputs read so far, as they stand on disk: compressed, where they are.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The size of all inputs, where all are regular files.
    pub fn total_bytes(&self) -> Option<u64> {
        inputs::total_bytes(&self.inputs)
    }
}

impl Current {
    fn open(path: &Arc<Path>, bytes_read: &Arc<AtomicU64>, options: &Options) -> Result<Self> {
        let stream = Opened::open(path, bytes_read, &options.waiter)?.decompress(options)?;
        Ok(Self {
            path: Arc::clone(path),
            stream,
            format: None,
            carried: Vec::new(),
            needed: 0,
            at: 0,
            packets: 0,
            failure: None,
            has_ended: false,
        })
    }

    /// Reads a buffer and finds its packets. Whether the wait for more was given up, so that there may be none.
    fn fill(&mut self, chunk: &mut PacketChunk, options: &CaptureOptions) -> Result<bool> {
        let pause = options.pause.filter(|_| self.stream.is_live());
        let until = pause.and_then(|pause| options.waiter.now().checked_add(pause));
        let target = options.chunk_bytes.max(self.needed).max(self.carried.len());
        if chunk.bytes.len() < target {
            chunk.bytes.resize(target, 0);
        }
        let mut filled = self.carried.len();
        chunk.bytes[..filled].copy_from_slice(&self.carried);
        let mut is_time = false;
        while filled < target {
            let into = &mut chunk.bytes[filled..target];
            let read = match until {
                None => self.stream.read(into).map(Some),
                Some(_) => self.stream.read_until(into, until),
            };
            match read {
                Ok(None) => {
                    is_time = true;
                    break;
                }
                Ok(Some(0)) => {
                    self.has_ended = true;
                    break;
                }
                Ok(Some(count)) => filled += count,
                Err(called) => {
                    self.carried.clear();
                    self.carried.extend_from_slice(&chunk.bytes[..filled]);
                    return Err(called);
                }
            }
        }
        let bytes = &chunk.bytes[..filled];
        let walked = self.walk(bytes, options.packet_bytes_max, &mut chunk.packets);
        self.carried.clear();
        self.carried.extend_from_slice(&bytes[walked.consumed..]);
        self.needed = walked.needed;
        self.at += walked.consumed as u64;
        self.packets += chunk.packets.len() as u64;
        self.failure = match walked.fault {
            Some(fault) => Some(self.explain(fault)),
            None if self.has_ended => self.stream.take_failure().or_else(|| self.cut_off()),
            None => None,
        };
        Ok(is_time)
    }

    fn walk(&mut self, bytes: &[u8], packet_bytes_max: usize, packets: &mut Vec<Placed>) -> Walked {
        let (format, start) = match self.format.take() {
            Some(format) => (format, 0),
            None => match Container::open(bytes) {
                Ok(Some(opened)) => opened,
                Ok(None) => return Walked::up_to(0, HEADER_BYTES_MAX),
                Err(fault) => return Walked::failed(0, fault),
            },
        };
        let base = self.at + start as u64;
        let walked = match self.format.insert(format) {
            Container::Pcap(pcap) => pcap.walk(&bytes[start..], base, packet_bytes_max, packets),
            Container::Pcapng(pcapng) => pcapng.walk(&bytes[start..], base, packet_bytes_max, packets),
        };
        if start > 0 {
            packets.iter_mut().for_each(|packet| packet.at += start as u32);
        }
        Walked { consumed: walked.consumed + start, ..walked }
    }

    /// What is wrong with an input that has ended, if anything.
    fn cut_off(&self) -> Option<Error> {
        let there = self.carried.len() as u64;
        let open_block = match &self.format {
            Some(Container::Pcapng(pcapng)) => pcapng.open_block(),
            _ => None,
        };
        let (at, bytes, needed_bytes) = match open_block {
            Some((at, length)) => (at, self.at + there - at, u64::from(length)),
            None if there == 0 && self.format.is_some() => return None,
            None => (self.at, there, self.needed as u64),
        };
        Some(Error::CaptureCutOff {
            path: self.path.to_path_buf(),
            packets: self.packets,
            at,
            bytes,
            needed_bytes,
        })
    }

    fn explain(&self, fault: Fault) -> Error {
        let path = self.path.to_path_buf();
        let what = match self.format {
            Some(Container::Pcapng(_)) => "pcapng",
            _ => "pcap",
        };
        match fault {
            Fault::Damaged { at, why } => Error::Damaged { path, what, at, why },
            Fault::Unsupported { what } => Error::Unsupported { path, what },
            Fault::NotACapture { head } => Error::NotACapture { path, head },
        }
    }
}

/// Of the formats' first headers, the longest.
const HEADER_BYTES_MAX: usize = 24;

impl Container {
    /// What begins with `bytes`, and how long its header is; `None` where they are too few to tell.
    fn open(bytes: &[u8]) -> std::result::Result<Option<(Self, usize)>, Fault> {
        let Some(&head) = bytes.first_chunk::<4>() else { return Ok(None) };
        if head == pcapng::SECTION.to_be_bytes() {
            return Ok(Some((Self::Pcapng(Pcapng::new()), 0)));
        }
        let Some(endian) = pcap::endian(head) else { return Err(Fault::NotACapture { head }) };
        let opened = Pcap::open(endian, bytes)?;
        Ok(opened.map(|(pcap, header)| (Self::Pcap(pcap), header)))
    }
}
