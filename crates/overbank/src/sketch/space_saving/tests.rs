//! Space-saving against the obvious version and against exact counts.

use super::*;
use crate::{HashKind, KeyHasher, Seed};
use proptest::prelude::*;
use std::collections::HashMap;

fn hash_id() -> HashId {
    HashId::from(&KeyHasher::new(HashKind::Xxh3, Seed(1)))
}

/// Few homes in the index, the last one among them, so that runs are long and wrap around.
fn hash(key: u64) -> KeyHash {
    KeyHash::new(key, (key.wrapping_mul(0x9e37_79b9) | 1 << 63 | 1 << 62) ^ (key & 1) << 62)
}

/// The algorithm of the paper with linear scans: (hash, count, error) by slot.
#[derive(Default)]
struct Model(Vec<(KeyHash, u64, u64)>);

impl Model {
    fn update(&mut self, capacity: usize, hash: KeyHash, weight: u64) {
        if weight == 0 {
            return;
        }
        if let Some(slot) = self.0.iter_mut().find(|slot| slot.0 == hash) {
            slot.1 += weight;
        } else if self.0.len() < capacity {
            self.0.push((hash, weight, 0));
        } else {
            let least = self.0.iter_mut().min_by_key(|slot| slot.1).expect("the capacity is above 0");
            *least = (hash, least.1 + weight, least.1);
        }
    }
}

fn fill(capacity: usize, updates: &[(u64, u64)]) -> SpaceSaving {
    let mut sketch = SpaceSaving::new(capacity, 5, hash_id()).unwrap();
    updates.iter().for_each(|&(key, weight)| sketch.update(hash(key), key.to_string().as_bytes(), weight));
    sketch
}

fn exact(updates: &[(u64, u64)]) -> HashMap<u64, u64> {
    let mut counts = HashMap::new();
    updates.iter().for_each(|&(key, weight)| *counts.entry(key).or_insert(0) += weight);
    counts
}

/// Every promise of the module's header, for a stream given exactly.
fn check_promises(
    sketch: &SpaceSaving,
    counts: &HashMap<u64, u64>,
) -> std::result::Result<(), TestCaseError> {
    let n: u64 = counts.values().sum();
    prop_assert_eq!(sketch.total_weight(), n);
    let limit = n / sketch.capacity() as u64;
    prop_assert!(sketch.absent_upper_bound() <= limit);
    let present = sketch.top(usize::MAX);
    for (&key, &truth) in counts {
        let bounds = sketch.estimate(hash(key));
        prop_assert!(bounds.lower <= truth && truth <= bounds.upper, "{truth} is not in {bounds:?}");
        prop_assert!(bounds.upper - bounds.lower <= limit);
        let found = present.iter().find(|heavy| heavy.hash == hash(key));
        prop_assert!(truth <= limit || found.is_some(), "a key of {truth} of {n} is missing");
        if let Some(found) = found {
            let bytes = key.to_string();
            prop_assert_eq!(found.key, &bytes.as_bytes()[..bytes.len().min(5)]);
            prop_assert_eq!(found.truncated, bytes.len() > 5);
        }
    }
    prop_assert!(present.is_sorted_by_key(|heavy| (
        std::cmp::Reverse(heavy.count.estimate),
        heavy.key,
        heavy.hash
    )));
    Ok(())
}

fn updates() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let light = (0u64..60, 0u64..4);
    let heavy = (999_999u64..1_000_002, 1u64..100);
    prop::collection::vec(prop_oneof![4 => light, 1 => heavy], 0..400)
}

