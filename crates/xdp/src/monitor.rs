//! The program in user space: loaded, attached, polled, read.

use crate::{Error, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray, RingBuf};
use aya::programs::{Xdp, XdpFlags};
use keyhash::{HashKind, KeyHash, KeyHasher, Seed, columns_of_power};
use std::collections::HashMap;

/// As in `bpf/count_min.bpf.c`.
const ROWS: usize = 3;
const LG_COLUMNS: u32 = 12;
const COLUMNS: usize = 1 << LG_COLUMNS;
/// fold, value, row; then the key's length and bytes.
const MESSAGE_BYTES: usize = 64;
const KEY_AT: usize = 25;
/// Readings before it is given up: each takes some microseconds, in which nothing may be sent.
const TRIES: usize = 1000;

#[cfg(has_program)]
const PROGRAM: Option<&[u8]> = Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/count_min.o")));
#[cfg(not(has_program))]
const PROGRAM: Option<&[u8]> = None;

/// How the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver, before the kernel has a buffer for the packet.
    Native,
    /// Behind it, on any interface.
    Generic,
}

/// What the program did, on all processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets seen.
    pub packets: u64,
    /// Those without a flow's key, which are in no counter.
    pub not_ip: u64,
    /// How often a counter was due and the ring full.
    pub kept: u64,
    /// Messages begun and done.
    begun: u64,
    done: u64,
}

/// All counters at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters {
    rows: Vec<u64>,
}

/// An interface that is counted. Dropping it takes the program off.
pub struct XdpMonitor {
    // Holds the program and its link.
    _ebpf: Ebpf,
    rows: PerCpuArray<MapData, [u64; COLUMNS]>,
    tallies: PerCpuArray<MapData, [u64; 5]>,
    settings: Array<MapData, [u64; 2]>,
    ring: RingBuf<MapData>,
    hasher: KeyHasher,
    mode: Mode,
    applied: Vec<u64>,
    messages: u64,
    flows: HashMap<Box<[u8]>, u64>,
}

impl std::fmt::Debug for XdpMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XdpMonitor")
            .field("mode", &self.mode)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

fn map_error(error: impl std::fmt::Display) -> Error {
    Error::Map { why: error.to_string() }
}

/// An error with what caused it, in one line.
fn chained(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said += &format!(": {error}");
        cause = error.source();
    }
    // A verifier's log ends in what it refused.
    let kept: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    kept.into_iter().rev().collect::<Vec<_>>().join(" ")
}

