//! Which merge is due: a pure function from the runs to a choice.
//!
//! ```text
//!   flush ─▶ level 0   ▯ ▯ ▯ ▯ ▯ ▯ ▯      `fan_out` runs of a level, and what is below it, become one
//!                      └──────┬──────┘
//!            level 1   ▭      ▼     ▭
//!            level 2   ▭▭▭▭▭▭▭▭▭▭▭▭        a level's runs are `fan_out` times as long as those of the one before
//! ```
//!
//! Levels are by length, so that the short runs of frequent commits (levels below 0) grow to be runs of level 0, and a merge that
//! leaves little, of repeated keys perhaps, does not make a run of a high level.
//!
//! Where entries add up, all idle runs of a class may be merged. Where the newest wins, only those of a *stretch*: idle runs of a class
//! with no other run between them in age.

use super::Order;
use super::run::Span;

/// When runs are merged.
///
/// | `T` = fan-out, `L` = levels | blocks written a key, in blocks of keys | runs that a lookup reads |
/// |---|---|---|
/// | tiered | `L` | up to `(T - 1) L` |
/// | lazy-levelled | `L - 1`, and about `T / 2` in the last level | up to `1 + (T - 1) (L - 1)` |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// `fan_out` runs of a level become one of the next: the fewest writes. With a fan-out of 2 it is the paper's cascade.
    Tiered {
        /// How many runs are merged, 2 to 64.
        fan_out: u32,
    },
    /// As tiered, but the last level is one run, into which the others are merged: fewer reads a lookup, more writes.
    LazyLevelled {
        /// How many runs of the other levels are merged, 2 to 64.
        fan_out: u32,
    },
}

impl Policy {
    /// How many runs of a level are merged.
    pub fn fan_out(self) -> u32 {
        match self {
            Policy::Tiered { fan_out } | Policy::LazyLevelled { fan_out } => fan_out,
        }
    }
}

/// A run on flash as a picker sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape<C> {
    pub(crate) id: u64,
    pub(crate) class: C,
    pub(crate) span: Span,
    pub(crate) level: i32,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Bytes of its longest piece.
    pub(crate) longest_piece: u64,
    /// A job reads it.
    pub(crate) is_busy: bool,
}

/// Runs to be merged, by id, and the class of what they become.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice<C> {
    pub(crate) inputs: Vec<u64>,
    pub(crate) class: C,
}

/// The level of a run of that many entries, where `flush_entries` are a run of level 0.
pub(crate) fn level_of(entries: u64, flush_entries: u64, policy: Policy) -> i32 {
    let ratio = entries.max(1) as f64 / flush_entries.max(1) as f64;
    (ratio.ln() / f64::from(policy.fan_out()).ln()).round() as i32
}

/// Groups of several runs that `class_of` says belong together, none of which is busy: what is merged when all is to be merged. Runs it
/// gives no class are left out.
pub(crate) fn idle_groups<C: Copy + Ord>(
    runs: &[Shape<C>],
    class_of: impl Fn(&Shape<C>) -> Option<C>,
) -> Vec<Choice<C>> {
    let mut all: Vec<(C, &Shape<C>)> = runs.iter().filter_map(|run| Some((class_of(run)?, run))).collect();
    all.sort_by_key(|one| one.0);
    let groups = all.chunk_by(|a, b| a.0 == b.0);
    let idle = groups.filter(|group| group.len() > 1 && group.iter().all(|(_, run)| !run.is_busy));
    idle.map(|group| Choice { inputs: group.iter().map(|(_, run)| run.id).collect(), class: group[0].0 })
        .collect()
}

/// A run that is shorter than this share of the next longer ones is left alone for a while.
const REST_SHARE: u64 = 8;

/// The merge that brings lookups to the fewest runs while writers rest; `class_of` is [`Table::whole_class`](super::Table::whole_class).
///
/// Runs of a group, the longest first: `s1 ≥ s2 ≥ …`. From the first `s` on that those behind it are an eighth of, all become one. So after
/// it each run is less than an eighth of the one before, and writers that come in bursts have each entry rewritten 8 times at most for
/// each factor of 8 between what a burst brings and the whole: a merge rewrites `s` only with `s / 8` of entries that came since `s` was
/// made. That leaves three runs or so. Where writers have rested for long, `is_patient`, all but the longest become one, which costs an
/// eighth of the whole at most: two runs are left.
///
/// Where the newest entry wins the longest first means the oldest first, and a longer run behind a shorter one is merged with it.
pub(super) fn restful<C: Copy + Ord>(
    order: Order,
    runs: &[Shape<C>],
    class_of: impl Fn(C) -> C,
    is_patient: bool,
) -> Option<Choice<C>> {
    let groups = idle_groups(runs, |run| Some(class_of(run.class)));
    groups.into_iter().find_map(|group| {
        let mut inputs: Vec<&Shape<C>> = runs.iter().filter(|run| group.inputs.contains(&run.id)).collect();
        if order == Order::Sums {
            inputs.sort_by_key(|run| std::cmp::Reverse(run.bytes));
        }
        let behind = |at: usize| inputs[at + 1..].iter().map(|run| run.bytes).sum::<u64>();
        let is_due = |at: &usize| behind(*at) > 0 && behind(*at) >= inputs[*at].bytes / REST_SHARE;
        let from = (0..inputs.len()).find(is_due).or((is_patient && inputs.len() > 2).then_some(1))?;
        let now = &inputs[from..];
        if from == 0 {
            return Some(Choice { inputs: now.iter().map(|run| run.id).collect(), class: group.class });
        }
        // Runs of several classes become one together with what they act on; before that, those of each.
        now.iter().find_map(|first| {
            let alike = || now.iter().filter(|run| run.class == first.class).map(|run| run.id);
            (alike().count() > 1).then(|| Choice { inputs: alike().collect(), class: first.class })
        })
    })
}

