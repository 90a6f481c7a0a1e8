//! What was counted of an epoch: sketches of the library, and exact counts.

use crate::program::{Options, Sketch};
use crate::threshold::TAU_MAX;
use crate::{Error, Result};
use keyhash::{KeyHash, KeyHasher, columns_of_power};
use overbank::monitor::bounds::count_min_error;
use overbank::sketch::{CocoSketch, CountMin, CountSketch, HyperLogLog};
use std::cmp::Reverse;
use std::collections::HashSet;

/// As `bpf/worker.h` has them.
pub(crate) const ROWS: usize = 3;
pub(crate) const LG_COLUMNS: u32 = 14;
pub(crate) const COLUMNS: usize = 1 << LG_COLUMNS;
pub(crate) const LG_REGISTERS: u32 = 14;
pub(crate) const REGISTERS: usize = 1 << LG_REGISTERS;
const LG_UNIT: u32 = 10;
/// As `bpf/coco.bpf.c`: what is gathered has as many buckets as a processor.
const BUCKET_ROWS: u32 = 2;
const BUCKETS: u32 = 1 << 11;
const KEY_BYTES_MAX: usize = 37;

/// Exact counts of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packets {
    /// All that came.
    pub packets: u64,
    /// Their bytes, from the Ethernet header on.
    pub bytes: u64,
    /// Those that have a flow.
    pub counted: u64,
    /// Those that are not IP.
    pub not_ip: u64,
    /// Those whose headers contradict themselves.
    pub malformed: u64,
    /// Those that end before their IP header does.
    pub cut: u64,
    /// The bytes of those that have a flow.
    pub counted_bytes: u64,
    /// Those whose flow has ports 0 because the ports are not known. They have a flow.
    pub without_ports: u64,
    /// How often a counter was to be sent, and the ring full.
    pub kept: u64,
    /// Messages.
    pub sent: u64,
}

impl Packets {
    /// Of a tally of the kernel's.
    pub(crate) fn of(tally: &[u64; 10]) -> Self {
        let [packets, bytes, counted, not_ip, malformed, cut, counted_bytes, without_ports, kept, sent] =
            *tally;
        Self { packets, bytes, counted, not_ip, malformed, cut, counted_bytes, without_ports, kept, sent }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.counted += other.counted;
        self.not_ip += other.not_ip;
        self.malformed += other.malformed;
        self.cut += other.cut;
        self.counted_bytes += other.counted_bytes;
        self.without_ports += other.without_ports;
        self.kept += other.kept;
        self.sent += other.sent;
    }
}

/// An epoch, over or as far as it has come.
#[derive(Clone, Debug)]
pub struct Epoch {
    hasher: KeyHasher,
    by_bytes: bool,
    names_max: usize,
    pub(crate) packets: Packets,
    /// Row after row; none without such a sketch, as of the next two.
    pub(crate) counters: Vec<i64>,
    pub(crate) registers: Vec<u8>,
    pub(crate) buckets: Option<CocoSketch>,
    is_signed: bool,
    names: HashSet<Box<[u8]>>,
    /// The largest flow whose name was given up, as it was known then.
    floor: u64,
    /// Rounds of processors that counted anything.
    pub(crate) spread: u64,
    /// The highest τ that was in force.
    pub(crate) tau_max: u64,
}

impl Epoch {
    pub(crate) fn new(sketch: Sketch, options: &Options, hasher: KeyHasher, tau: u64) -> Result<Self> {
        let has = |sketches: &[Sketch]| sketches.contains(&sketch);
        let counters = match has(&[Sketch::CountMin, Sketch::CountSketch, Sketch::Flows]) {
            true => vec![0; ROWS * COLUMNS],
            false => Vec::new(),
        };
        let registers = match has(&[Sketch::HyperLogLog, Sketch::Flows]) {
            true => vec![0; REGISTERS],
            false => Vec::new(),
        };
        let buckets = match sketch {
            Sketch::Coco => {
                let made = CocoSketch::new(BUCKETS, BUCKET_ROWS, KEY_BYTES_MAX, hasher);
                Some(made.map_err(|error| Error::Map { why: error.to_string() })?)
            }
            _ => None,
        };
        Ok(Self {
            hasher,
            by_bytes: options.by_bytes,
            names_max: options.names_max,
            packets: Packets::default(),
            counters,
            registers,
            buckets,
            is_signed: sketch == Sketch::CountSketch,
            names: HashSet::new(),
            floor: 0,
            spread: 0,
            tau_max: tau,
        })
    }

    /// Exact counts of packets.
    pub fn packets(&self) -> &Packets {
        &self.packets
    }

    /// What flows weigh together.
    pub fn weight(&self) -> u64 {
        if self.by_bytes { self.packets.counted_bytes } else { self.packets.counted }
    }

    /// How keys are hashed.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Flow sizes, by count-min; `None` of another sketch.
    pub fn sizes(&self) -> Option<CountMin<u64>> {
        if self.is_signed || self.counters.is_empty() {
            return None;
        }
        let counters = self.counters.iter().map(|&counter| counter.max(0) as u64).collect();
        CountMin::from_cells(COLUMNS as u32, ROWS as u32, (&self.hasher).into(), counters).ok()
    }

