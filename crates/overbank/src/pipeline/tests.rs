//! The order that shards see, for any number of threads, shards and failures.

use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Numbers(Vec<KeyHash>);
impl Rows for Numbers {
    fn hashes(&self) -> &[KeyHash] {
        &self.0
    }
}

/// Keeps every shard's history; a chunk is its index.
struct Replay<'s> {
    chunks: &'s [Vec<u64>],
    fail_at: Option<usize>,
}

impl<'s> Stages for Replay<'s> {
    type Chunk = usize;
    type Rows = Numbers;
    type Shard = &'s mut Vec<u64>;
    type Tally = u64;
    type Error = usize;

    fn parse(&self, chunk: usize, rows: &mut Numbers) -> Result<(), usize> {
        assert_ne!(chunk, 1000, "planted");
        if self.fail_at == Some(chunk) {
            return Err(chunk);
        }
        rows.0 = self.chunks.get(chunk).into_iter().flatten().map(|&high| KeyHash::new(high, 0)).collect();
        Ok(())
    }

    fn apply(&self, history: &mut &'s mut Vec<u64>, _: &mut u64, rows: &Numbers, group: Group<'_>) {
        let hashes = group.hashes();
        assert!((0..hashes.len()).map(|i| rows.0[group.row(i)]).eq(hashes.iter().copied()));
        history.extend(hashes.iter().map(|hash| hash.high()));
    }

    fn finish(&self, tally: &mut u64, rows: &Numbers) -> Result<(), usize> {
        *tally += rows.0.len() as u64;
        Ok(())
    }
}

/// What one thread does, plainly.
fn model(chunks: &[Vec<u64>], lg_shards: u32) -> Vec<Vec<u64>> {
    let mut histories = vec![Vec::new(); 1 << lg_shards];
    for &high in chunks.iter().flatten() {
        histories[high.checked_shr(64 - lg_shards).unwrap_or(0) as usize].push(high);
    }
    histories
}

#[test]
fn with_fewer_threads_than_tallies_the_shards_see_the_same() {
    let chunks: Vec<Vec<u64>> = (0..40u64).map(|i| (0..50).map(|j| (i * 50 + j) << 52).collect()).collect();
    for granted in 0..3 {
        let mut histories = vec![Vec::new(); 8];
        let mut tallies = [0; 4];
        let mut next = 0..chunks.len();
        let stages = Replay { chunks: &chunks, fail_at: None };
        crate::device::thread::refusal::after(granted, || {
            run(&stages, || Ok(next.next()), histories.iter_mut().collect(), &mut tallies).unwrap();
        });
        assert_eq!(histories, model(&chunks, 3));
        assert_eq!(tallies.iter().sum::<u64>(), 2000);
    }
}

proptest! {
    #[test]
    fn shards_see_stream_order_for_any_thread_count(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u64>(), 0..50), 0..20),
        threads in 1usize..6,
        fail_at in proptest::option::of(0usize..20),
        lg_shards in 0u32..4,
    ) {
        let mut tallies = vec![0u64; threads];
        let mut at = 0;
        let next = || {
            at += 1;
            Ok((at <= chunks.len()).then(|| at - 1))
        };
        let mut histories = vec![Vec::new(); 1 << lg_shards];
        let replay = Replay { chunks: &chunks, fail_at };
        let outcome = run(&replay, next, histories.iter_mut().collect(), &mut tallies);
        let good = fail_at.map_or(chunks.len(), |at| at.min(chunks.len()));
        prop_assert_eq!(outcome.err(), fail_at.filter(|at| *at < chunks.len()));
        prop_assert_eq!(histories, model(&chunks[..good], lg_shards));
        prop_assert_eq!(tallies.iter().sum::<u64>(), chunks[..good].iter().map(|c| c.len() as u64).sum::<u64>());
    }
}

#[test]
fn a_panic_ends_every_thread() {
    let outcome = std::panic::catch_unwind(|| {
        let mut at = 0;
        let next = || {
            at += 1;
            Ok(Some(at))
        };
        let mut histories = vec![Vec::new(); 4];
        run(&Replay { chunks: &[], fail_at: None }, next, histories.iter_mut().collect(), &mut [0; 3])
    });
    assert!(outcome.is_err());
}

#[test]
fn the_group_of_one_shard_is_the_chunk_itself() {
    let hashes: Vec<KeyHash> = (0..100).map(|i| KeyHash::new(i << 57, i)).collect();
    let mut groups = Groups::default();
    for lg_shards in [2, 0] {
        groups.assign(&hashes, lg_shards);
        let group = groups.shard(0, &hashes);
        assert_eq!(std::ptr::eq(group.hashes(), &hashes[..]), lg_shards == 0);
        assert_eq!((group.hashes().len(), group.row(7)), (if lg_shards == 0 { 100 } else { 32 }, 7));
    }
}
