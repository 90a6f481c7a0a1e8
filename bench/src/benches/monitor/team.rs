//! Workers and an aggregator on threads of their own, timed: what a packet costs a worker.
//!
//! | team | a worker's packet |
//! |---|---|
//! | `overbank` | is hashed, 32 at a time, and inserted |
//! | `overbank_wide` | likewise, with τ at 255 almost from the start: the published code has it fixed at 127 |
//! | `overbank_hashed` | is inserted; its hash was known |
//! | `sketch_merge` | is hashed and inserted; after each batch the worker looks whether it has a sketch back |
//! | `iceberg` | is hashed and inserted; after each batch the worker looks whether it is asked |
//! | `ideal` | is hashed and inserted into the sketch of all, and there is nobody else |
//!
//! Time is that of the workers' own threads, from the first packet to the last. Where there are more threads than cores, only their CPU
//! time says what a core would do.

use super::crew::BATCH;
use super::single::Single;
use super::stream::{HASHER, HEAVY_SHARE, Record};
use super::subject::{Counters, KeyOf, Plain, Polling as _, Subject, Working as _};
use crate::digest::mix;
use crate::{Result, thread_cpu_ns};
use keyhash::KeyHash;
use overbank::monitor::{Allocation, MonitorOptions};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// What workers took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Taken {
    /// From the first that began to the last that ended.
    pub(super) wall_ns: u64,
    /// Of all workers together.
    pub(super) cpu_ns: u64,
    /// Of each batch, where that was asked for.
    pub(super) batches_ns: Vec<u64>,
}

/// What is timed: everything, or each batch, which costs two looks at the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timed {
    Whole,
    Batches,
}

/// What the framework's workers are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Given {
    Keys,
    /// Keys, and a policy that lets τ rise.
    KeysSeldomSent,
    Hashes,
}

/// Each worker's packets: in turn.
pub(super) fn shares(keys: &[u64], workers: usize) -> Vec<Vec<u64>> {
    let share = |worker| keys.iter().skip(worker).step_by(workers).copied().collect();
    (0..workers).map(share).collect()
}

/// The framework's workers.
///
/// # Errors
/// Those of the sketch, and a thread that panicked; so in all that follow.
pub(super) fn ours<S: Subject>(subject: S, shares: &[Vec<u64>], given: Given, timed: Timed) -> Result<Taken> {
    let policy = match given {
        Given::KeysSeldomSent => Allocation::AccuracyTarget { epsilon: 0.1, spread: 1 },
        Given::Keys | Given::Hashes => Allocation::BestAccuracy,
    };
    let options = MonitorOptions::new(shares.len()).policy(policy);
    let (workers, mut aggregator, _) = subject.start(options)?;
    let working = AtomicUsize::new(shares.len());
    let bodies = workers.into_iter().zip(shares).map(|(mut worker, keys)| {
        let known = if given == Given::Hashes { elements(subject, keys) } else { Vec::new() };
        let (mut hashes, mut batch) = (Hashes::default(), Vec::with_capacity(BATCH));
        let working = &working;
        move |start: &Start| {
            let span = start.time(timed, |laps| {
                known.chunks(BATCH).for_each(|batch| laps.lap(|| worker.insert_batch(batch)));
                for keys in if given == Given::Hashes { &[] } else { keys.as_slice() }.chunks(BATCH) {
                    laps.lap(|| {
                        batch.clear();
                        batch.extend(hashes.records(keys).map(|record| subject.element(&record)));
                        worker.insert_batch(&batch);
                    });
                }
            });
            working.fetch_sub(1, Ordering::Release);
            span
        }
    });
    let begun = Instant::now();
    on_threads(bodies.collect(), || {
        while working.load(Ordering::Acquire) > 0 {
            aggregator.poll(|| begun.elapsed().as_nanos() as u64);
        }
    })
}

/// Packets as the framework takes them.
pub(super) fn elements<S: Subject>(subject: S, keys: &[u64]) -> Vec<S::Element> {
    let (mut hashes, mut elements) = (Hashes::default(), Vec::with_capacity(keys.len()));
    for keys in keys.chunks(BATCH) {
        elements.extend(hashes.records(keys).map(|record| subject.element(&record)));
    }
    elements
}

/// One thread, one sketch.
pub(super) fn ideal<S: Subject>(subject: S, keys: &[u64]) -> Result<Taken> {
    let mut sketch = subject.ideal()?;
    let body = move |start: &Start| {
        let mut hashes = Hashes::default();
        start.time(Timed::Whole, |_| {
            for keys in keys.chunks(BATCH) {
                hashes.records(keys).for_each(|record| sketch.insert(&record));
            }
        })
    };
    on_threads(vec![body], || ())
}

