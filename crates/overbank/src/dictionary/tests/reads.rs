//! Reads of lookups and scans, counted on the simulated device.

use super::*;
use crate::device::sim::IoCounts;

/// Values of which a page has some thirty.
const VALUE_BYTES: usize = 100;

fn number_key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn insert(dictionary: &Dictionary, numbers: std::ops::Range<u64>) {
    let keys: Vec<[u8; 8]> = numbers.clone().map(number_key).collect();
    let values: Vec<[u8; VALUE_BYTES]> = numbers.map(|number| [number as u8; VALUE_BYTES]).collect();
    dictionary.insert_many(&keys, &values).unwrap();
}

/// With memtables that no test fills, on a device whose counts begin now.
fn open_large(store: &Store, options: DictionaryOptions) -> Dictionary {
    store.dictionary("d", options.memory_bytes(16 << 20)).unwrap()
}

/// What `ask` reads.
fn reads_of(device: &SimDevice, ask: impl FnOnce()) -> IoCounts {
    let before = device.io_counts();
    ask();
    let after = device.io_counts();
    assert_eq!(after.blocks_written, before.blocks_written);
    IoCounts {
        blocks_read: after.blocks_read - before.blocks_read,
        reads: after.reads - before.reads,
        ..IoCounts::default()
    }
}

