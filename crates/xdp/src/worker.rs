//! A program at work: its messages, its counters, its rounds.

use crate::epoch::{COLUMNS, Epoch, Packets, REGISTERS, ROWS};
use crate::kernel::{self, Ran};
use crate::program::{Mode, Options, Program, Sketch};
use crate::threshold::TAU_MAX;
use crate::{Error, Result};
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues, RingBuf};
use aya::util::nr_cpus;
use keyhash::{HashKind, KeyHasher};
use std::os::fd::AsFd;
use std::time::Duration;

/// Counters of 64 bits of a map's value, and how many values a row has.
const WIDE: usize = 1 << 12;
const PARTS: usize = COLUMNS / WIDE;
/// Words of a bucket: its count, then its key with the length in the last byte.
const BUCKET_WORDS: usize = 6;
const BUCKETS: usize = 1 << 9;
/// Values of buckets of each half.
const BUCKET_PARTS: u32 = 8;
/// round, value, sketch, place; then the key, whose last byte is its length.
const MESSAGE_BYTES: usize = 64;
const KEY_AT: usize = 24;
/// How long messages that were sent may take to be seen, in looks.
const LOOKS: u32 = 100_000;
const LOOK: Duration = Duration::from_micros(50);

/// A sketch of an interface's packets. Dropping it takes the program off.
///
/// # Cost
/// [`poll`](Self::poll) some 100 ns a message; the end of a round some 10 ms, most of which the kernel waits, and a read of all counters.
pub struct XdpWorker {
    sketch: Sketch,
    options: Options,
    program: Program,
    maps: Maps,
    hasher: KeyHasher,
    tau: u64,
    round: u64,
    /// Messages of the rounds whose half this is, as many as were seen.
    seen: [u64; 2],
    /// Messages of this round and those behind it are of the next epoch.
    next_from: u64,
    current: Epoch,
    next: Epoch,
}

/// The maps that the sketch has.
struct Maps {
    settings: Array<MapData, [u64; 2]>,
    tallies: PerCpuArray<MapData, [u64; 10]>,
    ring: RingBuf<MapData>,
    narrow: Option<PerCpuArray<MapData, [i8; COLUMNS]>>,
    wide: Option<PerCpuArray<MapData, [i64; WIDE]>>,
    registers: Option<PerCpuArray<MapData, [u8; REGISTERS]>>,
    buckets: Option<PerCpuArray<MapData, [u64; BUCKET_WORDS * BUCKETS]>>,
}

impl std::fmt::Debug for XdpWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sketch, options, tau, round, .. } = self;
        f.debug_struct("XdpWorker")
            .field("sketch", sketch)
            .field("options", options)
            .field("tau", tau)
            .field("round", round)
            .finish_non_exhaustive()
    }
}

fn map_error(error: impl std::fmt::Display) -> Error {
    Error::Map { why: error.to_string() }
}

impl XdpWorker {
    /// Loads the program of a sketch other than `Empty`; it counts nothing yet.
    ///
    /// # Errors
    /// `NoProgram`, `Refused`, `Map`.
    pub fn load(sketch: Sketch, options: &Options) -> Result<Self> {
        let mut program = Program::load(sketch, options)?;
        let maps = Maps::of(&mut program)?;
        let hasher = KeyHasher::new(HashKind::Xxh3, options.seed);
        let tau = options.tau.clamp(1, TAU_MAX);
        let [current, next] = [(); 2].map(|()| Epoch::new(sketch, options, hasher, tau));
        let mut worker = Self {
            sketch,
            options: *options,
            program,
            maps,
            hasher,
            tau,
            round: 0,
            seen: [0; 2],
            next_from: u64::MAX,
            current: current?,
            next: next?,
        };
        worker.tell()?;
        Ok(worker)
    }

    /// Attaches it to an interface: by its driver, else before it; or `only` in this mode.
    ///
    /// # Errors
    /// `Attach`.
    pub fn attach(&mut self, interface: &str, only: Option<Mode>) -> Result<Mode> {
        self.program.attach(interface, only)
    }

    /// Runs it so often on a packet, from its Ethernet header on, as if that came in.
    ///
    /// # Errors
    /// `Run`.
    pub fn run(&mut self, packet: &[u8], repeat: u32) -> Result<Ran> {
        run(&mut self.program, packet, repeat)
    }

    /// What a run of the empty program on a packet takes.
    ///
    /// # Errors
    /// `NoProgram`, `Refused`, `Run`.
    pub fn run_empty(packet: &[u8], repeat: u32) -> Result<Ran> {
        run(&mut Program::load(Sketch::Empty, &Options::default())?, packet, repeat)
    }