impl XdpMonitor {
    /// Loads the program, and attaches it to an interface: by its driver, else before it. A counter that reaches `tau`, 1 or more, is sent.
    /// Keys are hashed by XXH3 with this seed.
    ///
    /// # Errors
    /// All but `Restless`.
    pub fn attach(interface: &str, seed: Seed, tau: u64) -> Result<Self> {
        let refused = |error: &dyn std::error::Error| Error::Refused { why: chained(error) };
        let mut ebpf = Ebpf::load(PROGRAM.ok_or(Error::NoProgram)?).map_err(|error| refused(&error))?;
        let mut take = |name: &'static str| {
            ebpf.take_map(name).ok_or_else(|| Error::Map { why: format!("the program has no map {name}") })
        };
        let rows = PerCpuArray::try_from(take("rows")?).map_err(map_error)?;
        let tallies = PerCpuArray::try_from(take("tallies")?).map_err(map_error)?;
        let mut settings: Array<_, [u64; 2]> = Array::try_from(take("settings")?).map_err(map_error)?;
        let ring = RingBuf::try_from(take("ring")?).map_err(map_error)?;
        settings.set(0, [seed.xxh3_seed(), tau.max(1)], 0).map_err(map_error)?;
        let program: &mut Xdp = match ebpf.program_mut("count_min").map(TryInto::try_into) {
            Some(Ok(program)) => program,
            _ => return Err(Error::NoProgram),
        };
        program.load().map_err(|error| refused(&error))?;
        let attached =
            program.attach(interface, XdpFlags::DRV_MODE).map(|_| Mode::Native).or_else(|native| {
                let generic = program.attach(interface, XdpFlags::SKB_MODE).map(|_| Mode::Generic);
                generic.map_err(|generic| Error::Attach {
                    interface: interface.to_owned(),
                    native: chained(&native),
                    generic: chained(&generic),
                })
            });
        let mode = attached?;
        let hasher = KeyHasher::new(HashKind::Xxh3, seed);
        let (applied, flows) = (vec![0; ROWS * COLUMNS], HashMap::new());
        Ok(Self { _ebpf: ebpf, rows, tallies, settings, ring, hasher, mode, applied, messages: 0, flows })
    }

    /// How it runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets the threshold, 1 or more.
    ///
    /// # Errors
    /// `Map`.
    pub fn set_tau(&mut self, tau: u64) -> Result<()> {
        self.settings.set(0, [self.hasher.seed().xxh3_seed(), tau.max(1)], 0).map_err(map_error)
    }

    /// Takes what waits in the ring; how many messages. To be called again and again.
    pub fn poll(&mut self) -> u64 {
        let mut taken = 0;
        while let Some(message) = self.ring.next() {
            taken += 1;
            let Some(message) = message.first_chunk::<MESSAGE_BYTES>() else { continue };
            let [fold, value, row] = [0, 8, 16]
                .map(|at| u64::from_le_bytes(*message[at..].first_chunk().expect("within 64 bytes")));
            let Some(first) = usize::try_from(row).ok().filter(|&row| row < ROWS) else { continue };
            let column = columns_of_power::<ROWS>(fold, LG_COLUMNS)[first] as usize;
            let counter = &mut self.applied[first * COLUMNS + column];
            *counter = counter.saturating_add(value);
            let key = &message[KEY_AT..KEY_AT + usize::from(message[KEY_AT - 1]).min(MESSAGE_BYTES - KEY_AT)];
            if !self.flows.contains_key(key) {
                self.flows.insert(key.into(), fold);
            }
        }
        self.messages += taken;
        taken
    }

    /// What the program did so far.
    ///
    /// # Errors
    /// `Map`.
    pub fn tally(&self) -> Result<Tally> {
        let mut sum = Tally::default();
        for [packets, not_ip, kept, begun, done] in self.tallies.get(&0, 0).map_err(map_error)?.iter() {
            sum.packets += packets;
            sum.not_ip += not_ip;
            sum.kept += kept;
            sum.begun += begun;
            sum.done += done;
        }
        Ok(sum)
    }

    /// All counters of one moment: what came by the ring and what the processors hold, each packet once.
    ///
    /// # Errors
    /// `Map`; `Restless` where messages were sent in each of a thousand readings.
    pub fn counters(&mut self) -> Result<Counters> {
        for _ in 0..TRIES {
            let before = self.tally()?;
            self.poll();
            if before.begun != before.done || self.messages != before.done {
                continue;
            }
            let mut sum = self.applied.clone();
            for row in 0..ROWS {
                let first = row * COLUMNS;
                for of in self.rows.get(&(row as u32), 0).map_err(map_error)?.iter() {
                    let counters = sum[first..first + COLUMNS].iter_mut().zip(of);
                    counters.for_each(|(sum, &counter)| *sum = sum.saturating_add(counter));
                }
            }
            if self.tally()?.begun == before.done {
                return Ok(Counters { rows: sum });
            }
        }
        Err(Error::Restless { tries: TRIES })
    }

    /// The keys that came by the ring, and their sizes by these counters, heaviest first.
    pub fn flows(&self, counters: &Counters) -> Vec<(&[u8], u64)> {
        let mut flows: Vec<_> =
            self.flows.iter().map(|(key, &fold)| (&**key, counters.estimate_fold(fold))).collect();
        flows.sort_unstable_by_key(|&(key, size)| (std::cmp::Reverse(size), key));
        flows
    }

    /// How the packets' keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }
}

impl Counters {
    /// How many packets of a key came: never too low.
    pub fn estimate(&self, hash: KeyHash) -> u64 {
        self.estimate_fold(hash.fold())
    }

    fn estimate_fold(&self, fold: u64) -> u64 {
        let places = columns_of_power::<ROWS>(fold, LG_COLUMNS);
        let counters =
            (0..).zip(places).map(|(row, column): (usize, u64)| self.rows[row * COLUMNS + column as usize]);
        counters.min().unwrap_or(0)
    }

    /// The packets that are counted: the same in each row.
    pub fn totals(&self) -> [u64; ROWS] {
        let mut rows = self.rows.chunks(COLUMNS).map(|row| row.iter().sum());
        std::array::from_fn(|_| rows.next().unwrap_or(0))
    }
}
