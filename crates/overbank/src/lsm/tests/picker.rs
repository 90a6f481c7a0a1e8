//! What is chosen to be merged: only idle runs of one class and, where the newest entry wins, only neighbours in age.

use super::Random;
use crate::lsm::Order;
use crate::lsm::picker::{Choice, Policy, Shape, due, level_of, sparing};
use crate::lsm::run::Span;

const FLUSH_ENTRIES: u64 = 100;

/// Runs of one memtable or several, the oldest first; now and then a memtable is in RAM still.
fn shapes(random: &mut Random, policy: Policy) -> (Vec<Shape<u64>>, Vec<Span>) {
    let (mut runs, mut in_memory, mut age) = (Vec::new(), Vec::new(), 0);
    for id in 0..2 + random.below(20) {
        let memtables = 1 + random.below(3);
        let span = Span { oldest: age, newest: age + memtables - 1 };
        age += memtables;
        if random.below(8) == 0 {
            in_memory.push(span);
            continue;
        }
        let entries = FLUSH_ENTRIES << random.below(6);
        let level = level_of(entries, FLUSH_ENTRIES, policy);
        let (class, is_busy) = (random.below(5) / 4, random.below(8) == 0);
        runs.push(Shape { id, class, span, level, entries, bytes: entries, longest_piece: entries, is_busy });
    }
    (runs, in_memory)
}

fn policies() -> [Policy; 4] {
    [
        Policy::Tiered { fan_out: 2 },
        Policy::Tiered { fan_out: 4 },
        Policy::LazyLevelled { fan_out: 2 },
        Policy::LazyLevelled { fan_out: 3 },
    ]
}

fn chosen<'a>(runs: &'a [Shape<u64>], choice: &Choice<u64>) -> Vec<&'a Shape<u64>> {
    runs.iter().filter(|run| choice.inputs.contains(&run.id)).collect()
}

#[test]
fn where_the_newest_entry_wins_only_neighbours_in_age_are_merged() {
    let mut merges = 0;
    for seed in 0..20_000 {
        let policy = policies()[seed as usize % 4];
        let (runs, in_memory) = shapes(&mut Random(seed), policy);
        let choice = due(Order::NewestWins, &runs, &in_memory, FLUSH_ENTRIES, policy);
        let Some(choice) = choice else { continue };
        merges += 1;
        let inputs = chosen(&runs, &choice);
        let whole = Span::joined(inputs.iter().map(|run| run.span)).unwrap();
        let others = runs.iter().filter(|run| !choice.inputs.contains(&run.id)).map(|run| run.span);
        for other in others.chain(in_memory) {
            assert!(!whole.overlaps(other), "seed {seed}: {other:?} came within {inputs:?}");
        }
    }
    assert!(merges > 5_000, "{merges} merges");
}

#[test]
fn only_idle_runs_of_one_class_are_merged_and_no_fewer_than_the_fan_out_of_a_level() {
    let (mut merges, mut parted) = (0, 0);
    for seed in 0..20_000 {
        let policy = policies()[seed as usize % 4];
        let (runs, in_memory) = shapes(&mut Random(seed), policy);
        for order in [Order::Sums, Order::NewestWins] {
            let choice = due(order, &runs, &in_memory, FLUSH_ENTRIES, policy);
            let Some(choice) = choice else { continue };
            let inputs = chosen(&runs, &choice);
            assert!(inputs.iter().all(|run| run.class == choice.class && !run.is_busy), "seed {seed}");
            let of_a_level = |level| inputs.iter().filter(|run| run.level == level).count();
            let most = inputs.iter().map(|run| of_a_level(run.level)).max().unwrap();
            assert!(most >= policy.fan_out() as usize, "seed {seed}: {inputs:?}");
            merges += 1;
            let whole = Span::joined(inputs.iter().map(|run| run.span)).unwrap();
            let within = |run: &&Shape<u64>| whole.overlaps(run.span) && !choice.inputs.contains(&run.id);
            parted += u64::from(runs.iter().any(|run| within(&run)));
        }
    }
    assert!(
        merges > 10_000 && parted > 1_000,
        "{merges} merges, {parted} of them of no neighbours, where entries add up"
    );
}

#[test]
fn the_last_level_takes_in_what_would_stand_beside_it() {
    let policy = Policy::LazyLevelled { fan_out: 3 };
    let run = |id, entries| Shape {
        id,
        class: 0,
        span: Span { oldest: id, newest: id },
        level: level_of(entries, FLUSH_ENTRIES, policy),
        entries,
        bytes: entries,
        longest_piece: entries,
        is_busy: false,
    };
    let runs = [run(0, 300), run(1, 100), run(2, 100), run(3, 100)];
    for order in [Order::Sums, Order::NewestWins] {
        let choice = due(order, &runs, &[], FLUSH_ENTRIES, policy).unwrap();
        assert_eq!(chosen(&runs, &choice).len(), 4, "{order:?}");
        let long = [run(0, 2_700), runs[1], runs[2], runs[3]];
        let choice = due(order, &long, &[], FLUSH_ENTRIES, policy).unwrap();
        assert_eq!(chosen(&long, &choice).len(), 3, "{order:?}");
    }
}

#[test]
fn what_is_not_due_reads_no_more_runs_at_a_time_than_memory_has_room_for() {
    let policy = Policy::Tiered { fan_out: 4 };
    let (runs, _) =
        (2..).map(|seed| shapes(&mut Random(seed), policy)).find(|(runs, _)| runs.len() > 12).unwrap();
    let all = || Choice { inputs: runs.iter().map(|run| run.id).collect(), class: 0 };
    for (inputs_max, expected) in [(4, 4), (1, 2), (100, runs.len())] {
        for order in [Order::Sums, Order::NewestWins] {
            let choice = sparing(order, &runs, all(), (0, u64::MAX), inputs_max);
            assert_eq!(choice.inputs.len(), expected, "{order:?}");
            let now = chosen(&runs, &choice);
            let left = || runs.iter().filter(|run| !choice.inputs.contains(&run.id));
            let comes_first = |run: &Shape<u64>, other: &Shape<u64>| match order {
                Order::Sums => run.bytes <= other.bytes,
                Order::NewestWins => run.span.newest > other.span.newest,
            };
            assert!(now.iter().all(|run| left().all(|other| comes_first(run, other))), "{order:?}");
        }
    }
}
