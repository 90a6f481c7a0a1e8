//! What becomes of counters and keys where rings are full, and what goes when it is asked for.

use super::*;

#[test]
fn a_full_ring_keeps_counters_and_says_so() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).lg_ring(2).start(Sizes::new(64).expect("valid")).expect("valid");
    // τ is 1, the ring holds three messages, and nobody takes any: a byte would have wrapped 390 times.
    (0..100_000).for_each(|_| workers[0].insert(packet(5, 1)));
    (0..100).for_each(|_| workers[0].insert(packet(6, 1500)));
    assert_eq!(reader.size(hash(5), 0.9).estimate, 100_000);
    assert_eq!(reader.size(hash(6), 0.9).estimate, 150_000);
    workers[0].publish();
    assert!(reader.worker_stats()[0].kept > 300_000 - 3);
    assert!(reader.applied_estimate(flow(5)) <= Some(1), "nothing is applied but what was sent");
    // Once there is room, each counter goes as a whole with its next packet.
    for _ in 0..8 {
        aggregator.poll(|| 0);
        workers[0].insert_batch(&[packet(5, 1)]);
        aggregator.poll(|| 0);
        workers[0].insert_batch(&[packet(6, 1)]);
    }
    aggregator.poll(|| 0);
    assert_eq!(reader.applied_estimate(flow(5)), Some(100_008));
    assert_eq!(reader.applied_estimate(flow(6)), Some(150_008));
}

#[test]
fn a_key_is_known_though_the_ring_was_full_and_its_flow_has_ended() {
    let Monitor { mut workers, mut aggregator, reader } = MonitorOptions::new(1)
        .lg_ring(1)
        .heavy_keys(1)
        .start(Sizes::new(1 << 10).expect("valid"))
        .expect("valid");
    // The ring's one place is taken, and nobody polls.
    workers[0].insert(packet(1, 1));
    (0..100_000).for_each(|_| workers[0].insert(packet(2, 1)));
    // Other flows pass, some of them in the same counters.
    (3..1000).for_each(|flow| workers[0].insert(packet(flow, 1)));
    let is_shown = || reader.top(0, 1).expect("live").iter().any(|shown| shown.0.key == 2);
    assert!(!is_shown() && reader.size(hash(2), 0.9).estimate >= 100_000);
    for _ in 0..1000 {
        aggregator.poll(|| 0);
        workers[0].publish();
    }
    assert!(is_shown());
    assert!(reader.applied_estimate(flow(2)) >= Some(100_000));
}

#[test]
fn flows_of_one_packet_are_known_if_there_is_time_to_wait() {
    for lg_ring in [7, 10] {
        let policy = Allocation::AccuracyTarget { epsilon: 0.99, spread: 1 };
        let Monitor { mut workers, mut aggregator, reader } = MonitorOptions::new(1)
            .lg_ring(lg_ring)
            .policy(policy)
            .window_ns(1)
            .start(Sizes::new(1 << 14).expect("valid"))
            .expect("valid");
        // τ is the highest there is, as there was much before.
        workers[0].insert(packet(1000, 1 << 30));
        let mut now = 0;
        let mut poll = || {
            now += 2;
            aggregator.poll(|| now).applied
        };
        (0..4).for_each(|_| _ = poll());
        let packets: Vec<_> = (0..500).map(|flow| packet(flow, 1)).collect();
        let mut waits = 0;
        workers[0].insert_patiently(&packets[..300], 1, || {
            waits += 1;
            poll();
            true
        });
        while poll() > 0 {}
        let known = || reader.top(0, 1000).expect("live").iter().filter(|flow| flow.0.key < 1000).count();
        assert_eq!((known(), waits > 0), (300, lg_ring == 7), "ring of 2^{lg_ring}");
        // Nobody polls: all is counted, though few become known.
        let mut patience = 3;
        workers[0].insert_patiently(&packets[300..], 255, || {
            patience -= 1;
            patience > 0
        });
        assert!((300..500).all(|flow| reader.size(hash(flow), 0.9).estimate >= 1));
        assert_eq!(reader.total_weight(0), Some((1 << 30) + 500));
        assert!(known() < 500);
    }
}

/// A replay that waits for room has a longer queue than is ever seen: each wait is followed by a poll that leaves none.
#[test]
fn waiting_raises_tau_unless_it_is_for_every_element() {
    const WINDOW_NS: u64 = 1 << 20;
    for (tau_max, is_raised) in [(1, false), (255, true)] {
        let Monitor { mut workers, mut aggregator, .. } = MonitorOptions::new(1)
            .lg_ring(7)
            .window_ns(WINDOW_NS)
            .start(Sizes::new(1 << 14).expect("valid"))
            .expect("valid");
        let (mut now, mut waits) = (0, 0);
        for batch in 0..20 {
            let packets: Vec<_> = (0..1000).map(|flow| packet(1000 * batch + flow, 1)).collect();
            workers[0].insert_patiently(&packets, tau_max, || {
                now += WINDOW_NS;
                waits += 1;
                aggregator.poll(|| now);
                true
            });
        }
        assert_eq!(aggregator.tau() > 4, is_raised, "{}", aggregator.tau());
        // Three messages of each packet, 127 to a ring.
        assert_eq!(waits < 20 * 3000 / 127 / 4, is_raised, "{waits}");
    }
}

