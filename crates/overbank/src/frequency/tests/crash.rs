//! Power cuts at every operation of a workload, and devices that fail: the reopened sketch is that of the last commit, or of
//! the one in flight; a sketch that goes on after a full disk is that of all updates it took.

use super::*;
use crate::device::Device;
use crate::device::sim::explore::{self, Found, History, Subject};
use crate::device::sim::{Fault, FaultKind};

const KEYS: u64 = 60;

/// A sketch, and its commits.
struct Sketch {
    commits: u64,
}

/// Odd seeds have one large group, so that small logs are merged. Two seeds each have cells of 32, 8 and 4 bits.
fn options(seed: u64) -> FrequencyOptions {
    let (pages, group_pages) = if seed.is_multiple_of(2) { (7, 2) } else { (40, 64) };
    let cell_bits = [32, 8, 4][(seed / 2 % 3) as usize];
    let options = FrequencyOptions::new().cell_bits(cell_bits).bytes(pages << 12, 5).group_pages(group_pages);
    options.memory_bytes(4 << 20).pending(2)
}

fn probes(store: &Store) -> Vec<KeyHash> {
    keys(store, 0..KEYS)
}

impl Subject for Sketch {
    type Answers = Vec<u64>;

    fn work(
        &self,
        device: Arc<dyn Device>,
        seed: u64,
        history: &mut History<'_, Vec<u64>>,
    ) -> crate::Result<()> {
        let store = Store::create_on(device, store_options())?;
        history.created();
        let sketch = store.frequency("f", options(seed))?;
        let (mut model, mut random) = (Model::default(), Random(seed));
        let answers = |model: &Model| model.estimates(&sketch, &store.hasher(), &probes(&store));
        for number in 0..self.commits {
            for _ in 0..random.below(5) {
                let hashes = keys(&store, (0..1 + random.below(40)).map(|_| random.below(KEYS)));
                let result = match random.below(6) {
                    0..=2 => {
                        let taken = history.survive(sketch.update(&hashes, None))?;
                        hashes.iter().filter(|_| taken).for_each(|&hash| model.add(hash, 1));
                        continue;
                    }
                    3 => sketch.sketch.flush(),
                    4 => sketch.apply(),
                    _ => {
                        let weights: Vec<u64> = hashes.iter().map(|_| random.below(1000)).collect();
                        let taken = history.survive(sketch.update(&hashes, Some(&weights)))?;
                        let pairs = hashes.iter().zip(&weights).filter(|_| taken);
                        pairs.for_each(|(&hash, &weight)| model.add(hash, weight));
                        continue;
                    }
                };
                history.survive(result)?;
            }
            // Whatever failed before, the sketch counts what it took.
            let expected = answers(&model);
            assert_eq!(sketch.estimate(&probes(&store))?, expected);
            history.commit(expected, || store.commit(&number.to_le_bytes()).map(drop))?;
        }
        Ok(())
    }

    fn open(&self, image: &SimDevice) -> Result<Found<Vec<u64>>, String> {
        let store = match Store::open_on(Arc::new(image.clone()), store_options()) {
            Err(Error::NotAStore { .. }) => return Ok(Found::NoStore),
            store => store.map_err(|error| format!("cannot open the store: {error}"))?,
        };
        if store.record("f").is_none() {
            return Ok(Found::Empty);
        }
        let sketch = store
            .frequency("f", FrequencyOptions::new())
            .map_err(|e| format!("cannot open the sketch: {e}"))?;
        let answers = sketch.estimate(&probes(&store));
        Ok(Found::Answers(answers.map_err(|error| format!("cannot ask it: {error}"))?))
    }

    fn go_on(&self, image: &SimDevice) -> Result<Vec<u64>, String> {
        let store = Store::open_on(Arc::new(image.clone()), store_options()).map_err(|e| e.to_string())?;
        let sketch = store.frequency("f", FrequencyOptions::new()).map_err(|e| e.to_string())?;
        let mut expected = Vec::new();
        for turn in 0..3 {
            let hashes = probes(&store);
            let work = |sketch: &Frequency| {
                sketch.update(&hashes, None)?;
                if turn == 1 { sketch.apply() } else { sketch.sketch.flush() }?;
                sketch.estimate(&hashes)
            };
            expected = work(&sketch).map_err(|error| format!("after recovery: {error}"))?;
        }
        store.commit(b"after").map_err(|error| format!("a commit after recovery: {error}"))?;
        Ok(expected)
    }
}

#[test]
fn a_crash_anywhere_leaves_the_last_commit_or_the_one_in_flight() {
    let states = explore::crash_everywhere(&Sketch { commits: 12 }, 0..6, 4);
    assert!(states >= 10_000, "only {states} crash states");
}

#[test]
fn the_exploration_sees_a_missing_sync() {
    assert!(explore::sees_a_missing_sync(&Sketch { commits: 12 }, 0..6));
}

#[test]
fn a_failing_device_leaves_a_commit_and_a_full_one_leaves_every_answer() {
    // Several groups, so that a pass may stop between them, and one.
    explore::fail_everywhere(&Sketch { commits: 5 }, [4, 3].into_iter());
}

#[test]
fn a_pass_that_stops_between_two_groups_counts_nothing_twice() {
    let device = Arc::new(SimDevice::new(1));
    let store = Store::create_on(device.clone(), store_options()).unwrap();
    let sketch = store.frequency("f", options(0)).unwrap();
    let mut model = Model::default();
    let mut update = || {
        sketch.update(&probes(&store), None).unwrap();
        probes(&store).iter().for_each(|&hash| model.add(hash, 1));
        model.clone()
    };
    update();
    sketch.sketch.flush().unwrap();
    update();
    // The log's creation and write, the page file's creation, then the first group's write; the second group's finds the
    // disk full.
    let operation = device.changes() + 4;
    device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: false });
    assert!(matches!(sketch.apply(), Err(Error::Full { .. })));
    assert_eq!(sketch.sketch.extents(), 1);
    let mut expected = Model::default();
    for turn in 0..3 {
        expected = match turn {
            0 => update(),
            1 => {
                sketch.sketch.flush().unwrap();
                update()
            }
            _ => {
                sketch.apply().unwrap();
                expected
            }
        };
        super::compare(&store, &sketch, &expected, &probes(&store));
    }
}