/// Workers that hand sketches over, and an aggregator that merges them: see [`Merging`](super::crew::Merging).
pub(super) fn merging<S: Subject>(subject: S, shares: &[Vec<u64>], timed: Timed) -> Result<Taken> {
    let (hand_over, handed) = channel::<(usize, S::Own)>();
    let (mut bodies, mut backs, mut total) = (Vec::new(), Vec::new(), subject.own()?);
    for (worker, keys) in shares.iter().enumerate() {
        let (back, spares) = channel();
        back.send(subject.own()?).map_err(|_| "nobody takes a sketch")?;
        backs.push(back);
        let (mut filling, hand_over) = (subject.own()?, hand_over.clone());
        bodies.push(move |start: &Start| {
            let mut hashes = Hashes::default();
            start.time(timed, |laps| {
                for keys in keys.chunks(BATCH) {
                    laps.lap(|| {
                        hashes.records(keys).for_each(|record| filling.insert(&record));
                        if let Ok(spare) = spares.try_recv() {
                            // Nobody hears it once the aggregator has failed, which it tells itself.
                            let _ = hand_over.send((worker, std::mem::replace(&mut filling, spare)));
                        }
                    });
                }
            })
        });
    }
    drop(hand_over);
    on_threads(bodies, || {
        while let Ok((worker, mut sketch)) = handed.recv() {
            total.join(&sketch);
            sketch.clear();
            // A worker that is done does not want it back.
            let _ = backs[worker].send(sketch);
        }
    })
}

/// What Iceberg's aggregator asks.
enum Ask<K> {
    Heavy,
    Counts(Vec<K>),
}

/// What a worker replies.
enum Reply<K> {
    Heavy(Vec<K>),
    Counts(Vec<u64>),
}

/// Workers that are asked, and an aggregator that asks round after round: see [`Asking`](super::crew::Asking).
pub(super) fn asking<S: Counters<Own = Plain<S>>>(
    subject: S,
    shares: &[Vec<u64>],
    timed: Timed,
) -> Result<Taken> {
    let (mut bodies, mut asks, mut replies) = (Vec::new(), Vec::new(), Vec::new());
    for keys in shares {
        let (ask, asked) = channel::<Ask<KeyOf<S>>>();
        let (reply, replied) = channel::<Reply<KeyOf<S>>>();
        asks.push(ask);
        replies.push(replied);
        let mut sketch = subject.own()?;
        bodies.push(move |start: &Start| {
            let (mut hashes, mut packets) = (Hashes::default(), 0);
            start.time(timed, |laps| {
                for keys in keys.chunks(BATCH) {
                    laps.lap(|| {
                        hashes.records(keys).for_each(|record| sketch.insert(&record));
                        packets += keys.len();
                        if let Ok(ask) = asked.try_recv() {
                            let _ = reply.send(answer(&sketch, packets, ask));
                        }
                    });
                }
            })
        });
    }
    on_threads(bodies, || while round(&asks, &replies).is_some() {})
}

fn answer<S: Counters>(sketch: &Plain<S>, packets: usize, ask: Ask<KeyOf<S>>) -> Reply<KeyOf<S>> {
    let threshold = HEAVY_SHARE * packets as f64;
    match ask {
        Ask::Heavy => {
            Reply::Heavy(sketch.keys().filter(|&key| sketch.weight(key) as f64 > threshold).collect())
        }
        Ask::Counts(keys) => Reply::Counts(keys.into_iter().map(|key| sketch.weight(key)).collect()),
    }
}

/// A round; `None` once a worker has ended.
fn round<K: Copy + PartialEq>(
    asks: &[Sender<Ask<K>>],
    replies: &[Receiver<Reply<K>>],
) -> Option<Vec<(K, u64)>> {
    asks.iter().try_for_each(|ask| ask.send(Ask::Heavy)).ok()?;
    let mut sums: Vec<(K, u64)> = Vec::new();
    for reply in replies {
        let Ok(Reply::Heavy(keys)) = reply.recv() else { return None };
        for key in keys {
            if sums.iter().all(|sum| sum.0 != key) {
                sums.push((key, 0));
            }
        }
    }
    let ask = || Ask::Counts(sums.iter().map(|sum| sum.0).collect());
    asks.iter().try_for_each(|to| to.send(ask())).ok()?;
    for reply in replies {
        let Ok(Reply::Counts(counts)) = reply.recv() else { return None };
        sums.iter_mut().zip(counts).for_each(|(sum, count)| sum.1 += count);
    }
    Some(sums)
}

/// Hashes of a batch.
#[derive(Debug, Default)]
struct Hashes {
    hashes: [KeyHash; BATCH],
    number: u64,
}

impl Hashes {
    /// The packets of at most [`BATCH`] keys.
    #[inline(always)]
    fn records<'k>(&'k mut self, keys: &'k [u64]) -> impl Iterator<Item = Record> + 'k {
        let hashes = &mut self.hashes[..keys.len()];
        HASHER.hash_u64s(keys, hashes);
        let first = self.number;
        self.number = self.number.wrapping_add(BATCH as u64);
        let record =
            move |(at, (&key, &hash)): (u64, (&u64, &KeyHash))| Record { flow: 0, key, hash, item: mix(at) };
        (first..).zip(keys.iter().zip(&*hashes)).map(record)
    }
}

/// What workers begin with, all at once.
struct Start {
    barrier: Barrier,
    begun: Instant,
}

