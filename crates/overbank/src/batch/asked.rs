//! Questions that are asked in ascending order, and answered in the order in which they came.

use crate::Result;

/// Asks for `keys` in ascending order, at most `at_once` at a time, and tells `put` the place at which each came and its answer. `ask`
/// puts an answer for each key of a part, in its order, into an empty vector.
///
/// # Cost
/// A comparison sort. RAM: 24 bytes a key of 8 bytes, and `at_once` answers.
pub(crate) fn ask_in_order<K: Ord + Copy, A>(
    keys: impl Iterator<Item = K>,
    at_once: usize,
    mut ask: impl FnMut(&[K], &mut Vec<A>) -> Result<()>,
    mut put: impl FnMut(usize, A),
) -> Result<()> {
    let mut asked: Vec<(K, usize)> = keys.zip(0..).collect();
    asked.sort_unstable();
    let (mut part, mut answers) = (Vec::new(), Vec::new());
    for asked in asked.chunks(at_once.max(1)) {
        part.clear();
        part.extend(asked.iter().map(|one| one.0));
        ask(&part, &mut answers)?;
        asked.iter().zip(answers.drain(..)).for_each(|(&(_, place), answer)| put(place, answer));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_key_gets_its_own_answer_whatever_the_order_and_the_parts(
            keys in prop::collection::vec(0u64..50, 0..200),
            at_once in 0usize..60,
        ) {
            let mut longest = 0;
            let mut answers = vec![None; keys.len()];
            let mut last = 0;
            let ask = |part: &[u64], answers: &mut Vec<u64>| {
                assert!(part.is_sorted() && part.first().is_none_or(|&first| first >= last));
                last = part.last().copied().unwrap_or(last);
                longest = longest.max(part.len());
                assert!(answers.is_empty());
                answers.extend(part.iter().map(|key| key * 7));
                Ok(())
            };
            ask_in_order(keys.iter().copied(), at_once, ask, |place, answer| {
                assert!(answers[place].replace(answer).is_none());
            })
            .unwrap();
            prop_assert!(longest <= at_once.max(1));
            let expected: Vec<Option<u64>> = keys.iter().map(|key| Some(key * 7)).collect();
            prop_assert_eq!(answers, expected);
        }
    }

    #[test]
    fn an_error_ends_it() {
        let mut asked = 0;
        let ask = |_: &[u8], _: &mut Vec<u8>| {
            asked += 1;
            crate::error::invalid("a key", 0, "it is wrong")
        };
        assert!(ask_in_order([1u8, 2].into_iter(), 1, ask, |_, _| panic!("there is no answer")).is_err());
        assert_eq!(asked, 1);
    }
}
