//! `overbank monitor`: the packets of captures, counted by many threads, with reports of each epoch.
//!
//! ```text
//!   capture: reads, cuts at epochs ──▶ desk ──▶ crew: one hand a thread ──▶ gatherer
//!        │ an epoch is over                        │
//!        ▼                                         ▼ read through
//!   conduct (this thread) ◀────────────────────── survey ──▶ report ──▶ JSON lines, pages
//! ```

mod capture;
mod crew;
mod desk;
mod epochs;
mod keep;
mod local;
mod name;
mod pace;
mod shape;
mod survey;

use super::stream::default_threads;
use crate::arguments::MonitorArguments;
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::page::print_json;
use crate::picture::{monitor_json, monitor_page};
use crate::report::{Ended, Report};
use crate::{process, resident, units};
use capture::{Event, Feeder, Finished};
use crew::{Crew, Gatherer, Hand, Workers};
use desk::{Desk, Next, Seat};
use epochs::Epochs;
use keep::Keeper;
use overbank::Seed;
use overbank::store::{Store, StoreOptions};
use overbank_ingest::capture::{CaptureReader, FlowBatch, FlowDecoder, FlowKey, FlowKind};
use pace::Pace;
use shape::Shape;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;
use survey::About;

/// More threads than this one gatherer does not serve.
const THREADS_MAX: usize = 128;

pub(crate) fn run(arguments: &MonitorArguments) -> CommandResult {
    let interrupt = Interrupt::install().map_err(|error| {
        Failure::Usage(format!("cannot install the handler of Ctrl-C: {error}; run again"))
    })?;
    let machine = &arguments.machine;
    process::check_memory(machine.memory)?;
    let threads = machine.threads.map_or_else(default_threads, usize::from);
    if threads > THREADS_MAX {
        return Err(Failure::Usage(format!(
            "--threads {threads} is more than one gatherer serves; give at most {THREADS_MAX}"
        )));
    }
    let shape = Shape::new(machine.memory, threads)?;
    let reader = capture::open(arguments, &shape, &interrupt)?;
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
    let (crew, workers, gatherer) = Crew::new(shape, threads, hasher, arguments.key, arguments.by)?;
    resident::let_start_up_go();
    let keeper = keeper.as_mut();
    let mut conductor =
        Conductor { arguments, crew: &crew, keeper, packets: 0, known: Vec::new(), has_shown: false };
    let finished = conductor.watch(&interrupt, reader, workers, gatherer)?;
    let mut failures = finished.failures;
    let last = failures.pop();
    failures.iter().for_each(Failure::say);
    match last {
        Some(failure) => Err(failure),
        None if finished.was_interrupted => Err(Failure::Interrupted(format!(
            "interrupted after {}, {}",
            units::counted(conductor.packets, "packet"),
            if arguments.store.is_some() {
                "which are kept"
            } else {
                "of which nothing is kept without --store"
            }
        ))),
        None => Ok(Outcome::Found),
    }
}

/// The thread that makes reports and shows them.
struct Conductor<'a> {
    arguments: &'a MonitorArguments,
    crew: &'a Crew,
    keeper: Option<&'a mut Keeper>,
    /// Packets of the epochs that are over.
    packets: u64,
    /// Flows of the last of them that are known by name.
    known: Vec<FlowKey>,
    has_shown: bool,
}

impl Conductor<'_> {
    /// Starts the other threads, and reports until the captures have ended.
    fn watch(
        &mut self,
        interrupt: &Interrupt,
        reader: CaptureReader,
        workers: Workers,
        gatherer: Gatherer,
    ) -> Result<Finished, Failure> {
        let (crew, arguments) = (self.crew, self.arguments);
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
            let hands = workers
                .hands(crew)
                .into_iter()
                .map(|hand| start(scope, "counts", move || count(hand, desk, decoder, crew.kind)));
            let hands = hands.collect::<Result<Vec<_>, Failure>>()?;
            start(scope, "gathers", move || gatherer.gather(crew, &turned, || desk.ask_to_turn()))?;
            start(scope, "reads", move || feeder.feed(reader))?;
            let watched = self.conduct(told);
            if watched.is_err() {
                // Nobody listens to the reader any more: it is called away.
                interrupt.raise();
            }
            drop(lectern);
            for hand in hands {
                // What a thread panicked of it has said itself.
                if let Ok(counted) = hand.join() {
                    counted?;
                }
            }
            watched
        })
    }

    fn conduct(&mut self, told: Receiver<Event>) -> Result<Finished, Failure> {
        let every = self.arguments.report;
        let mut due = every.and_then(|every| Instant::now().checked_add(every));
        loop {
            let event = match due {
                Some(due) => told.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(Event::Over { epoch, span, ended, answer }) => {
                    let local = self.crew.take_ended()?;
                    self.packets += local.packets.packets;
                    let about = About { epoch, span, ended, dropped: None };
                    let known = survey::known(self.crew, epoch, &local);
                    let report =
                        survey::report(self.crew, about, &local, (&known, &self.known), self.arguments.top)?;
                    if let Some(keeper) = &mut self.keeper {
                        keeper.keep(self.crew, &report, &local, &known)?;
                    }
                    self.known = known;
                    self.show(&report)?;
                    // Who asked may have gone since.
                    let _ = answer.send(());
                }
                Ok(Event::Finished(finished)) => return finished,
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(report) = self.interim()? {
                        self.show(&report)?;
                    }
                    due = every.and_then(|every| Instant::now().checked_add(every));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Usage(
                        "the thread that reads has ended early; run again".to_owned(),
                    ));
                }
            }
        }
    }

    /// The report of the current epoch as far as it has come; `None` if it ends just now.
    fn interim(&self) -> Result<Option<Report>, Failure> {
        let epoch = self.crew.epoch();
        let local = self.crew.local()?;
        let about = About { epoch, span: self.crew.span(), ended: Ended::NotYet, dropped: None };
        let known = survey::known(self.crew, epoch, &local);
        let report = survey::report(self.crew, about, &local, (&known, &self.known), self.arguments.top)?;
        Ok(Some(report).filter(|_| self.crew.epoch() == epoch))
    }

    fn show(&mut self, report: &Report) -> Result<(), Failure> {
        let is_first = !std::mem::replace(&mut self.has_shown, true);
        if self.arguments.json {
            return print_json(&monitor_json(report));
        }
        if !is_first {
            std::io::stdout().write_all(b"\n")?;
        }
        monitor_page(report).print()
    }
}

/// What a thread does that counts.
fn count(mut hand: Hand<'_>, desk: &Desk, decoder: FlowDecoder, kind: FlowKind) -> Result<(), Failure> {
    let seat = Seat::new(desk);
    let has_ports =
        [FlowKind::SOURCE_PORT, FlowKind::DESTINATION_PORT].iter().any(|port| port.is_part_of(kind));
    let (mut batch, mut round) = (FlowBatch::new(), 0);
    loop {
        match desk.take(&mut round) {
            Next::Count(job) => {
                batch.clear();
                for packet in job.chunk.packets().skip(job.packets.start).take(job.packets.len()) {
                    decoder.push(&packet, &mut batch);
                }
                if has_ports {
                    desk.resolve(&job, &mut batch);
                }
                hand.count(&batch)?;
                desk.finish(job);
            }
            Next::Turn => {
                hand.turn()?;
                desk.has_turned();
            }
            Next::End => break,
        }
    }
    seat.leave();
    Ok(())
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