    /// How keys are hashed.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The threshold.
    pub fn tau(&self) -> u64 {
        self.tau
    }

    /// Sets the threshold, 1 to [`TAU_MAX`].
    ///
    /// # Errors
    /// `Map`.
    pub fn set_tau(&mut self, tau: u64) -> Result<()> {
        self.tau = tau.clamp(1, TAU_MAX);
        self.current.tau_max = self.current.tau_max.max(self.tau);
        self.tell()
    }

    /// Takes what waits in the ring; how many messages. To be called again and again, some 100 times a second.
    pub fn poll(&mut self) -> u64 {
        let mut taken = 0;
        while let Some(message) = self.maps.ring.next() {
            let Some(message) = message.first_chunk::<MESSAGE_BYTES>() else { continue };
            let word = |at: usize| u64::from_le_bytes(*message[at..].first_chunk().expect("within 64 bytes"));
            let (round, value, places) = (word(0), word(8) as i64, word(16));
            let (sketch, place) = (places as u32, (places >> 32) as usize);
            let len = usize::from(message[MESSAGE_BYTES - 1]).min(MESSAGE_BYTES - 1 - KEY_AT);
            let key = &message[KEY_AT..KEY_AT + len];
            let epoch = if round >= self.next_from { &mut self.next } else { &mut self.current };
            match sketch {
                0 => epoch.count(place, value),
                1 => epoch.take(key, value.max(0) as u64),
                _ => epoch.raise(place, value.clamp(0, 255) as u8),
            }
            epoch.name(key);
            self.seen[(round & 1) as usize] += 1;
            taken += 1;
        }
        taken
    }

    /// The exact counts of this epoch as they are now, without the end of a round: those of a packet that is being counted are not all
    /// there yet.
    ///
    /// # Errors
    /// `Map`.
    pub fn so_far(&self) -> Result<Packets> {
        let mut packets = self.round()?;
        packets.add(&self.current.packets);
        Ok(packets)
    }

    /// How often the ring was full in this round.
    ///
    /// # Errors
    /// `Map`.
    pub fn kept(&self) -> Result<u64> {
        Ok(self.round()?.kept)
    }

    fn round(&self) -> Result<Packets> {
        let mut packets = Packets::default();
        let tallies = self.maps.tallies.get(&self.half(), 0).map_err(map_error)?;
        tallies.iter().for_each(|tally| packets.add(&Packets::of(tally)));
        Ok(packets)
    }

    /// Ends a round: the epoch as far as it has come, with every packet that came before the call.
    ///
    /// # Errors
    /// `Map`, `Round`.
    pub fn epoch(&mut self) -> Result<&Epoch> {
        self.turn()?;
        Ok(&self.current)
    }

    /// Ends the epoch, with every packet that came before the call; the next one has begun with the others.
    ///
    /// # Errors
    /// `Map`, `Round`.
    pub fn end_epoch(&mut self) -> Result<Epoch> {
        self.next_from = self.round + 1;
        self.turn()?;
        self.next_from = u64::MAX;
        let begun = Epoch::new(self.sketch, &self.options, self.hasher, self.tau)?;
        let mut over = std::mem::replace(&mut self.current, std::mem::replace(&mut self.next, begun));
        self.current.tau_max = self.tau;
        over.give_up_names();
        Ok(over)
    }

    fn half(&self) -> u32 {
        (self.round & 1) as u32
    }

    /// Tells the programs round and threshold.
    fn tell(&mut self) -> Result<()> {
        self.maps.settings.set(0, [self.round, self.tau], 0).map_err(map_error)
    }

    /// Goes over to the next round, and takes what the counters of this one hold into the epoch.
    fn turn(&mut self) -> Result<()> {
        let half = self.half();
        self.round += 1;
        self.tell()?;
        kernel::wait_for_programs()?;
        // Nobody writes to that half any more.
        let tallies = self.maps.tallies.get(&half, 0).map_err(map_error)?;
        let mut packets = Packets::default();
        for tally in tallies.iter().map(Packets::of) {
            self.current.spread += u64::from(tally.counted > 0);
            packets.add(&tally);
        }
        let mut looks = 0;
        while self.seen[half as usize] < packets.sent {
            // A message of the next round that is being written hides those behind it for a moment.
            if self.poll() == 0 {
                looks += 1;
                std::thread::sleep(LOOK);
            }
            if looks > LOOKS {
                let lost = packets.sent - self.seen[half as usize];
                return Err(Error::Map { why: format!("{lost} messages of {} do not come", packets.sent) });
            }
        }
        self.seen[half as usize] = 0;
        self.current.packets.add(&packets);
        let is_wide = packets.kept > 0 || self.options.by_bytes;
        self.maps.gather(half, is_wide, &mut self.current)?;
        clear(&mut self.maps.tallies, half)
    }
}

