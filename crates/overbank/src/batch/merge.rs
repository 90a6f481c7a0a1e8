//! Merge of two sorted slices in hash order, by a loop without branches to guess.
//!
//! Of equal hashes, the first slice's records come first; within a slice, order is kept. Cost: a comparison and a copy a record.

use super::order::HashOrdered;

/// Merges two sorted slices; of equal hashes, `a`'s come first.
///
/// # Panics
/// When `into` is not as long as both together.
pub fn merge_two<T: HashOrdered>(a: &[T], b: &[T], into: &mut [T]) {
    assert_eq!(a.len() + b.len(), into.len(), "a place for each record");
    let (mut i, mut j) = (0usize, 0usize);
    // While both have records, which one comes next is a value and not a jump: on hashes a jump is guessed
    // wrong half the time.
    while i < a.len() && j < b.len() {
        // At least this many steps end neither input.
        let steps = (a.len() - i).min(b.len() - j);
        for place in &mut into[i + j..][..steps] {
            let (x, y) = (a[i], b[j]);
            let take_y = y.precedes(&x);
            *place = if take_y { y } else { x };
            i = i.wrapping_add(usize::from(!take_y));
            j = j.wrapping_add(usize::from(take_y));
        }
    }
    let (rest_a, rest_b) = (&a[i..], &b[j..]);
    into[i + j..][..rest_a.len()].copy_from_slice(rest_a);
    into[i + j + rest_a.len()..].copy_from_slice(rest_b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Record = (u64, (usize, usize));

    /// A sorted input over few hashes, each record marked with its input and place.
    fn input(number: usize) -> impl Strategy<Value = Vec<Record>> {
        prop::collection::vec(prop_oneof![0u64..20, any::<u64>()], 0..50).prop_map(move |mut hashes| {
            hashes.sort_unstable();
            hashes.into_iter().enumerate().map(|(place, hash)| (hash, (number, place))).collect()
        })
    }

    proptest! {
        #[test]
        fn merge_is_a_stable_sort_of_both(a in input(0), b in input(1)) {
            let mut expected = [a.clone(), b.clone()].concat();
            expected.sort_by_key(|record| record.0);
            let mut found = vec![Record::default(); expected.len()];
            merge_two(&a, &b, &mut found);
            prop_assert_eq!(found, expected);
        }
    }
}