    /// Flow sizes, by count sketch; `None` of another.
    pub fn signed_sizes(&self) -> Option<CountSketch> {
        if !self.is_signed {
            return None;
        }
        let (columns, rows, id) = (COLUMNS as u32, ROWS as u32, (&self.hasher).into());
        CountSketch::from_cells(columns, rows, id, self.weight(), self.counters.clone()).ok()
    }

    /// Flow sizes, and those of any part of keys; `None` of another sketch than Coco.
    pub fn parts(&self) -> Option<&CocoSketch> {
        self.buckets.as_ref()
    }

    /// Distinct flows; `None` of a sketch that has none.
    pub fn distinct(&self) -> Option<HyperLogLog> {
        HyperLogLog::from_registers(self.hasher, self.registers.clone())
    }

    /// The keys that are known by name, in the order of their bytes.
    pub fn names(&self) -> Vec<&[u8]> {
        let mut names: Vec<&[u8]> = self.names.iter().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// A size of count-min above which no flow lacks a name; `None` where that is not known: the ring was full too often.
    ///
    /// # Accuracy
    /// Fails with probability at most `1 - confidence` over the seed, for a flow chosen without looking at the sketch; and not at all while
    /// τ was 1.
    pub fn named_above(&self, confidence: f64) -> Option<u64> {
        if self.is_signed || self.counters.is_empty() {
            return None;
        }
        // Between two times that a counter is due a flow weighs less than τ there. Each takes a packet of another flow, the end of a
        // round, or one of the flow's own for which the ring had no room.
        let (unit, least, greatest) =
            if self.by_bytes { (1 << LG_UNIT, LEAST_BYTES, GREATEST_BYTES) } else { (1, 1, 1) };
        let others = count_min_error(self.weight(), COLUMNS as u32, ROWS as u32, confidence);
        let below = (self.tau_max.min(TAU_MAX) * unit).saturating_sub(1);
        let times = (others / least).saturating_add(self.packets.kept).saturating_add(2 * self.spread);
        let hidden = self.packets.kept.saturating_mul(greatest);
        let size = self.floor.saturating_add(below.saturating_mul(times)).saturating_add(hidden);
        (size == 0 || size < self.weight()).then_some(size)
    }

    /// A key that came with a message.
    pub(crate) fn name(&mut self, key: &[u8]) {
        if self.names.contains(key) {
            return;
        }
        self.names.insert(key.into());
        if self.names.len() > 2 * self.names_max {
            self.give_up_names();
        }
    }

    /// Leaves the largest names, as many as there may be at the end.
    pub(crate) fn give_up_names(&mut self) {
        if self.names.len() <= self.names_max {
            return;
        }
        let mut sized: Vec<(u64, Box<[u8]>)> =
            std::mem::take(&mut self.names).into_iter().map(|name| (0, name)).collect();
        sized.iter_mut().for_each(|(size, name)| *size = self.size(self.hasher.hash(name)));
        sized.sort_unstable_by(|one, other| (Reverse(one.0), &one.1).cmp(&(Reverse(other.0), &other.1)));
        self.floor = self.floor.max(sized[self.names_max].0);
        sized.truncate(self.names_max);
        self.names = sized.into_iter().map(|(_, name)| name).collect();
    }

    /// The size that counters say, of any sign.
    fn size(&self, hash: KeyHash) -> u64 {
        if self.counters.is_empty() {
            return 0;
        }
        let places = columns_of_power::<ROWS>(hash.fold(), LG_COLUMNS);
        let counters =
            (0..).zip(places).map(|(row, at): (usize, u64)| self.counters[row * COLUMNS + at as usize]);
        let mut sizes: [u64; ROWS] = [0; ROWS];
        sizes.iter_mut().zip(counters).for_each(|(size, counter)| *size = counter.unsigned_abs());
        sizes.sort_unstable();
        if self.is_signed { sizes[ROWS / 2] } else { sizes[0] }
    }

    /// Adds to a counter.
    pub(crate) fn count(&mut self, place: usize, value: i64) {
        if let Some(counter) = self.counters.get_mut(place) {
            *counter = counter.saturating_add(value);
        }
    }

    /// Raises a register.
    pub(crate) fn raise(&mut self, register: usize, rank: u8) {
        if let Some(at) = self.registers.get_mut(register) {
            *at = (*at).max(rank);
        }
    }

    /// Takes a key with its count in.
    pub(crate) fn take(&mut self, key: &[u8], count: u64) {
        let hash = self.hasher.hash(key);
        if let Some(buckets) = &mut self.buckets {
            buckets.update(hash, key, count);
        }
    }
}

/// No packet that has a flow is shorter: an Ethernet and an IP header.
const LEAST_BYTES: u64 = 34;
/// Nor longer than what the kernel puts together.
const GREATEST_BYTES: u64 = 1 << 19;