fn run(program: &mut Program, packet: &[u8], repeat: u32) -> Result<Ran> {
    let fd = program.xdp()?.fd().map_err(map_error)?;
    kernel::run(fd.as_fd(), packet, repeat)
}

impl Maps {
    fn of(program: &mut Program) -> Result<Self> {
        let mut take = |name: &'static str| program.ebpf.take_map(name);
        let missing = |name: &str| Error::Map { why: format!("the program has no map {name}") };
        let settings = take("settings").ok_or_else(|| missing("settings"))?;
        let tallies = take("tallies").ok_or_else(|| missing("tallies"))?;
        let ring = take("ring").ok_or_else(|| missing("ring"))?;
        Ok(Self {
            settings: settings.try_into().map_err(map_error)?,
            tallies: tallies.try_into().map_err(map_error)?,
            ring: ring.try_into().map_err(map_error)?,
            narrow: take("narrow").map(TryInto::try_into).transpose().map_err(map_error)?,
            wide: take("wide").map(TryInto::try_into).transpose().map_err(map_error)?,
            registers: take("registers").map(TryInto::try_into).transpose().map_err(map_error)?,
            buckets: take("buckets").map(TryInto::try_into).transpose().map_err(map_error)?,
        })
    }

    /// Takes what a half holds into an epoch, and clears it.
    fn gather(&mut self, half: u32, is_wide: bool, epoch: &mut Epoch) -> Result<()> {
        let rows = (half as usize * ROWS..).zip(0..ROWS);
        for (at, row) in rows {
            if let Some(narrow) = &mut self.narrow {
                drain(narrow, at as u32, |at, &counter: &i8| {
                    epoch.count(row * COLUMNS + at, counter.into())
                })?;
            }
            if let Some(wide) = self.wide.as_mut().filter(|_| is_wide) {
                for part in 0..PARTS {
                    let first = row * COLUMNS + part * WIDE;
                    drain(wide, (at * PARTS + part) as u32, |at, &counter: &i64| {
                        epoch.count(first + at, counter)
                    })?;
                }
            }
        }
        if let Some(registers) = &mut self.registers {
            drain(registers, half, |at, &rank: &u8| epoch.raise(at, rank))?;
        }
        if let Some(buckets) = &mut self.buckets {
            for part in 0..BUCKET_PARTS {
                let at = half * BUCKET_PARTS + part;
                let values = buckets.get(&at, 0).map_err(map_error)?;
                for bucket in values.iter().flat_map(|part| part.as_chunks::<BUCKET_WORDS>().0) {
                    let [count, words @ ..] = bucket;
                    if *count > 0 {
                        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                        let key = &bytes[..usize::from(bytes[bytes.len() - 1]).min(bytes.len() - 1)];
                        epoch.take(key, *count);
                        epoch.name(key);
                    }
                }
                clear(buckets, at)?;
            }
        }
        Ok(())
    }
}

/// Shows each counter that is not 0 of each processor with its place, and clears them.
fn drain<C: aya::Pod + PartialEq + Default, const N: usize>(
    map: &mut PerCpuArray<MapData, [C; N]>,
    index: u32,
    mut take: impl FnMut(usize, &C),
) -> Result<()>
where
    [C; N]: aya::Pod,
{
    let values = map.get(&index, 0).map_err(map_error)?;
    let mut any = false;
    for counters in values.iter() {
        for (at, counter) in counters.iter().enumerate() {
            if *counter != C::default() {
                any = true;
                take(at, counter);
            }
        }
    }
    if any { clear(map, index) } else { Ok(()) }
}

fn clear<C: aya::Pod + Default, const N: usize>(
    map: &mut PerCpuArray<MapData, [C; N]>,
    index: u32,
) -> Result<()>
where
    [C; N]: aya::Pod,
{
    let processors = nr_cpus().map_err(|(what, error)| Error::Map { why: format!("{what}: {error}") })?;
    let zeros = PerCpuValues::try_from(vec![[C::default(); N]; processors]).map_err(map_error)?;
    map.set(index, zeros, 0).map_err(map_error)
}
