//! Sequences of file operations on the device in RAM, against a map of byte vectors.

use crate::{Target, Verdict};
use overbank::device::memory::MemoryDevice;
use overbank::device::{Access, BLOCK_BYTES, Device};
use std::collections::BTreeMap;

/// The target. Input: operations of four bytes each: what, which file, where, how much.
pub const TARGET: Target = Target { name: "memory_device", seeds, run };

const NAMES: [&str; 3] = ["a", "b", "c"];

fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0, 0, 0, 0, 2, 0, 0, 2, 3, 0, 1, 1, 4, 0, 0, 3],
        vec![0, 1, 0, 0, 2, 1, 3, 1, 5, 1, 2, 0, 3, 2, 0, 4, 6, 2, 0, 0],
    ]
}

fn run(data: &[u8]) -> Verdict {
    let device = MemoryDevice::new();
    let mut model: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for operation in data.chunks_exact(4).take(256) {
        let [what, which, place, size] = operation else { continue };
        step(&device, &mut model, [*what, *which, *place, *size]);
    }
    let names: Vec<&str> = model.keys().copied().collect();
    assert_eq!(device.list().expect("a list"), names);
    Verdict::Accepted
}

fn step(device: &MemoryDevice, model: &mut BTreeMap<&str, Vec<u8>>, [what, which, place, size]: [u8; 4]) {
    let name = NAMES[usize::from(which) % NAMES.len()];
    let other = NAMES[usize::from(place) % NAMES.len()];
    let offset = usize::from(place % 8) * BLOCK_BYTES;
    let bytes = usize::from(size % 4) * BLOCK_BYTES;
    match what % 7 {
        0 => {
            assert_eq!(device.create(name).is_ok(), !model.contains_key(name), "create {name}");
            model.entry(name).or_default();
        }
        1 => {
            assert_eq!(device.remove(name).is_ok(), model.remove(name).is_some(), "remove {name}");
        }
        2 => {
            let Some(content) = model.get_mut(name) else { return assert_absent(device, name) };
            content.resize(content.len().max(offset + bytes), 0);
            content[offset..offset + bytes].fill(which ^ size);
            let file = device.open(name, Access::Write).expect("it is there");
            file.write(offset as u64, &vec![which ^ size; bytes]).expect("written");
        }
        3 => {
            let Some(content) = model.get(name) else { return assert_absent(device, name) };
            let file = device.open(name, Access::Read).expect("it is there");
            assert_eq!(file.len_bytes().expect("a length"), content.len() as u64);
            let mut read = vec![0xee; bytes];
            let done = file.read(offset as u64, &mut read);
            match content.get(offset..offset + bytes) {
                Some(expected) => assert!(done.is_ok() && read == expected, "read {bytes} at {offset}"),
                None => assert!(done.is_err(), "read {bytes} at {offset} of {}", content.len()),
            }
        }
        4 => {
            let Some(content) = model.get_mut(name) else { return assert_absent(device, name) };
            content.resize(offset + bytes, 0);
            let file = device.open(name, Access::Write).expect("it is there");
            file.set_len((offset + bytes) as u64).expect("set");
        }
        5 => {
            let moved = model.remove(name);
            assert_eq!(device.rename(name, other).is_ok(), moved.is_some(), "rename {name} to {other}");
            if let Some(content) = moved {
                model.insert(other, content);
            }
        }
        _ => device.sync_directory().expect("RAM does not fail"),
    }
}

fn assert_absent(device: &MemoryDevice, name: &str) {
    assert!(device.open(name, Access::Read).is_err(), "{name} should not be there");
}