/// Of runs that are all to become one, those to be merged now: all, if that leaves flash to spare, else the shortest, or the newest where
/// the newest entry wins. A merge takes flash beside its inputs: what its open lanes write, `open_bytes`, and of each input the piece
/// that is being read. `spare_bytes` are allowed for that. Each input also holds RAM, so at most `inputs_max` are merged; two in any case.
pub(super) fn sparing<C: Copy + Ord>(
    order: Order,
    runs: &[Shape<C>],
    all: Choice<C>,
    (open_bytes, spare_bytes): (u64, u64),
    inputs_max: usize,
) -> Choice<C> {
    let mut inputs: Vec<&Shape<C>> = runs.iter().filter(|run| all.inputs.contains(&run.id)).collect();
    match order {
        Order::Sums => inputs.sort_by_key(|run| run.bytes),
        Order::NewestWins => inputs.reverse(),
    }
    let mut needed = open_bytes;
    let fits = inputs.iter().take_while(|run| {
        needed += run.longest_piece;
        needed <= spare_bytes
    });
    let now = fits.count().min(inputs_max).max(2);
    Choice { inputs: inputs.iter().take(now).map(|run| run.id).collect(), class: all.class }
}

/// The merge that is due by the length of runs, short runs first. `runs` are all on flash, the oldest first; `others` the ages of what
/// is in RAM.
pub(super) fn due<C: Copy + Ord>(
    order: Order,
    runs: &[Shape<C>],
    others: &[Span],
    flush_entries: u64,
    policy: Policy,
) -> Option<Choice<C>> {
    let fan_out = policy.fan_out() as usize;
    let stretches = stretches(order, runs, others);
    let mut levels: Vec<i32> = stretches.iter().flatten().map(|run| run.level).collect();
    levels.sort_unstable();
    levels.dedup();
    for level in levels {
        for stretch in &stretches {
            let lows = match order {
                Order::Sums => vec![stretch.iter().filter(|run| run.level <= level).copied().collect()],
                // A longer run between two short ones parts them.
                Order::NewestWins => {
                    stretch.split(|run| run.level > level).map(<[_]>::to_vec).collect::<Vec<_>>()
                }
            };
            let is_due =
                |low: &&Vec<&Shape<C>>| low.iter().filter(|run| run.level == level).count() >= fan_out;
            let Some(low) = lows.iter().find(is_due) else { continue };
            let mut inputs = low.clone();
            if let Policy::LazyLevelled { .. } = policy {
                inputs.extend(last_run(order, stretch, low).filter(|last| {
                    let entries = low.iter().map(|run| run.entries).sum();
                    last.level > level && last.level <= level_of(entries, flush_entries, policy)
                }));
            }
            return Some(Choice { inputs: inputs.iter().map(|run| run.id).collect(), class: low[0].class });
        }
    }
    None
}

/// The run of the last level, into which `low` may be merged: the longest, or the next older one where the newest wins.
fn last_run<'a, C>(order: Order, stretch: &[&'a Shape<C>], low: &[&Shape<C>]) -> Option<&'a Shape<C>> {
    match order {
        Order::Sums => stretch.iter().copied().max_by_key(|run| run.level),
        Order::NewestWins => {
            let first = stretch.iter().position(|run| run.id == low[0].id)?;
            first.checked_sub(1).map(|older| stretch[older])
        }
    }
}

/// Idle runs that may be merged with each other, the oldest first.
fn stretches<'a, C: Copy + Ord>(
    order: Order,
    runs: &'a [Shape<C>],
    others: &[Span],
) -> Vec<Vec<&'a Shape<C>>> {
    let mut stretches: Vec<Vec<&Shape<C>>> = Vec::new();
    match order {
        Order::Sums => {
            let mut idle: Vec<&Shape<C>> = runs.iter().filter(|run| !run.is_busy).collect();
            idle.sort_by_key(|run| run.class);
            stretches.extend(idle.chunk_by(|a, b| a.class == b.class).map(<[_]>::to_vec));
        }
        Order::NewestWins => {
            let mut may_join = false;
            for run in runs {
                let is_next = |last: &&Shape<C>| {
                    let both = Span { oldest: last.span.oldest, newest: run.span.newest };
                    last.class == run.class && !others.iter().any(|other| both.overlaps(*other))
                };
                match stretches.last_mut() {
                    Some(stretch) if may_join && !run.is_busy && stretch.last().is_some_and(is_next) => {
                        stretch.push(run);
                    }
                    _ if !run.is_busy => stretches.push(vec![run]),
                    _ => {}
                }
                may_join = !run.is_busy;
            }
        }
    }
    stretches
}
