//! The kernel's programs: which there are, how they are loaded, and how they come to an interface.

use crate::{Error, Result};
use aya::programs::links::FdLink;
use aya::programs::{Xdp, XdpFlags};
use aya::{Ebpf, EbpfLoader};
use keyhash::Seed;

#[cfg(has_program)]
macro_rules! object {
    ($name:literal) => {
        Some(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/", $name, ".o")))
    };
}
#[cfg(not(has_program))]
macro_rules! object {
    ($name:literal) => {
        None
    };
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sketch {
    /// Sizes of flows, never too low.
    CountMin,
    /// Sizes of flows, right on average.
    CountSketch,
    /// Sizes of flows, so that parts of keys may be asked for.
    Coco,
    /// How many flows there are.
    HyperLogLog,
    /// Count-min and HyperLogLog, with one hash.
    Flows,
    /// Nothing, to compare with.
    Empty,
}

impl Sketch {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::CountMin, Self::CountSketch, Self::Coco, Self::HyperLogLog, Self::Flows, Self::Empty];

    /// The program's name, and its object.
    fn object(self) -> (&'static str, Option<&'static [u8]>) {
        match self {
            Self::CountMin => ("count_min", object!("count_min")),
            Self::CountSketch => ("count_sketch", object!("count_sketch")),
            Self::Coco => ("coco", object!("coco")),
            Self::HyperLogLog => ("hyperloglog", object!("hyperloglog")),
            Self::Flows => ("flows", object!("flows")),
            Self::Empty => ("empty", object!("empty")),
        }
    }
}

/// Which fields of a packet make a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowFields {
    /// The sender's address.
    Source = 1,
    /// The receiver's.
    Destination = 2,
    /// Both.
    SourceDestination = 3,
    /// Both, both ports, and the protocol.
    #[default]
    FiveTuple = 31,
}

/// How it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Of XXH3, by which keys are hashed.
    pub seed: Seed,
    /// What makes a flow.
    pub key: FlowFields,
    /// Whether a packet counts its bytes, and not 1.
    pub by_bytes: bool,
    /// The threshold at first, 1 to [`TAU_MAX`](crate::TAU_MAX); of bytes in units of 1 KiB.
    pub tau: u64,
    /// How many flows are known by name at the end of an epoch: twice as many at most meanwhile.
    pub names_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: Seed(0), key: FlowFields::FiveTuple, by_bytes: false, tau: 8, names_max: 4096 }
    }
}

/// How a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver, before the kernel has a buffer for the packet.
    Native,
    /// Behind it, on any interface.
    Generic,
}

/// A program that the kernel has taken.
pub(crate) struct Program {
    pub(crate) ebpf: Ebpf,
    name: &'static str,
    link: Option<FdLink>,
}

impl Program {
    /// Loads the program of a sketch.
    pub(crate) fn load(sketch: Sketch, options: &Options) -> Result<Self> {
        let (name, object) = sketch.object();
        let object = object.ok_or(Error::NoProgram)?;
        let refused = |error: &dyn std::error::Error| Error::Refused { why: chained(error) };
        let (seed, kind, by_bytes) =
            (options.seed.xxh3_seed(), options.key as u32, u32::from(options.by_bytes));
        let mut loader = EbpfLoader::new();
        if sketch != Sketch::Empty {
            loader.set_global("SEED", &seed, true);
            loader.set_global("KIND", &kind, true);
            loader.set_global("BY_BYTES", &by_bytes, true);
        }
        let ebpf = loader.load(object).map_err(|error| refused(&error))?;
        let mut program = Self { ebpf, name, link: None };
        program.xdp()?.load().map_err(|error| refused(&error))?;
        Ok(program)
    }

    pub(crate) fn xdp(&mut self) -> Result<&mut Xdp> {
        match self.ebpf.program_mut(self.name).map(TryInto::try_into) {
            Some(Ok(program)) => Ok(program),
            _ => Err(Error::NoProgram),
        }
    }

    /// Attaches it to an interface, by its driver, else before it; `only` in this mode.
    pub(crate) fn attach(&mut self, interface: &str, only: Option<Mode>) -> Result<Mode> {
        let refused = |native: String, generic: String| Error::Attach {
            interface: interface.to_owned(),
            native,
            generic,
        };
        if interface.contains('\0') {
            return Err(refused("no name has a zero".to_owned(), "no name has a zero".to_owned()));
        }
        let mut whys = [(); 2].map(|()| "not tried".to_owned());
        let modes = [(Mode::Native, XdpFlags::DRV_MODE), (Mode::Generic, XdpFlags::SKB_MODE)];
        for ((mode, flags), why) in modes.into_iter().zip(&mut whys) {
            if only.is_some_and(|only| only != mode) {
                continue;
            }
            let program = self.xdp()?;
            let attached = program.attach(interface, flags).and_then(|id| program.take_link(id));
            match attached.map(FdLink::try_from) {
                Ok(Ok(link)) => {
                    self.link = Some(link);
                    return Ok(mode);
                }
                // Before Linux 5.9: it would stay when the process ends.
                Ok(Err(error)) => *why = chained(&error),
                Err(error) => *why = chained(&error),
            }
        }
        let [native, generic] = whys;
        Err(refused(native, generic))
    }
}

/// An error with what caused it, in one line.
pub(crate) fn chained(error: &dyn std::error::Error) -> String {
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
