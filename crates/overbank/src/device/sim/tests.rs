//! The simulated device against its contract: what a crash, a fault and a flip may leave behind.

use super::*;
use std::collections::HashSet;

fn block(byte: u8) -> [u8; BLOCK_BYTES] {
    [byte; BLOCK_BYTES]
}

fn read(device: &SimDevice, name: &str) -> Vec<u8> {
    let file = device.open(name, Access::Read).unwrap();
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read(0, &mut bytes).unwrap();
    bytes
}

/// A durable block of ones, then an un-synced block of twos behind it and an un-synced overwrite by threes.
fn pending() -> SimDevice {
    let device = SimDevice::new(1);
    let file = device.create("f").unwrap();
    file.write(0, &block(1)).unwrap();
    file.sync().unwrap();
    device.sync_directory().unwrap();
    file.write(4096, &block(2)).unwrap();
    file.write(0, &block(3)).unwrap();
    device
}

#[test]
fn synced_bytes_survive_every_plan() {
    let device = pending();
    device.open("f", Access::Write).unwrap().sync().unwrap();
    for plan in Plan::ALL {
        for seed in 0..50 {
            assert_eq!(read(&device.crash(plan, seed), "f"), [block(3), block(2)].concat(), "{plan}:{seed}");
        }
    }
}

#[test]
fn nothing_and_everything_are_the_two_ends() {
    let device = pending();
    assert_eq!(read(&device.crash(Plan::Nothing, 0), "f"), block(1));
    assert_eq!(read(&device.crash(Plan::Everything, 0), "f"), [block(3), block(2)].concat());
}

#[test]
fn every_subset_of_operations_and_lengths_occurs() {
    let seen: HashSet<Vec<u8>> =
        (0..500).map(|seed| read(&pending().crash(Plan::Operations, seed), "f")).collect();
    // First block old or new; length one block, or two with the second lost (zeros) or there.
    assert_eq!(seen.len(), 6);
}

#[test]
fn sectors_tear_and_garbage_appears_only_where_a_write_was_pending() {
    let torn = |plan| {
        (0..300).any(|seed| {
            let bytes = read(&pending().crash(plan, seed), "f");
            bytes[..4096].chunks(512).any(|s| s[0] != bytes[0])
        })
    };
    assert!(torn(Plan::Sectors));
    assert!(!torn(Plan::Operations));
    let garbage = |plan| {
        (0..300).any(|seed| read(&pending().crash(plan, seed), "f").iter().any(|b| ![0, 1, 2, 3].contains(b)))
    };
    assert!(garbage(Plan::Garbage));
    assert!(!garbage(Plan::Sectors));
}

#[test]
fn overlapping_writes_may_reach_the_disk_in_another_order() {
    let device = SimDevice::new(1);
    let file = device.create("f").unwrap();
    file.write(0, &block(0)).unwrap();
    file.sync().unwrap();
    device.sync_directory().unwrap();
    file.write(0, &block(1)).unwrap();
    file.write(0, &block(2)).unwrap();
    let seen: HashSet<u8> = (0..200).map(|seed| read(&device.crash(Plan::Reordered, seed), "f")[0]).collect();
    assert_eq!(seen, HashSet::from([0, 1, 2]));
}

#[test]
fn names_are_durable_only_by_the_directory_sync() {
    let device = pending();
    device.rename("f", "g").unwrap();
    device.create("h").unwrap().sync().unwrap();
    assert_eq!(device.crash(Plan::Nothing, 0).list().unwrap(), ["f"]);
    assert_eq!(device.crash(Plan::DataOnly, 0).list().unwrap(), ["f"]);
    assert_eq!(device.crash(Plan::NamesOnly, 0).list().unwrap(), ["g", "h"]);
    let seen: HashSet<Vec<String>> =
        (0..200).map(|s| device.crash(Plan::Operations, s).list().unwrap()).collect();
    assert_eq!(seen.len(), 4, "{seen:?}");
    device.remove("h").unwrap();
    device.sync_directory().unwrap();
    assert_eq!(device.crash(Plan::Nothing, 0).list().unwrap(), ["g"]);
}

#[test]
fn faults_strike_once_or_stay() {
    for sticky in [false, true] {
        let device = SimDevice::new(1);
        let file = device.create("f").unwrap();
        device.inject(Fault { operation: 2, on_reads: false, kind: FaultKind::ShortWrite, sticky });
        file.write(0, &[1; 8192]).unwrap();
        assert!(file.write(8192, &[2; 8192]).is_err());
        assert_eq!(file.len_bytes().unwrap(), 12288, "half of a short write arrives");
        assert_eq!(file.write(8192, &[2; 8192]).is_err(), sticky);
    }
}

#[test]
fn a_full_disk_refuses_growth_but_not_removal() {
    let device = SimDevice::new(1);
    device.set_capacity_bytes(8192);
    let file = device.create("f").unwrap();
    file.write(0, &[1; 8192]).unwrap();
    assert!(matches!(file.write(8192, &block(1)), Err(Error::Full { needed_bytes: 4096, .. })));
    file.write(0, &block(2)).unwrap();
    device.remove("f").unwrap();
    device.create("g").unwrap().write(0, &block(1)).unwrap();
}

#[test]
fn after_a_power_cut_every_operation_fails() {
    let device = SimDevice::new(1);
    let file = device.create("f").unwrap();
    device.inject(Fault { operation: 1, on_reads: false, kind: FaultKind::Crash, sticky: true });
    assert!(file.write(0, &block(1)).is_err());
    assert!(file.read(0, &mut block(0)).is_err());
    assert!(device.sync_directory().is_err());
    assert!(file.sync().is_err());
    assert_eq!(read(&device.crash(Plan::Everything, 0), "f"), block(1), "the write was in flight");
}

#[test]
fn counts_are_in_blocks() {
    let device = pending();
    device.reset_counts();
    let file = device.open("f", Access::Read).unwrap();
    file.read(0, &mut [0; 8192]).unwrap();
    let requests = [ReadRequest { offset: 0, bytes: 4096 }, ReadRequest { offset: 4096, bytes: 4096 }];
    file.read_many(&requests, 2, &mut |_, _| Ok(())).unwrap();
    let counts = device.io_counts();
    assert_eq!((counts.blocks_read, counts.reads, counts.blocks_written), (4, 3, 0));
    assert_eq!(device.io_counts_by_file()["f"], counts);
}

#[test]
fn a_crash_prints_as_one_word_and_parses() {
    let crash = Crash { operation: 41, plan: Plan::Sectors, seed: 7 };
    assert_eq!(crash.to_string(), "41:Sectors:7");
    assert_eq!(crash.to_string().parse(), Ok(crash));
    assert!("41:Nowhere:7".parse::<Crash>().is_err());
}

#[test]
fn one_seed_gives_one_history() {
    let run = |seed| {
        let device = pending().crash(Plan::Garbage, seed);
        (read(&device, "f"), device.random_128().unwrap(), device.now_ns())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).1, run(6).1);
}
