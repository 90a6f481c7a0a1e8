//! Captures as packets to be counted: read by one thread, dealt in pieces, cut where epochs end.

use super::crew::{Crew, Turn, end_epoch};
use super::desk::{Desk, Lectern};
use super::epochs::Epochs;
use super::pace::Pace;
use super::shape::Shape;
use crate::announce;
use crate::arguments::MonitorArguments;
use crate::commands::losses;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::report::{Ended, Span};
use crate::{closed, units};
use overbank_ingest::Error;
use overbank_ingest::capture::{CaptureOptions, CaptureReader, PacketChunk};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// A pipe's packets are counted so soon after they came.
const PAUSE: Duration = Duration::from_millis(100);
/// With a pace, packets that are due so soon after each other are counted together.
const PIECE: Duration = Duration::from_millis(1);
/// Rounds in which threads are asked for what a full ring kept back.
const DRAINS: usize = 1000;

/// What the thread that reads tells.
pub(super) enum Event {
    /// The epoch of this number is over; whoever is told goes on when it is answered.
    Over { epoch: u64, span: Option<Span>, ended: Ended, answer: SyncSender<()> },
    /// There is no more to come.
    Finished(Result<Finished, Failure>),
}

/// How the captures ended.
pub(super) struct Finished {
    /// Inputs that could not be read to their end.
    pub(super) failures: Vec<Failure>,
    pub(super) was_interrupted: bool,
}

/// The captures, before they are read.
pub(super) fn open(
    arguments: &MonitorArguments,
    shape: &Shape,
    interrupt: &Interrupt,
) -> Result<CaptureReader, Failure> {
    if arguments.pcap.iter().any(|input| input == Path::new("-")) && closed::input_was() {
        return Err(Failure::NoInput);
    }
    let mut options = CaptureOptions::new(arguments.pcap.iter());
    options.chunk_bytes = shape.chunk_bytes();
    options.packet_bytes_max = shape.packet_bytes_max();
    options.window_bytes_max = shape.window_bytes_max();
    options.pause = Some(PAUSE);
    options.waiter = Arc::new(interrupt.waiter()?);
    Ok(CaptureReader::open(options)?)
}

/// The thread that reads.
pub(super) struct Feeder<'a> {
    pub(super) crew: &'a Crew,
    pub(super) desk: &'a Desk,
    pub(super) interrupt: &'a Interrupt,
    pub(super) turns: Sender<Turn>,
    pub(super) events: Sender<Event>,
    pub(super) epochs: Epochs,
    pub(super) pace: Pace,
    pub(super) goes_on: bool,
}

/// Whoever was told of an epoch's end does not answer: there is nobody to read for.
struct Deserted;

impl Feeder<'_> {
    /// Reads to the end, and says so.
    pub(super) fn feed(mut self, reader: CaptureReader) {
        let _lectern = Lectern(self.desk);
        let finished = match self.read(reader) {
            Ok(Some(finished)) => Ok(finished),
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        // Nobody waits for the end who does not listen.
        let _ = self.events.send(Event::Finished(finished));
    }

    /// `None` if nobody listens any more.
    fn read(&mut self, mut reader: CaptureReader) -> Result<Option<Finished>, Failure> {
        let mut failures = Vec::new();
        let was_interrupted = loop {
            if self.interrupt.is_raised() {
                break true;
            }
            let mut chunk = self.desk.chunk()?;
            match reader.next_chunk(&mut chunk) {
                Ok(true) => {
                    announce::at("chunk");
                    if self.deal(chunk)?.is_err() {
                        return Ok(None);
                    }
                }
                Ok(false) => break false,
                Err(Error::Interrupted { .. }) => break true,
                Err(error) => {
                    self.desk.give_back(chunk);
                    failures.push(self.explain(error));
                    if !self.goes_on {
                        break false;
                    }
                }
            }
        };
        let ended = if was_interrupted { Ended::ByUser } else { Ended::ByInput };
        Ok(self.end_epoch(ended)?.is_ok().then_some(Finished { failures, was_interrupted }))
    }

    /// Deals a chunk's packets, an epoch after the other, each when it is due.
    fn deal(&mut self, chunk: PacketChunk) -> Result<Result<(), Deserted>, Failure> {
        if chunk.is_empty() {
            self.desk.give_back(chunk);
            return Ok(Ok(()));
        }
        self.pace.enter(chunk.input());
        let chunk = Arc::new(chunk);
        let dealt = self.deal_each(&chunk);
        self.desk.let_go(chunk);
        dealt
    }

    fn deal_each(&mut self, chunk: &Arc<PacketChunk>) -> Result<Result<(), Deserted>, Failure> {
        let (mut from, mut now) = (0, Instant::now());
        for (at, packet) in chunk.packets().enumerate() {
            while let Some(left) = self.pace.until(packet.time_ns, now) {
                if self.interrupt.is_raised() {
                    self.desk.deal(chunk, from..at);
                    return Ok(Ok(()));
                }
                if left > PIECE {
                    self.desk.deal(chunk, from..at);
                    self.note_span();
                    from = at;
                }
                self.pace.wait(left);
                now = Instant::now();
            }
            if !self.epochs.take(packet.time_ns) {
                self.desk.deal(chunk, from..at);
                from = at;
                if self.end_epoch(Ended::ByTime)?.is_err() {
                    return Ok(Err(Deserted));
                }
                self.epochs.take(packet.time_ns);
            }
        }
        self.desk.deal(chunk, from..chunk.len());
        self.note_span();
        Ok(Ok(()))
    }

    /// Ends the epoch when all that was dealt is counted and every flow that can be is known by name.
    fn end_epoch(&mut self, ended: Ended) -> Result<Result<(), Deserted>, Failure> {
        self.desk.settle()?;
        for _ in 0..DRAINS {
            let before = self.crew.readings().messages;
            self.desk.turn()?;
            if self.crew.drained().messages == before {
                break;
            }
        }
        let (epoch, span) = (self.crew.epoch(), self.epochs.span(ended == Ended::ByTime));
        if !end_epoch(&self.turns) {
            return Ok(Err(Deserted));
        }
        self.epochs.end();
        self.crew.note_span(None);
        let (answer, answered) = sync_channel(1);
        let told = self.events.send(Event::Over { epoch, span, ended, answer });
        Ok(told.map_err(drop).and_then(|()| answered.recv().map_err(drop)).map_err(|()| Deserted))
    }

    fn note_span(&self) {
        self.crew.note_span(self.epochs.span(false));
    }

    /// An error of the reader in the words of the command line.
    fn explain(&self, error: Error) -> Failure {
        let memory = self.crew.shape.memory_bytes;
        match error {
            Error::WindowTooLarge { path, compression, bytes, limit_bytes } => Failure::Usage(format!(
                "{} ({compression}) needs a window of {} to be decompressed, and --memory {} has room for {}; give --memory {}, or \
                 recompress it with a smaller window",
                losses::shown_input(&path),
                bytes.map_or_else(|| "unknown size".to_owned(), units::bytes),
                units::bytes(memory),
                units::bytes(limit_bytes as u64),
                units::bytes(Shape::memory_for_window(bytes.unwrap_or(2 * limit_bytes as u64))),
            )),
            error => error.into(),
        }
    }
}
