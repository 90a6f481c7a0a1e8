//! A word against its columns' exact counts: the closure of merges, worked out from the sums alone.

use super::Word;
use proptest::prelude::*;

/// The level that a column's cell has once its columns hold `counts`, with cells of `bits` bits.
fn level_of(counts: &[u64], column: usize, bits: u32) -> u32 {
    let levels = counts.len().trailing_zeros();
    let outgrown = |level: u32| {
        let (width, bits) = (1usize << level, bits << level);
        let block = column / (2 * width) * (2 * width);
        counts[block..block + 2 * width]
            .chunks(width)
            .any(|half| half.iter().map(|&count| u128::from(count)).sum::<u128>() >> bits > 0)
    };
    (0..levels).filter(|&level| outgrown(level)).max().map_or(0, |level| level + 1)
}

fn block_sum(counts: &[u64], column: usize, level: u32) -> u64 {
    let width = 1usize << level;
    counts[column / width * width..][..width].iter().fold(0, |sum: u64, &count| sum.saturating_add(count))
}

/// The word that columns of these counts make.
fn check<const LG_BITS: u32>(word: Word<LG_BITS>, counts: &[u64]) -> Result<(), TestCaseError> {
    let mut marks = 0;
    for column in 0..counts.len() {
        let level = level_of(counts, column, 1 << LG_BITS);
        prop_assert_eq!(word.span(column as u32), 1 << level, "column {} of {:?}", column, counts);
        prop_assert_eq!(word.get(column as u32), block_sum(counts, column, level));
        for level in 1..=level {
            marks |= 1u16 << (counts.len() - (counts.len() >> (level - 1)) + (column >> level));
        }
    }
    prop_assert_eq!(word.merged, marks);
    let sum = counts.iter().fold(0, |sum: u64, &count| sum.saturating_add(count));
    prop_assert_eq!(word.sum(), sum);
    Ok(())
}

fn added<const LG_BITS: u32>(updates: &[(u32, u64)]) -> (Word<LG_BITS>, Vec<u64>) {
    let mut word = Word::<LG_BITS>::default();
    let mut counts = vec![0u64; Word::<LG_BITS>::COLUMNS as usize];
    for &(column, weight) in updates {
        let column = column % Word::<LG_BITS>::COLUMNS;
        let count = &mut counts[column as usize];
        *count = count.saturating_add(weight);
        let is_full = word.add(column, weight);
        assert_eq!(is_full, word.get(column) == u64::MAX);
    }
    (word, counts)
}

fn additions<const LG_BITS: u32>(
    updates: &mut [(u32, u64)],
    cut: usize,
    turn: usize,
) -> Result<(), TestCaseError> {
    let (word, counts) = added::<LG_BITS>(updates);
    check(word, &counts)?;
    let cut = cut.min(updates.len());
    let (mut left, right) = (added::<LG_BITS>(&updates[..cut]).0, added::<LG_BITS>(&updates[cut..]).0);
    let is_full = left.merge(right);
    prop_assert_eq!(left, word, "a merge");
    prop_assert_eq!(is_full, word.cells == u64::MAX && word.span(0) == Word::<LG_BITS>::COLUMNS);
    updates.rotate_left(turn.min(updates.len()));
    prop_assert_eq!(added::<LG_BITS>(updates).0, word, "another order");
    updates.sort_unstable();
    prop_assert_eq!(added::<LG_BITS>(updates).0, word, "sorted");
    let mut half = word;
    half.halve();
    prop_assert_eq!(half.merged, word.merged);
    for column in 0..Word::<LG_BITS>::COLUMNS {
        let count = word.get(column);
        prop_assert_eq!(half.get(column), if count == u64::MAX { count } else { count / 2 });
    }
    Ok(())
}

/// Subtractions of what is there: the exact sum of the columns of each cell, and no more merged than the additions make.
fn removals<const LG_BITS: u32>(steps: &[(u32, u64, bool)]) -> Result<(), TestCaseError> {
    let columns = Word::<LG_BITS>::COLUMNS as usize;
    let (mut word, mut counts, mut all) =
        (Word::<LG_BITS>::default(), vec![0u64; columns], vec![0u64; columns]);
    for &(column, weight, is_removal) in steps {
        let column = column as usize % columns;
        if is_removal {
            let weight = weight.min(counts[column]);
            counts[column] -= weight;
            word.subtract(column as u32, weight);
        } else {
            counts[column] += weight;
            all[column] += weight;
            word.add(column as u32, weight);
        }
    }
    for column in 0..columns {
        let span = word.span(column as u32);
        let least = 1 << level_of(&counts, column, 1 << LG_BITS);
        let most = 1 << level_of(&all, column, 1 << LG_BITS);
        prop_assert!((least..=most).contains(&span));
        prop_assert_eq!(word.get(column as u32), block_sum(&counts, column, span.trailing_zeros()));
    }
    prop_assert_eq!(word.sum(), counts.iter().sum::<u64>());
    Ok(())
}