proptest! {
    #[test]
    fn state_is_that_of_the_obvious_version(updates in updates(), capacity in 1usize..40) {
        let sketch = fill(capacity, &updates);
        let mut model = Model::default();
        updates.iter().for_each(|&(key, weight)| model.update(capacity, hash(key), weight));
        let slots = sketch.hashes.iter().zip(&sketch.counts).zip(&sketch.errors);
        prop_assert_eq!(slots.map(|((&hash, &count), &error)| (hash, count, error)).collect::<Vec<_>>(), model.0);
        check_promises(&sketch, &exact(&updates))?;
    }

    #[test]
    fn merged_bounds_hold_for_both_streams(here in updates(), there in updates(), more in updates(), capacity in 1usize..40) {
        let mut sketch = fill(capacity, &here);
        sketch.merge(&fill(capacity, &there)).unwrap();
        let both = [&here[..], &there].concat();
        check_promises(&sketch, &exact(&both))?;
        more.iter().for_each(|&(key, weight)| sketch.update(hash(key), key.to_string().as_bytes(), weight));
        check_promises(&sketch, &exact(&[&both[..], &more].concat()))?;
    }

    #[test]
    fn read_back_it_goes_on_as_before(first in updates(), then in updates(), capacity in 1usize..20) {
        let mut kept = fill(capacity, &first);
        let mut read = SpaceSaving::from_bytes(&kept.to_bytes()).unwrap();
        for (key, weight) in then {
            kept.update(hash(key), key.to_string().as_bytes(), weight);
            read.update(hash(key), key.to_string().as_bytes(), weight);
        }
        prop_assert_eq!(kept.to_bytes(), read.to_bytes());
    }

    #[test]
    fn a_stream_has_the_same_bytes_and_no_damage_is_read(first in updates(), capacity in 1usize..20, cut: prop::sample::Index, bit in 0u32..8) {
        let sketch = fill(capacity, &first);
        let mut bytes = Vec::new();
        sketch.write_to(&mut |piece| { bytes.extend_from_slice(piece); Ok(()) }).unwrap();
        prop_assert_eq!(bytes.len(), sketch.encoded_bytes());
        let read = SpaceSaving::read_from(bytes.len(), &mut stream::source_of(&bytes)).unwrap();
        prop_assert_eq!(read.to_bytes(), &bytes[..]);

        let at = cut.index(bytes.len());
        prop_assert!(SpaceSaving::read_from(at, &mut stream::source_of(&bytes[..at])).is_err());
        prop_assert!(SpaceSaving::read_from(bytes.len(), &mut stream::source_of(&bytes[..at])).is_err());
        bytes[at] ^= 1 << bit;
        prop_assert!(SpaceSaving::read_from(bytes.len(), &mut stream::source_of(&bytes)).is_err());
    }

    #[test]
    fn forged_bytes_do_not_panic(first in updates(), at in 0usize..24 + 3 * 39, value: u8) {
        let bytes = fill(3, &first).to_bytes();
        if let Ok(mut forged) = SpaceSaving::from_bytes(&format::forge(&bytes, at, value)) {
            for key in 0..9 {
                forged.update(hash(key), b"key", 1);
            }
            prop_assert_eq!(forged.len(), 3);
        }
    }
}

#[test]
fn memory_is_known_in_advance_and_does_not_grow() {
    for (capacity, key_bytes_max) in [(1, 0), (100, 7), (4096, 32)] {
        let mut sketch = SpaceSaving::new(capacity, key_bytes_max, hash_id()).unwrap();
        let promised = SpaceSaving::memory_bytes_for(capacity, key_bytes_max);
        assert_eq!(sketch.memory_bytes(), promised);
        (0..20_000)
            .for_each(|key| sketch.update(hash(key), b"a key of some length, longer than the limit", 1));
        assert_eq!(sketch.memory_bytes(), promised);
    }
}

#[test]
fn options_out_of_range_are_refused() {
    assert!(matches!(SpaceSaving::new(0, 1, hash_id()), Err(Error::InvalidOption { name: "capacity", .. })));
    assert!(matches!(
        SpaceSaving::new(1 << 25, 1, hash_id()),
        Err(Error::InvalidOption { name: "capacity", .. })
    ));
    assert!(matches!(
        SpaceSaving::new(1, 1 << 15, hash_id()),
        Err(Error::InvalidOption { name: "key_bytes_max", .. })
    ));
}

#[test]
fn other_seeds_and_shapes_do_not_merge() {
    let mut sketch = SpaceSaving::new(4, 5, hash_id()).unwrap();
    let other_seed = HashId { seed_fingerprint: 1, ..hash_id() };
    for other in [
        SpaceSaving::new(5, 5, hash_id()),
        SpaceSaving::new(4, 6, hash_id()),
        SpaceSaving::new(4, 5, other_seed),
    ] {
        assert!(matches!(sketch.merge(&other.unwrap()), Err(Error::Incompatible { .. })));
    }
}

#[test]
fn bytes_that_were_handed_in_are_no_store() {
    let bytes = SpaceSaving::new(16, 8, hash_id()).unwrap().to_bytes();
    for cut in [0, 10, 40, 100, bytes.len() - 1] {
        let text = SpaceSaving::from_bytes(&bytes[..cut]).unwrap_err().to_string();
        assert!(text.starts_with("the bytes are damaged or cut off at byte"), "{text}");
        assert!(!text.contains("store") && text.contains("another copy"), "{text}");
    }
}