/// When a worker worked.
struct Span {
    from_ns: u64,
    to_ns: u64,
    cpu_ns: u64,
    laps: Laps,
}

/// What batches took, if that is asked for.
struct Laps(Option<Vec<u64>>);

impl Laps {
    #[inline(always)]
    fn lap(&mut self, batch: impl FnOnce()) {
        let Some(laps) = &mut self.0 else { return batch() };
        let begun = Instant::now();
        batch();
        laps.push(begun.elapsed().as_nanos() as u64);
    }
}

impl Start {
    fn time(&self, timed: Timed, work: impl FnOnce(&mut Laps)) -> Span {
        // Room for all, so that none is allocated meanwhile.
        let mut laps = Laps((timed == Timed::Batches).then(|| Vec::with_capacity(1 << 20)));
        self.barrier.wait();
        let (from_ns, cpu_ns) = (self.begun.elapsed().as_nanos() as u64, thread_cpu_ns());
        work(&mut laps);
        let (to_ns, cpu_ns) = (self.begun.elapsed().as_nanos() as u64, thread_cpu_ns() - cpu_ns);
        Span { from_ns, to_ns, cpu_ns, laps }
    }
}

/// Runs each worker on a thread of its own, and the aggregator on this one.
fn on_threads<B: FnOnce(&Start) -> Span + Send>(workers: Vec<B>, aggregator: impl FnOnce()) -> Result<Taken> {
    let start = Start { barrier: Barrier::new(workers.len()), begun: Instant::now() };
    let spans = std::thread::scope(|scope| {
        let start = &start;
        let workers: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || worker(start))).collect();
        aggregator();
        workers.into_iter().map(|worker| worker.join().map_err(|_| "a worker panicked")).collect::<Vec<_>>()
    });
    let spans = spans.into_iter().collect::<std::result::Result<Vec<Span>, _>>()?;
    let from = spans.iter().map(|span| span.from_ns).min().unwrap_or(0);
    let to = spans.iter().map(|span| span.to_ns).max().unwrap_or(0);
    Ok(Taken {
        wall_ns: to - from,
        cpu_ns: spans.iter().map(|span| span.cpu_ns).sum(),
        batches_ns: spans.into_iter().flat_map(|span| span.laps.0.unwrap_or_default()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::stream::Stream;
    use super::super::subject::{Shape, Sizes};
    use super::*;

    #[test]
    fn a_round_sums_what_all_workers_have() {
        let (asks, asked): (Vec<_>, Vec<_>) = (0..2).map(|_| channel::<Ask<u64>>()).unzip();
        let (reply, replies): (Vec<_>, Vec<_>) = (0..2).map(|_| channel::<Reply<u64>>()).unzip();
        let lists = [vec![(1, 10), (2, 5)], vec![(2, 7), (3, 1)]];
        for (list, reply) in lists.iter().zip(&reply) {
            reply.send(Reply::Heavy(list.iter().map(|flow| flow.0).collect())).expect("it is heard");
            let count = |key| list.iter().find(|flow| flow.0 == key).map_or(0, |flow| flow.1);
            reply.send(Reply::Counts([1, 2, 3].map(count).into())).expect("it is heard");
        }
        assert_eq!(round(&asks, &replies), Some(vec![(1, 10), (2, 12), (3, 1)]));
        assert!(matches!(asked[1].try_iter().last(), Some(Ask::Counts(keys)) if keys == [1, 2, 3]));
        drop(asked);
        assert_eq!(round(&asks, &replies), None, "a worker has ended");
    }

    #[test]
    fn every_team_ends() {
        let stream = Stream::zipf(1.1, 100, 3_000);
        let keys: Vec<u64> = stream.records().iter().map(|record| record.key).collect();
        let (subject, shares) = (Sizes::with_shape(Shape::SMALL), shares(&keys, 3));
        assert_eq!(shares.iter().map(Vec::len).sum::<usize>(), keys.len());
        let teams = [
            ours(subject, &shares, Given::Keys, Timed::Batches),
            ours(subject, &shares, Given::KeysSeldomSent, Timed::Batches),
            ours(subject, &shares, Given::Hashes, Timed::Batches),
            merging(subject, &shares, Timed::Batches),
            asking(subject, &shares, Timed::Batches),
        ];
        for taken in teams {
            let taken = taken.expect("no thread panics");
            assert!(taken.wall_ns > 0 && taken.cpu_ns > 0);
            assert_eq!(taken.batches_ns.len(), 3 * 1000usize.div_ceil(BATCH));
        }
        let taken = ideal(subject, &keys).expect("no thread panics");
        assert!(taken.wall_ns > 0 && taken.batches_ns.is_empty());
    }

    #[test]
    fn packets_that_are_hashed_in_batches_are_those_of_the_stream() {
        let keys: Vec<u64> = (0..100).collect();
        let elements = elements(Sizes::with_shape(Shape::SMALL), &keys);
        assert_eq!(elements.len(), 100);
        assert!(
            elements
                .iter()
                .zip(&keys)
                .all(|(packet, &key)| packet.hash == HASHER.hash_u64(key) && packet.key == key)
        );
    }
}