fn raises<const LG_BITS: u32>(updates: &[(u32, u64)]) -> Result<(), TestCaseError> {
    let mut word = Word::<LG_BITS>::default();
    let mut counts = vec![0u64; Word::<LG_BITS>::COLUMNS as usize];
    let mut weight = 0u64;
    for &(column, more) in updates {
        let column = column % Word::<LG_BITS>::COLUMNS;
        let target = word.get(column).saturating_add(more);
        let is_full = word.raise(column, target);
        let count = &mut counts[column as usize];
        *count = count.saturating_add(more);
        weight = weight.saturating_add(more);
        prop_assert_eq!((word.get(column), is_full), (target, target == u64::MAX));
        prop_assert!(word.sum_of_columns() >= weight);
        let lower = word;
        word.raise(column, target / 2);
        prop_assert_eq!(word, lower, "a lower target changes nothing");
    }
    for column in 0..counts.len() {
        let level = word.span(column as u32).trailing_zeros();
        prop_assert!(level <= level_of(&counts, column, 1 << LG_BITS));
        let value = word.get(column as u32);
        prop_assert!(counts[column] <= value && value <= block_sum(&counts, column, level));
    }
    Ok(())
}

/// A sum of a merged word and one that is not, after removals have made its counts small: no column is lost.
fn merges_after_removals<const LG_BITS: u32>(
    ours: &[(u32, u64)],
    theirs: &[(u32, u64)],
) -> Result<(), TestCaseError> {
    let (a, a_counts) = added::<LG_BITS>(ours);
    let (mut b, mut b_counts) = added::<LG_BITS>(theirs);
    for (column, count) in b_counts.iter_mut().enumerate() {
        b.subtract(column as u32, *count - *count / 1000);
        *count /= 1000;
    }
    let (mut sum, mut turned) = (a, b);
    sum.merge(b);
    turned.merge(a);
    prop_assert_eq!(sum, turned);
    let counts: Vec<u64> = a_counts.iter().zip(&b_counts).map(|(a, b)| a + b).collect();
    for column in 0..counts.len() {
        let span = sum.span(column as u32);
        prop_assert!(span >= a.span(column as u32).max(b.span(column as u32)));
        prop_assert_eq!(sum.get(column as u32), block_sum(&counts, column, span.trailing_zeros()));
    }
    Ok(())
}

/// Weights of every magnitude: those that fill a cell of some level, and ones.
fn weight(lg_max: u32) -> impl Strategy<Value = u64> {
    (0..=lg_max, any::<u64>()).prop_map(|(lg, random)| if lg == 0 { 1 } else { random >> (64 - lg) })
}

fn updates(lg_max: u32) -> impl Strategy<Value = Vec<(u32, u64)>> {
    prop::collection::vec((0u32..16, weight(lg_max)), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_word_is_the_closure_of_its_columns_counts(
        light in updates(9), heavy in updates(40), extreme in updates(64), cut in 0usize..60, turn in 0usize..60,
    ) {
        for mut updates in [light, heavy, extreme] {
            additions::<2>(&mut updates, cut, turn)?;
            additions::<3>(&mut updates, cut, turn)?;
        }
    }

    #[test]
    fn removals_keep_the_exact_sum_of_each_cell(
        steps in prop::collection::vec((0u32..16, weight(36), any::<bool>()), 0..80),
    ) {
        removals::<2>(&steps)?;
        removals::<3>(&steps)?;
    }

    #[test]
    fn raised_cells_lie_between_the_counts_and_their_sum(light in updates(9), extreme in updates(64)) {
        for updates in [light, extreme] {
            raises::<2>(&updates)?;
            raises::<3>(&updates)?;
        }
    }

    #[test]
    fn a_merge_loses_no_column_of_a_cell_that_was_larger(ours in updates(36), theirs in updates(36)) {
        merges_after_removals::<2>(&ours, &theirs)?;
        merges_after_removals::<3>(&ours, &theirs)?;
    }

    /// Marks that no word has, as damaged bytes might: some answer, no panic.
    #[test]
    fn any_marks_are_read_without_panic(cells: u64, merged: u16, column in 0u32..8) {
        let mut word = Word::<3> { cells, merged };
        word.add(column, 300);
        word.merge(Word { cells: merged.into(), merged: !merged });
        word.halve();
        prop_assert!(word.span(column) <= 8 && word.sum() <= word.sum_of_columns());
    }
}

#[test]
fn a_cell_that_is_full_takes_its_buddy_and_then_its_buddys_buddy() {
    let mut word = Word::<3>::default();
    for (column, weight) in [(3, 255), (2, 7), (0, 9), (6, 1)] {
        word.add(column, weight);
    }
    assert_eq!((word.merged, word.get(3), word.get(2)), (0, 255, 7));
    word.add(3, 1);
    assert_eq!((word.merged, word.get(3), word.get(2), word.get(0)), (0b10, 263, 263, 9));
    word.add(2, 65_535);
    assert_eq!((word.merged, word.get(0), word.get(1), word.get(6)), (0b1_0011, 65_807, 65_807, 1));
    assert_eq!((word.span(0), word.span(4), word.sum(), word.sum_of_columns()), (4, 1, 65_808, 263_229));
    word.add(7, 1 << 40);
    assert_eq!((word.merged, word.get(5)), (0b111_1111, (1 << 40) + 65_808));
    assert!(word.add(1, u64::MAX) && word.get(0) == u64::MAX);
    word.subtract(1, 5);
    word.halve();
    assert_eq!((word.sum(), word.add(3, 1)), (u64::MAX, true), "at least this, for ever");
}
