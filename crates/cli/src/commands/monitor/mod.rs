//! `overbank monitor`: the packets of captures or of an interface, counted by many threads, with reports of each epoch.
//!
//! ```text
//!   capture: reads, cuts at epochs ──▶ desk ──┐
//!                                             ├─▶ crew: one hand a thread ──▶ gatherer
//!   interface: a socket a thread ─────────────┘             │
//!                                                           ▼ read through
//!   Conductor (this thread): reports ◀──────────────────── survey
//!        └─▶ keep: a store      └─▶ display: JSON lines, pages, the full-screen view
//! ```

mod capture;
mod crew;
mod desk;
mod display;
mod epochs;
mod interface;
mod keep;
mod pace;
mod packet_socket;
mod reports;
mod shape;
mod sketches;
mod survey;
mod tally;
#[cfg(target_os = "linux")]
mod xdp;

use super::stream::default_threads;
use crate::arguments::MonitorArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::report::Ended;
use crate::{process, resident, units};
use capture::{Event, Feeder, Finished};
use crew::{Crew, Hand, Turn, Workers, end_epoch};
use desk::{Desk, Next, Seat};
use display::Display;
use epochs::Epochs;
use interface::Interface;
use keep::Keeper;
use overbank::Seed;
use overbank::store::{Store, StoreOptions};
use overbank_ingest::capture::{CaptureReader, FlowBatch, FlowDecoder};
use pace::Pace;
use packet_socket::PacketSocket;
use reports::{Alarm, Reports};
use shape::Shape;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use survey::About;

/// The epochs of an interface, unless told otherwise.
const EPOCH: Duration = Duration::from_secs(10);
/// How long an interface's threads are left alone at most.
const PATIENCE: Duration = Duration::from_millis(100);
/// More threads than this one gatherer does not serve.
const THREADS_MAX: usize = 128;

pub(crate) fn run(arguments: &MonitorArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let machine = &arguments.machine;
    process::check_memory(machine.memory)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = &arguments.xdp {
        return xdp::run(arguments, name, &interrupt);
    }
    let threads = machine.threads.map_or_else(default_threads, usize::from);
    if threads > THREADS_MAX {
        return Err(Failure::Usage(format!(
            "--threads {threads} is more than one gatherer serves; give at most {THREADS_MAX}"
        )));
    }
    let shape = Shape::new(machine.memory, threads)?;
    let source = match &arguments.iface {
        Some(name) => {
            let interface = Interface::find(name)?;
            let sockets = interface.sockets(threads, shape.ring_bytes(threads)?)?;
            Source::Interface(Box::new(interface), sockets)
        }
        None => Source::Captures(Box::new(capture::open(arguments, &shape, &interrupt)?)),
    };
    let mut options = StoreOptions::new().hash_kind(machine.hash.into());
    if let Some(seed) = machine.seed {
        options = options.seed(Seed(u128::from(seed)));
    }
    let mut keeper = match &arguments.store {
        Some(directory) => Some(Keeper::open(directory, options.clone().threads(0), arguments, &shape)?),
        None => None,
    };
    let hasher = match &keeper {
        Some(keeper) => keeper.store().hasher(),
        None => Store::in_memory(options)?.hasher(),
    };
    let (crew, workers) = Crew::new(shape, threads, hasher, arguments.key, arguments.by)?;
    resident::let_start_up_go();
    let display = Display::open(arguments, &interrupt);
    let (keeper, top) = (keeper.as_mut(), arguments.top);
    let reports = Reports { crew: &crew, keeper, display, top, packets: 0, known: Vec::new(), dropped: 0 };
    let mut conductor = Conductor { arguments, interrupt: &interrupt, reports };
    let finished = match source {
        Source::Captures(reader) => conductor.read(*reader, workers),
        Source::Interface(interface, sockets) => conductor.listen(&interface, sockets, workers),
    };
    let shown = conductor.reports.display.finish();
    let finished = finished?;
    shown?;
    let mut failures = finished.failures;
    let last = failures.pop();
    failures.iter().for_each(Failure::say);
    match last {
        Some(failure) => Err(failure),
        None if finished.was_interrupted && !conductor.reports.display.was_quit => {
            Err(Failure::Interrupted(format!(
                "interrupted after {}, {}",
                units::counted(conductor.reports.packets, "packet"),
                if arguments.store.is_some() {
                    "which are kept"
                } else {
                    "of which nothing is kept without --store"
                }
            )))
        }
        None => Ok(Outcome::Found),
    }
}

/// What packets come from.
enum Source {
    Captures(Box<CaptureReader>),
    Interface(Box<Interface>, Vec<PacketSocket>),
}

/// The thread that makes reports and shows them.
struct Conductor<'a> {
    arguments: &'a MonitorArguments,
    interrupt: &'a Interrupt,
    reports: Reports<'a>,
}

