//! The filter against a sorted list of entries.

use super::*;
use crate::Random;

fn filled(quotient_bits: u32, remainder_bits: u32, load: f64, seed: u64) -> (ThreeBitFilter, Vec<u64>) {
    let mut filter = ThreeBitFilter::new(quotient_bits, remainder_bits);
    let mut random = Random::new(seed);
    let count = ((1u64 << quotient_bits) as f64 * load) as usize;
    let bits = quotient_bits + remainder_bits;
    let mut entries: Vec<u64> = (0..count).map(|_| random.next_u64() >> (64 - bits)).collect();
    // Some twice, some three times.
    for i in 0..count / 20 {
        entries[i * 2] = entries[i];
    }
    entries.iter().for_each(|&entry| filter.insert(entry));
    entries.sort_unstable();
    (filter, entries)
}

#[test]
fn it_holds_the_multiset_that_was_inserted() {
    for (quotient_bits, remainder_bits, load) in [(6, 3, 0.9), (10, 1, 0.75), (12, 11, 0.9), (9, 40, 0.95)] {
        for seed in 0..20 {
            let (filter, entries) = filled(quotient_bits, remainder_bits, load, seed);
            assert_eq!(filter.iter().collect::<Vec<_>>(), entries);
            assert_eq!(filter.len(), entries.len() as u64);
        }
    }
}

#[test]
fn it_contains_exactly_its_entries() {
    let (filter, entries) = filled(10, 4, 0.9, 3);
    for entry in 0..1 << 14 {
        assert_eq!(filter.contains(entry), entries.binary_search(&entry).is_ok(), "{entry}");
    }
}

#[test]
fn runs_at_the_last_quotient_spill() {
    let mut filter = ThreeBitFilter::new(4, 4);
    for remainder in (0..16).rev() {
        filter.insert(15 << 4 | remainder);
    }
    assert_eq!(filter.iter().collect::<Vec<_>>(), (15 << 4..16 << 4).collect::<Vec<_>>());
    filter.clear();
    assert!(filter.is_empty() && filter.iter().next().is_none());
}

#[test]
fn placing_in_order_gives_the_slots_that_inserting_gives() {
    let (filter, entries) = filled(10, 7, 0.85, 5);
    let mut bytes = vec![0; filter.bytes.len()];
    let mut placement = Placement::new(7);
    for &entry in &entries {
        let placed = placement.place(entry);
        or_slot(&mut bytes, 0, 10, placed.quotient, OCCUPIED);
        or_slot(&mut bytes, 0, 10, placed.at, placed.slot);
    }
    assert!(bytes == filter.bytes);
}
