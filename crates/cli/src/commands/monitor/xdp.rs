//! An interface whose packets the kernel counts, by XDP; this thread takes messages, ends epochs, and reports.
//!
//! ```text
//!   kernel: count-min and HyperLogLog of each processor ── ring ──▶ XdpWorker::poll
//!                        └── at the end of a round, all of it ────▶ XdpWorker::epoch ─▶ Report ─▶ display
//! ```
//!
//! 1. A report, of an epoch that is over or goes on, has every packet that came before it was asked for.
//! 2. Spreaders, entropy and packet sizes are not counted there: reports have none, and nothing is kept in a store.

use super::EPOCH;
use super::display::Display;
use super::epochs::Epochs;
use super::interface::{Interface, now_ns};
use super::pace::Pace;
use super::reports::Alarm;
use super::shape::Shape;
use crate::announce;
use crate::arguments::{Measure, MonitorArguments};
use crate::failure::{CommandResult, Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::report::{CONFIDENCE, Change, Distinct, Ended, Readings, Report, Span, TopFlow};
use crate::units;
use overbank::Seed;
use overbank::sketch::{CountBounds, CountMin};
use overbank::store::{Store, StoreOptions};
use overbank::{HashKind, KeyHasher};
use overbank_ingest::capture::{FlowKey, FlowKind, LinkType, PacketCounts};
use overbank_xdp::{Epoch, FlowFields, Options, Sketch, Threshold, XdpWorker};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often messages are taken.
const POLL: Duration = Duration::from_millis(10);
/// Messages that one poll is to find: of the ring, which has room for some 58,000, and of the time to take them, 2 %.
const TARGET: u64 = 2000;
/// The threshold at first.
const TAU: u64 = 1;
/// A frame of the view ends a round, each of which leaves more flows without a name: no more often than this.
const FRAME: Duration = Duration::from_secs(1);
/// How often the interface is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Ranks that are sent are above this, as the kernel's program has it.
const RANK: u8 = 4;
/// What a processor's counters take, twice, and the ring.
const PROCESSOR_BYTES: u64 = 2 * (3 * (16 << 10) * 9 + (16 << 10));
const RING_BYTES: u64 = 4 << 20;

/// Counts and reports until it is interrupted.
pub(super) fn run(arguments: &MonitorArguments, name: &str, interrupt: &Interrupt) -> CommandResult {
    let machine = &arguments.machine;
    let key = fields_of(arguments.key)?;
    if HashKind::from(machine.hash) != HashKind::Xxh3 {
        return Err(Failure::Usage("--xdp hashes by xxh3; leave --hash out, or use --iface".to_owned()));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let shape = Shape::new(machine.memory, 1)?;
    let held = PROCESSOR_BYTES * processors as u64 + RING_BYTES;
    if held > machine.memory {
        return Err(Failure::Usage(format!(
            "the kernel's counters take {} on {}; give --memory at least that, or use --iface",
            units::bytes(held),
            units::counted(processors as u64, "processor"),
        )));
    }
    let interface = Interface::find(name)?;
    if interface.link != LinkType::ETHERNET {
        return Err(Failure::Usage(format!(
            "{name} is not of Ethernet; name one that is, or use --iface {name}"
        )));
    }
    let mut options = StoreOptions::new();
    if let Some(seed) = machine.seed {
        options = options.seed(Seed(u128::from(seed)));
    }
    let seed = Store::in_memory(options)?.hasher().seed();
    let by_bytes = arguments.by == Measure::Bytes;
    let options = Options { seed, key, by_bytes, tau: TAU, names_max: shape.heavy_keys() };
    let told = |error: overbank_xdp::Error| Failure::Usage(format!("{error}; or use --iface {name}"));
    let mut worker = XdpWorker::load(Sketch::Flows, &options).map_err(told)?;
    is_up(name)?;
    worker.attach(name, None).map_err(told)?;
    announce::at("listening");
    let mut watch = Watch {
        arguments,
        display: Display::open(arguments, interrupt),
        worker,
        processors,
        before: None,
        number: 0,
        packets: 0,
        messages: 0,
        kept: 0,
    };
    let ended = watch.attend(name, interrupt);
    let shown = watch.display.finish();
    ended?;
    shown?;
    match watch.display.was_quit {
        true => Ok(Outcome::Found),
        false => Err(Failure::Interrupted(format!(
            "interrupted after {}, of which nothing is kept",
            units::counted(watch.packets, "packet")
        ))),
    }
}

/// The kernel's program for such flows.
fn fields_of(kind: FlowKind) -> Result<FlowFields, Failure> {
    [
        (FlowKind::FIVE_TUPLE, FlowFields::FiveTuple),
        (FlowKind::SOURCE_DESTINATION, FlowFields::SourceDestination),
        (FlowKind::SOURCE, FlowFields::Source),
        (FlowKind::DESTINATION, FlowFields::Destination),
    ]
    .into_iter()
    .find_map(|(of, fields)| (of == kind).then_some(fields))
    .ok_or_else(|| {
        Failure::Usage(format!(
            "--xdp counts flows by five-tuple, src-dst, src or dst, not by {kind}; give one of these, or use --iface"
        ))
    })
}

/// Fails where the interface is gone or down.
fn is_up(name: &str) -> Result<(), Failure> {
    let path = format!("/sys/class/net/{name}/flags");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Err(Failure::Usage(format!("there is no interface {name} any more; name another one")));
    };
    // IFF_UP is the lowest bit.
    let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap_or(1);
    match flags & 1 {
        0 => Err(Failure::Usage(format!("{name} is down; bring it up: ip link set {name} up"))),
        _ => Ok(()),
    }
}

/// What is watched, and what was reported of it.
struct Watch<'a> {
    arguments: &'a MonitorArguments,
    display: Display,
    worker: XdpWorker,
    processors: usize,
    /// The epoch before.
    before: Option<Flows>,
    number: u64,
    /// Of epochs that are over.
    packets: u64,
    messages: u64,
    kept: u64,
}

