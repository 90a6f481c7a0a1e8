//! Which flows the aggregator has heard of, where it cannot be told of all or not yet.

use super::*;

fn known(reader: &Reader<Sizes>) -> Vec<u64> {
    let mut known: Vec<u64> =
        reader.top(0, usize::MAX).expect("live").iter().map(|shown| shown.0.key).collect();
    known.sort_unstable();
    known
}

#[test]
fn a_crowded_ring_is_for_flows_that_are_new() {
    const FLOWS: u64 = 250;
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).start(Sizes::new(1 << 16).expect("valid")).expect("valid");
    // τ is 1, the ring holds 1023 messages, and nobody polls: the packets of the first flow alone are 2250 messages.
    for flow in 1..=FLOWS {
        for other in [0, flow, 0, flow, 0] {
            workers[0].insert(packet(other, 1));
        }
    }
    workers[0].insert_batch(&[]);
    while aggregator.poll(|| 0).applied > 0 {}
    assert_eq!(known(&reader), (0..=FLOWS).collect::<Vec<_>>());
    assert!(reader.worker_stats()[0].kept > 0 && aggregator.messages() < 1023);
    // Of the first one a third is known at least.
    let applied = reader.applied_estimate(flow(0)).expect("shown");
    assert_eq!(reader.size(hash(0), 0.9).estimate, 3 * FLOWS);
    assert!((FLOWS..3 * FLOWS).contains(&applied), "{applied}");
}

#[test]
fn flows_that_came_once_do_not_fill_a_crowded_ring() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).heavy_keys(2048).start(Sizes::new(1 << 16).expect("valid")).expect("valid");
    // One packet of each of a thousand, which are three times as many messages as the ring holds; then two of each of some others.
    (0..1000).for_each(|flow| workers[0].insert(packet(flow, 1)));
    (1000..2200).for_each(|i| workers[0].insert(packet(1000 + i % 200, 1)));
    workers[0].publish();
    while aggregator.poll(|| 0).applied > 0 {}
    let known = known(&reader);
    assert!((1000..1200).all(|flow| known.contains(&flow)), "{} are known", known.len());
}

#[test]
fn a_young_epoch_tells_flows_below_the_threshold() {
    const FLOWS: u64 = 20;
    let Monitor { mut workers, mut aggregator, reader } = MonitorOptions::new(1)
        .policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 })
        .start(Sizes::new(1 << 16).expect("valid"))
        .expect("valid");
    let clock = Clock::default();
    for _ in 0..2 {
        workers[0].insert_batch(&[packet(FLOWS, 300)]);
        clock.pass_ns(100_000);
        aggregator.poll(clock.now());
    }
    assert_eq!(aggregator.tau(), 255);
    let before = aggregator.messages();
    let mut round = || {
        // A receive call's packets are of one flow, half of them in one batch and half in another.
        for flow in 0..FLOWS {
            (0..2).for_each(|_| workers[0].insert_batch(&[packet(flow, 1); 16]));
        }
        while aggregator.poll(clock.now()).applied > 0 {}
        (aggregator.messages() - before, known(&reader).len() as u64 - 1)
    };
    let (mut messages, mut flows) = (Vec::new(), Vec::new());
    (0..6).for_each(|_| {
        let (sent, known) = round();
        messages.push(sent);
        flows.push(known);
    });
    // The 17th packet of a flow tells of it. Of the next that are looked at, the 81st makes twice as many since, and none twice that.
    assert_eq!(flows, [FLOWS; 6]);
    // Two counters that want one slot of those that were sent lately go once more each time.
    let least = [3, 3, 6, 6, 6, 6].map(|each| each * FLOWS);
    let is_right = |(sent, least): (&u64, &u64)| (*least..=least + least / 6).contains(sent);
    assert!(messages.iter().zip(&least).all(is_right), "{messages:?}, at least {least:?}");
    // A new epoch has heard of nobody.
    assert_eq!(aggregator.begin_epoch(), Some(1));
    assert_eq!(workers[0].flush(0), None);
    (0..2).for_each(|_| workers[0].insert_batch(&[packet(3, 1); 16]));
    aggregator.poll(clock.now());
    assert_eq!(reader.top(1, 9).expect("live"), [(flow(3), 32)]);
}

#[test]
fn a_large_sum_is_not_told_early() {
    let Monitor { mut workers, mut aggregator, .. } = MonitorOptions::new(1)
        .policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 })
        .start(Sizes::new(1 << 16).expect("valid"))
        .expect("valid");
    let clock = Clock::default();
    for _ in 0..2 {
        workers[0].insert_batch(&[packet(0, 255 << 14)]);
        clock.pass_ns(100_000);
        aggregator.poll(clock.now());
    }
    let before = aggregator.messages();
    assert_eq!(aggregator.tau(), 255);
    // Fewer than τ, and less than the 2^-14th part of all: nothing that an old epoch has to be told at once.
    (1..100).for_each(|flow| workers[0].insert_batch(&[packet(flow, 2); 100]));
    aggregator.poll(clock.now());
    assert_eq!(aggregator.messages(), before);
}