#[test]
fn keys_that_are_owed_go_with_their_epoch_and_their_worker() {
    let options = MonitorOptions::new(1).lg_ring(4);
    let Monitor { mut workers, mut aggregator, reader } =
        options.start(Sizes::new(1 << 10).expect("valid")).expect("valid");
    let shown = |epoch: u64| {
        let mut keys: Vec<u64> =
            reader.top(epoch, 9).expect("kept").iter().map(|shown| shown.0.key).collect();
        keys.sort_unstable();
        keys
    };
    for epoch in 0..2 {
        // The ring holds 15 messages, so the three counters of the last flow are kept.
        (0..5).for_each(|flow| workers[0].insert(packet(10 * epoch + flow, 1)));
        (0..100).for_each(|_| workers[0].insert(packet(10 * epoch + 5, 1)));
        aggregator.poll(|| 0);
        if epoch == 0 {
            assert_eq!(aggregator.begin_epoch(), Some(1));
        }
    }
    workers.clear();
    (0..4).for_each(|_| {
        aggregator.poll(|| 0);
    });
    assert_eq!(shown(0), (0..6).collect::<Vec<_>>());
    assert_eq!(shown(1), (10..16).collect::<Vec<_>>());
}

#[test]
fn a_weight_that_a_message_has_no_room_for_goes_in_parts() {
    for weight in [1 << 39, (1 << 39) + 1000, 5 << 39] {
        let Monitor { mut workers, mut aggregator, reader } =
            MonitorOptions::new(1).start(Sizes::new(64).expect("valid")).expect("valid");
        workers[0].insert(packet(4, weight));
        for _ in 0..8 {
            assert_eq!(reader.size(hash(4), 0.9).estimate, weight);
            workers[0].publish();
            assert_eq!(reader.size(hash(4), 0.9).estimate, weight);
            aggregator.poll(|| 0);
        }
        assert_eq!(reader.applied_estimate(flow(4)), Some(weight));
        assert_eq!(reader.top(0, 1), Some(vec![(flow(4), weight)]));
        // The first message was the packet's; a flush sends the others at once.
        workers[0].insert(packet(4, weight));
        assert_eq!(workers[0].flush(0), None);
        aggregator.poll(|| 0);
        assert_eq!(reader.applied_estimate(flow(4)), Some(2 * weight));
    }
}

#[test]
fn a_flush_sends_all_there_is() {
    let Monitor { mut workers, mut aggregator, reader } = MonitorOptions::new(2)
        .lg_ring(4)
        .policy(Allocation::AccuracyTarget { epsilon: 0.9, spread: 1 })
        .start(Sizes::new(256).expect("valid"))
        .expect("valid");
    let clock = Clock::default();
    (0..3).for_each(|i| {
        workers[0].insert_batch(&[packet(9, 300 + i)]);
        clock.pass_ns(100_000);
        aggregator.poll(clock.now());
    });
    assert_eq!(aggregator.tau(), 255);
    (0..200).for_each(|i| workers[i as usize % 2].insert(packet(i, 1 + i % 7)));
    for worker in &mut workers {
        let mut from = 0;
        while let Some(next) = worker.flush(from) {
            from = next;
            aggregator.poll(clock.now());
        }
    }
    while aggregator.poll(clock.now()).applied > 0 {}
    for key in 0..200 {
        assert_eq!(reader.applied_estimate(flow(key)), Some(reader.size(hash(key), 0.9).estimate));
    }
}

#[test]
fn a_flush_begins_anew_with_an_epoch() {
    let Monitor { mut workers, mut aggregator, reader } =
        MonitorOptions::new(1).lg_ring(1).start(Sizes::new(64).expect("valid")).expect("valid");
    let worker = &mut workers[0];
    (0..100).for_each(|i| worker.insert(packet(i, 1)));
    let mut from = 0;
    while from < 100 {
        from = worker.flush(from).expect("far more counters than places in the ring");
        aggregator.poll(|| 0);
    }
    assert_eq!(aggregator.begin_epoch(), Some(1));
    (0..100).for_each(|i| worker.insert(packet(i, 1)));
    let mut next = Some(from);
    while let Some(from) = next {
        aggregator.poll(|| 0);
        next = worker.flush(from);
    }
    aggregator.poll(|| 0);
    for key in 0..100 {
        assert_eq!(reader.applied_estimate(flow(key)), Some(reader.size(hash(key), 0.9).estimate));
    }
    assert_eq!(worker.flush(usize::MAX), None);
}