/// Flows that are known by name, and what all of them weigh.
struct Flows {
    sizes: CountMin<u64>,
    known: Vec<FlowKey>,
    hasher: KeyHasher,
}

impl Flows {
    fn of(epoch: &Epoch, kind: FlowKind) -> Option<Self> {
        let known = epoch.names().into_iter().filter_map(|name| FlowKey::from_bytes(kind, name)).collect();
        Some(Self { sizes: epoch.sizes()?, known, hasher: *epoch.hasher() })
    }

    fn size(&self, key: &FlowKey) -> CountBounds {
        self.sizes.bounds(self.hasher.hash(key.as_bytes()), CONFIDENCE)
    }
}

/// What the kernel's programs have not, which no run comes to.
fn lacking() -> Failure {
    Failure::Usage("the kernel's program has no such sketch; build it again".to_owned())
}

fn told(error: overbank_xdp::Error) -> Failure {
    Failure::Usage(error.to_string())
}

impl Watch<'_> {
    fn attend(&mut self, name: &str, interrupt: &Interrupt) -> Result<(), Failure> {
        let pace = Pace::new(None, interrupt)?;
        let mut alarm = Alarm::new(self.arguments.report);
        let mut epochs = Epochs::new(Some(self.arguments.epoch.unwrap_or(EPOCH)));
        let mut threshold = Threshold::new(TAU, TARGET);
        let (mut drawn, mut looked): (Option<Instant>, Instant) = (None, Instant::now());
        let mut state = Ok(());
        while !interrupt.is_raised() && state.is_ok() {
            if !epochs.take(now_ns()) {
                let span = epochs.span(true);
                epochs.end();
                self.close(span, Ended::ByTime)?;
                continue;
            }
            let taken = self.worker.poll();
            if threshold.adapt(taken, self.worker.kept().map_err(told)?) {
                self.worker.set_tau(threshold.tau()).map_err(told)?;
            }
            let is_frame = self.display.heed()? && drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME);
            let has_rung = alarm.has_rung();
            if is_frame || has_rung {
                let report = self.interim(epochs.span(false))?;
                if is_frame {
                    self.display.draw(&report)?;
                    drawn = Some(Instant::now());
                }
                if has_rung {
                    self.display.show(report)?;
                }
            }
            if looked.elapsed() >= LOOK {
                (state, looked) = (is_up(name), Instant::now());
            }
            let left = epochs.left(now_ns()).map_or(POLL, |left| left.min(POLL));
            pace.wait(left);
        }
        epochs.take(now_ns());
        self.close(epochs.span(false), Ended::ByUser)?;
        state
    }

    /// Ends the epoch, and shows it.
    fn close(&mut self, span: Option<Span>, ended: Ended) -> Result<(), Failure> {
        let epoch = self.worker.end_epoch().map_err(told)?;
        let sized = Flows::of(&epoch, self.arguments.key).ok_or_else(lacking)?;
        let report = self.report(&epoch, &sized, span, ended).ok_or_else(lacking)?;
        self.number += 1;
        self.packets += epoch.packets().packets;
        self.messages += epoch.packets().sent;
        self.kept += epoch.packets().kept;
        self.before = Some(sized);
        self.display.show(report)
    }

    /// The epoch as far as it has come.
    fn interim(&mut self, span: Option<Span>) -> Result<Report, Failure> {
        let epoch = self.worker.epoch().map_err(told)?.clone();
        let sized = Flows::of(&epoch, self.arguments.key).ok_or_else(lacking)?;
        self.report(&epoch, &sized, span, Ended::NotYet).ok_or_else(lacking)
    }

    fn report(&self, epoch: &Epoch, sized: &Flows, span: Option<Span>, ended: Ended) -> Option<Report> {
        let (packets, top) = (epoch.packets(), self.arguments.top);
        let mut heavy: Vec<TopFlow> =
            sized.known.iter().map(|&key| TopFlow { key, size: sized.size(&key) }).collect();
        heavy.sort_by_key(|flow| (Reverse(flow.size.estimate), flow.key));
        heavy.truncate(top);
        let over = ended != Ended::NotYet;
        Some(Report {
            epoch: self.number,
            span: span.filter(|_| packets.packets > 0),
            ended,
            kind: self.arguments.key,
            by: self.arguments.by,
            threads: self.processors,
            packets: PacketCounts {
                packets: packets.packets,
                wire_bytes: packets.bytes,
                not_ip: packets.not_ip,
                malformed: packets.malformed,
                cut: packets.cut,
                unknown_link: 0,
                without_ports: packets.without_ports,
            },
            counted: packets.counted,
            counted_bytes: packets.counted_bytes,
            dropped: None,
            flows: Distinct::of(&epoch.distinct()?),
            top: heavy,
            heavy_threshold: epoch.named_above(CONFIDENCE).filter(|_| over),
            changes: self.before.as_ref().map(|before| changes(before, sized, top)),
            spreaders: None,
            entropy: None,
            packet_sizes: None,
            readings: Readings {
                taus: [u8::try_from(self.worker.tau()).ok(), Some(RANK), None, None, None],
                queue: 0,
                messages: self.messages + packets.sent,
                kept: self.kept + packets.kept,
            },
        })
    }
}

fn changes(before: &Flows, after: &Flows, top: usize) -> Vec<Change> {
    let keys: BTreeSet<FlowKey> = before.known.iter().chain(&after.known).copied().collect();
    let change = |key: FlowKey| Change { key, before: before.size(&key), after: after.size(&key) };
    let mut changes: Vec<Change> =
        keys.into_iter().map(change).filter(|change| change.estimate() != 0).collect();
    changes.sort_by_key(|change| (Reverse(change.estimate().unsigned_abs()), change.key));
    changes.truncate(top);
    changes
}