impl Conductor<'_> {
    /// Starts the other threads, and reports until the captures have ended.
    fn read(&mut self, reader: CaptureReader, workers: Workers) -> Result<Finished, Failure> {
        let (crew, arguments, interrupt) = (self.reports.crew, self.arguments, self.interrupt);
        let desk = &Desk::new(crew.threads());
        let (turns, turned) = channel();
        let (events, told) = channel();
        let pace = Pace::new(arguments.rate, interrupt)?;
        let (epochs, goes_on) = (Epochs::new(arguments.epoch), arguments.on_error.is_next());
        let feeder = Feeder { crew, desk, interrupt, turns, events, epochs, pace, goes_on };
        let decoder = FlowDecoder { tunnels: arguments.tunnels };
        std::thread::scope(|scope| {
            // If a thread cannot be started, those that were find nothing to do.
            let lectern = desk::Lectern(desk);
            let hands = workers.hands(crew, true).into_iter();
            let hands = hands.map(|hand| start(scope, "counts", move || count(hand, desk, decoder, crew)));
            let hands = hands.collect::<Result<Vec<_>, Failure>>()?;
            start(scope, "gathers", move || crew.gatherer().gather(&turned, || desk.ask_to_turn()))?;
            start(scope, "reads", move || feeder.feed(reader))?;
            let watched = self.follow(&told);
            drop(told);
            if watched.is_err() {
                // Nobody listens to the reader any more: it is called away.
                interrupt.raise();
            }
            drop(lectern);
            for hand in hands {
                // What a thread panicked of it has said itself.
                let _ = hand.join();
            }
            watched
        })
    }

    fn follow(&mut self, told: &Receiver<Event>) -> Result<Finished, Failure> {
        let mut alarm = Alarm::new(self.arguments.report);
        loop {
            let event = match self.reports.display.wakes(alarm.due) {
                Some(due) => told.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Over { epoch, span, ended, answer }) => {
                    self.reports.close(About { epoch, span, ended, dropped: None })?;
                    if ended != Ended::ByTime {
                        // Nothing comes any more: the epoch that has begun is none to report of.
                        alarm = Alarm::new(None);
                    }
                    // Who asked may have gone since.
                    let _ = answer.send(());
                }
                Ok(Event::Finished(finished)) => return finished,
                Err(RecvTimeoutError::Timeout) => {
                    self.reports.look(&mut alarm, None, self.reports.crew.span())?
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Usage(
                        "the thread that reads has ended early; run again".to_owned(),
                    ));
                }
            }
        }
    }

    /// Starts the other threads, and reports until it is interrupted.
    fn listen(
        &mut self,
        interface: &Interface,
        sockets: Vec<PacketSocket>,
        workers: Workers,
    ) -> Result<Finished, Failure> {
        let crew = self.reports.crew;
        let decoder = FlowDecoder { tunnels: self.arguments.tunnels };
        let (turns, turned) = channel();
        std::thread::scope(|scope| {
            // However this ends, the others do: those that listen, and the gatherer, whom nobody can ask any more.
            let (_end, turns) = (interface::End(interface), turns);
            start(scope, "gathers", move || crew.gatherer().gather(&turned, || ()))?;
            for (hand, socket) in workers.hands(crew, false).into_iter().zip(sockets) {
                start(scope, "listens", move || interface.count(crew, hand, socket, decoder))?;
            }
            self.attend(interface, &turns)
        })
    }

    fn attend(&mut self, interface: &Interface, turns: &Sender<Turn>) -> Result<Finished, Failure> {
        let pace = Pace::new(None, self.interrupt)?;
        let mut alarm = Alarm::new(self.arguments.report);
        let mut epochs = Epochs::new(Some(self.arguments.epoch.unwrap_or(EPOCH)));
        let close = |reports: &mut Reports<'_>, span, ended| {
            let epoch = reports.crew.epoch();
            if !end_epoch(turns) {
                return Err(Failure::Usage("the thread that gathers has ended early; run again".to_owned()));
            }
            reports.close(About { epoch, span, ended, dropped: Some(interface.dropped()) })
        };
        while !self.interrupt.is_raised() && !interface.has_failed() {
            if !epochs.take(interface::now_ns()) {
                let span = epochs.span(true);
                epochs.end();
                close(&mut self.reports, span, Ended::ByTime)?;
                continue;
            }
            let now = Instant::now();
            let patience = now + epochs.left(interface::now_ns()).map_or(PATIENCE, |left| left.min(PATIENCE));
            let due = self.reports.display.wakes(alarm.due).map_or(patience, |due| due.min(patience));
            pace.wait(due.saturating_duration_since(now));
            self.reports.look(&mut alarm, Some(interface.dropped()), epochs.span(false))?;
        }
        interface.drain();
        while !interface.is_drained(self.reports.crew.threads()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        epochs.take(interface::now_ns());
        close(&mut self.reports, epochs.span(false), Ended::ByUser)?;
        let failures: Vec<Failure> = interface.take_failure().into_iter().collect();
        Ok(Finished { was_interrupted: true, failures })
    }
}

/// What a thread does that counts.
fn count(mut hand: Hand<'_>, desk: &Desk, decoder: FlowDecoder, crew: &Crew) {
    let seat = Seat::new(desk);
    let (mut batch, mut round) = (FlowBatch::new(), 0);
    loop {
        match desk.take(&mut round) {
            Next::Count(job) => {
                batch.clear();
                for packet in job.chunk.packets().skip(job.packets.start).take(job.packets.len()) {
                    decoder.push(&packet, &mut batch);
                }
                if crew.has_ports() {
                    desk.resolve(&job, &mut batch);
                }
                hand.count(&batch);
                desk.finish(job);
            }
            Next::Turn => {
                hand.turn();
                desk.has_turned();
            }
            Next::End => break,
        }
    }
    seat.leave();
}

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, work).map_err(|error| {
        Failure::Usage(format!(
            "cannot start a thread: {error}; give fewer --threads, or raise the limit (ulimit -u)"
        ))
    })
}
