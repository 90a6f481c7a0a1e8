//! Which of the pending changes survive a power cut, and the one line that names the choice.

use std::fmt;
use std::str::FromStr;

/// How a crash treats what was not yet synced. Every kind draws its choices from one seed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Plan {
    /// All of it is lost.
    Nothing,
    /// All of it is there.
    Everything,
    /// All data is there, no directory entry is.
    DataOnly,
    /// All directory entries are there, no data is.
    NamesOnly,
    /// Each operation is there or not, independently; lengths apart from data.
    Operations,
    /// As `Operations`, and writes reach the disk in another order.
    Reordered,
    /// Each 512-byte sector of each write is there or not, independently.
    Sectors,
    /// As `Sectors`, reordered, and one sector in each file holds garbage.
    Garbage,
}

impl Plan {
    /// All kinds.
    pub const ALL: [Plan; 8] = [
        Plan::Nothing,
        Plan::Everything,
        Plan::DataOnly,
        Plan::NamesOnly,
        Plan::Operations,
        Plan::Reordered,
        Plan::Sectors,
        Plan::Garbage,
    ];

    /// Whether different seeds give different disks.
    pub fn is_random(self) -> bool {
        matches!(self, Plan::Operations | Plan::Reordered | Plan::Sectors | Plan::Garbage)
    }

    pub(super) fn keeps_name(self, rng: &mut Rng) -> bool {
        match self {
            Plan::Nothing | Plan::DataOnly => false,
            Plan::Everything | Plan::NamesOnly => true,
            _ => rng.coin(),
        }
    }

    pub(super) fn keeps_no_data(self) -> bool {
        matches!(self, Plan::Nothing | Plan::NamesOnly)
    }

    pub(super) fn keeps_all_data(self) -> bool {
        matches!(self, Plan::Everything | Plan::DataOnly)
    }

    pub(super) fn keeps_operation(self, rng: &mut Rng) -> bool {
        rng.coin()
    }

    pub(super) fn reorders(self) -> bool {
        matches!(self, Plan::Reordered | Plan::Garbage)
    }

    pub(super) fn tears_sectors(self) -> bool {
        matches!(self, Plan::Sectors | Plan::Garbage)
    }

    pub(super) fn leaves_garbage(self) -> bool {
        self == Plan::Garbage
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// One crash: the operation it comes before, the plan, and the seed of the plan's choices. Prints as one word, such
/// as `41:Sectors:7`, and parses from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Crash {
    /// Index of the changing operation that is in flight.
    pub operation: usize,
    /// What survives.
    pub plan: Plan,
    /// Seed of the choices.
    pub seed: u64,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.operation, self.plan, self.seed)
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let parts: Vec<&str> = s.split(':').collect();
        let [operation, plan, seed] = parts[..] else {
            return Err(format!("{s:?} is not operation:plan:seed"));
        };
        let plan = Plan::ALL.into_iter().find(|p| p.to_string() == plan);
        Ok(Crash {
            operation: operation.parse().map_err(|e| format!("operation: {e}"))?,
            plan: plan.ok_or_else(|| format!("{s:?} names no plan"))?,
            seed: seed.parse().map_err(|e| format!("seed: {e}"))?,
        })
    }
}

/// SplitMix64 with a biased coin: most crashes lose either little or much, and a fair coin finds neither.
#[derive(Clone, Debug)]
pub(super) struct Rng {
    state: u64,
    keep_of_16: u64,
}

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng { state: seed, keep_of_16: 8 };
        rng.keep_of_16 = [2, 8, 8, 14][rng.below(4) as usize];
        rng
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, range: u64) -> u64 {
        keyhash::range_of(self.next(), range)
    }

    fn coin(&mut self) -> bool {
        self.below(16) < self.keep_of_16
    }

    pub(super) fn shuffle(&mut self, items: &mut [usize]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