/// How many different pages the keys of the one run of a dictionary are in.
fn pages_of(dictionary: &Dictionary, keys: impl Iterator<Item = u64>) -> usize {
    let version = dictionary.shared().tree.version();
    let [run] = &version.runs[..] else { panic!("{} runs", version.runs.len()) };
    let hasher = dictionary.hasher();
    let page = |number: u64| {
        let hash = hasher.hash(&number_key(number));
        let piece = super::super::query::piece_of(run, hash).unwrap();
        (piece.file_ref().id, piece.find(hash).start)
    };
    keys.map(page).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn in_a_compacted_dictionary_a_get_is_one_read_of_one_page() {
    for (page_bytes, blocks) in [(4096, 1), (16 << 10, 4)] {
        let (device, store) = simulated(0);
        let dictionary = open_large(&store, DictionaryOptions::new().page_bytes(page_bytes));
        insert(&dictionary, 0..20_000);
        dictionary.compact().unwrap();
        for number in (0..20_000).step_by(13) {
            let counts = reads_of(&device, || {
                let found = dictionary.get(&number_key(number)).unwrap();
                assert_eq!(found, Some(vec![number as u8; VALUE_BYTES]));
            });
            assert_eq!(counts.reads, 1, "of {number}");
            // The last page of a piece may be shorter.
            assert!((1..=blocks).contains(&counts.blocks_read), "{counts:?} of {number}");
        }
        for number in (20_000..40_000).step_by(13) {
            let counts = reads_of(&device, || assert_eq!(dictionary.get(&number_key(number)).unwrap(), None));
            assert!(counts.reads <= 1 && counts.blocks_read <= blocks, "{counts:?} of {number}");
        }
    }
}

#[test]
fn a_value_longer_than_a_page_is_one_read_too() {
    let (device, store) = simulated(0);
    let dictionary = open_large(&store, DictionaryOptions::new());
    let value = |number: u64| vec![number as u8; 2_000 + 1_500 * number as usize];
    for number in 0..60 {
        dictionary.insert(&number_key(number), &value(number)).unwrap();
    }
    dictionary.compact().unwrap();
    for number in 0..60 {
        let counts = reads_of(&device, || {
            assert!(dictionary.get(&number_key(number)).unwrap() == Some(value(number)));
        });
        let least = value(number).len().div_ceil(4096) as u64;
        assert_eq!(counts.reads, 1, "of {number}");
        // Items of hashes that are nearly equal may share its page.
        assert!((least..least + 30).contains(&counts.blocks_read), "{counts:?} of {number}");
    }
}

#[test]
fn dense_questions_read_each_page_once() {
    let (device, store) = simulated(0);
    let dictionary = open_large(&store, DictionaryOptions::new());
    insert(&dictionary, 0..20_000);
    dictionary.compact().unwrap();
    let pages = dictionary.report().flash_bytes / 4096;
    let ask = |numbers: Vec<u64>| {
        let pages = pages_of(&dictionary, numbers.iter().copied()) as u64;
        let keys: Vec<[u8; 8]> = numbers.iter().map(|&number| number_key(number)).collect();
        let counts = reads_of(&device, || {
            let found = dictionary.get_many(&keys).unwrap();
            let expected = numbers.iter().map(|&number| Some(vec![number as u8; VALUE_BYTES]));
            assert!(found.into_iter().eq(expected));
        });
        // Each request that is saved costs three blocks at most that nobody asked for.
        let (saved, along) = (pages - counts.reads, counts.blocks_read - pages);
        assert!(along <= 3 * saved, "{counts:?} of {pages} pages for {} keys", numbers.len());
        counts
    };
    // Each key twice, all of them planned at once: neighbours are read together.
    let all: Vec<u64> = (0..2_000).chain(0..2_000).collect();
    let counts = ask(all);
    assert!(counts.blocks_read > pages * 9 / 10 && counts.reads < pages / 8, "{counts:?} of {pages} pages");
    // More than are planned at once, in hash order and in another: no page but those where plans meet is read twice.
    let mut keys: Vec<Vec<u8>> = dictionary.scan().unwrap().map(|item| item.unwrap().0).collect();
    for _ in 0..2 {
        let counts = reads_of(&device, || {
            assert!(dictionary.contains_many(&keys).unwrap().iter().all(|&is_in| is_in));
            assert_eq!(dictionary.snapshot().unwrap().get_many(&keys[1..]).unwrap().len(), keys.len() - 1);
        });
        let plans = (keys.len() as u64).div_ceil(3_072);
        let once = pages * 9 / 10..=pages + plans;
        assert!(once.contains(&(counts.blocks_read / 2)), "{counts:?} of {pages} pages");
        assert!(counts.reads / 2 <= pages / 16 + plans + 4, "{counts:?} of {pages} pages");
        keys.sort_unstable();
    }
    ask((0..20_000).step_by(101).collect());
    ask(vec![7; 1_000]);
    assert_eq!(reads_of(&device, || assert!(dictionary.get_many::<&[u8]>(&[]).unwrap().is_empty())).reads, 0);
}

#[test]
fn a_run_is_read_through_where_a_key_is_in_every_fourth_page() {
    let (device, store) = simulated(0);
    let dictionary = open_large(&store, DictionaryOptions::new());
    insert(&dictionary, 0..20_000);
    dictionary.compact().unwrap();
    let version = dictionary.shared().tree.version();
    let hasher = dictionary.hasher();
    // A key of each page.
    let mut of_page = std::collections::BTreeMap::new();
    for number in 0..20_000 {
        let hash = hasher.hash(&number_key(number));
        let piece = super::super::query::piece_of(&version.runs[0], hash).unwrap();
        of_page.insert((*piece.hashes().start(), piece.find(hash).start), number_key(number));
    }
    let pages = of_page.len() as u64;
    assert!(version.runs[0].pieces.len() == 1 && pages > 500, "{pages} pages");
    for (step, is_through) in [(1, true), (2, true), (4, true), (5, false), (9, false)] {
        // Last to first: the order in which they are asked is no matter.
        let keys: Vec<&[u8; 8]> = of_page.values().step_by(step).rev().collect();
        let counts = reads_of(&device, || {
            assert!(dictionary.contains_many(&keys).unwrap().iter().all(|&is_in| is_in));
        });
        let asked = keys.len() as u64;
        if is_through {
            // A request has sixteen blocks, or as many whole steps less one as fit.
            assert!(
                counts.reads <= pages.div_ceil(13) && counts.blocks_read <= pages,
                "{counts:?} of {pages} pages"
            );
        } else {
            assert_eq!((counts.reads, counts.blocks_read), (asked, asked), "by {step}");
        }
    }
}

#[test]
fn runs_behind_the_oldest_cost_a_hundredth_of_a_read_each() {
    let (device, store) = simulated(0);
    let dictionary = open_large(&store, DictionaryOptions::new());
    insert(&dictionary, 0..60_000);
    dictionary.compact().unwrap();
    let counts = |numbers: std::ops::Range<u64>| {
        let asked = numbers.clone().count() as f64;
        let counts = reads_of(&device, || {
            for number in numbers {
                assert!(dictionary.get(&number_key(number)).unwrap().is_some(), "{number}");
            }
        });
        counts.reads as f64 / asked
    };
    // Three runs, each of less than what four runs would be merged at, or a fifth of the oldest.
    for (from, count) in [(60_000, 6_000), (66_000, 2_500), (68_500, 1_000)] {
        insert(&dictionary, from..from + count);
        dictionary.flush().unwrap();
    }
    dictionary.settle().unwrap();
    let report = dictionary.report();
    assert_eq!(report.runs.len(), 4, "{report:?}");
    let (old, new) = (counts(0..6_000), counts(68_500..69_500));
    println!("{old} reads a key of the oldest run, {new} of the newest");
    // Three fronts, of which each lets some 1 of 100 keys through: the mean of 6,000 is 1.03, and 1.06 is 12 standard deviations off.
    assert!((1.0..1.06).contains(&old), "{old}");
    assert_eq!(new, 1.0);
    // What is in no run: a read of the oldest, and seldom another.
    let missing = reads_of(&device, || {
        for number in 100_000..102_000 {
            assert_eq!(dictionary.get(&number_key(number)).unwrap(), None);
        }
    });
    assert!(missing.reads as f64 <= 1.08 * 2_000.0, "{missing:?}");
}

#[test]
fn what_is_in_memory_is_not_read_and_a_scan_reads_each_page_once() {
    let (device, store) = simulated(0);
    let dictionary = open_large(&store, DictionaryOptions::new());
    insert(&dictionary, 0..20_000);
    let counts = reads_of(&device, || {
        assert!(dictionary.get(&number_key(7)).unwrap().is_some());
        assert!(dictionary.snapshot().unwrap().get(&number_key(8)).unwrap().is_some());
    });
    assert_eq!(counts.reads, 0);
    dictionary.compact().unwrap();
    let version = dictionary.shared().tree.version();
    let blocks: u64 =
        version.runs.iter().flat_map(|run| &run.pieces).map(|piece| piece.written_blocks()).sum();
    let counts = reads_of(&device, || assert_eq!(dictionary.scan().unwrap().count(), 20_000));
    assert_eq!(counts.blocks_read, blocks);
    assert!(counts.reads <= blocks.div_ceil(256) + 1, "{counts:?}");
    // A sixteenth of all hashes.
    let counts = reads_of(&device, || {
        let part = dictionary.snapshot().unwrap().scan(1 << 60..=(2 << 60) - 1).unwrap();
        assert!((1_000..1_500).contains(&part.count()));
    });
    assert!(counts.blocks_read <= blocks / 16 + blocks / 50 + 4, "{counts:?} of {blocks}");
}
