//! What becomes of a key that is written several times.

use super::item::{Value, shown};
use crate::Result;
use crate::error::invalid;

/// How an operand that is merged into a key changes its value: the dictionary never reads the value for it. All operators are
/// associative, so operands meet each other before they meet a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MergeOperator {
    /// The operand's bytes come behind the value's. What is appended to a key may come to more than an item may have, an
    /// [`item_bytes_max`](super::DictionaryOptions::item_bytes_max): then it is kept and answered whole all the same, but the dictionary
    /// takes no more operands until it has more memory, or the value is replaced or removed and merged. Such a value takes RAM beside the
    /// dictionary's memory while it is merged, five times its length at most, and while it is looked up.
    Append,
    /// The sum. It wraps around at the ends of the numbers' type.
    Sum(Numbers),
    /// The greater one.
    Max(Numbers),
    /// The lesser one.
    Min(Numbers),
}

/// What numbers look like in values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Numbers {
    /// Eight bytes, little-endian, an `i64`.
    Binary,
    /// Decimal digits with an optional sign, an `i128`: from -170141183460469231731687303715884105728 to
    /// 170141183460469231731687303715884105727.
    Text,
}

/// What two items of one key, an older and a newer one, come to.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Combined {
    Older,
    Newer,
    /// The newer one's value, whatever was before.
    NewerAsPut,
    /// `scratch` holds the value.
    Put,
    /// `scratch` holds the operand.
    Operand,
}

impl MergeOperator {
    /// Refuses a value or operand that the operator cannot take.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(super) fn check(self, value: &[u8]) -> Result<()> {
        let Some(numbers) = self.numbers() else { return Ok(()) };
        if numbers.read(value).is_some() {
            return Ok(());
        }
        let why = match numbers {
            Numbers::Binary => "this dictionary's operator takes numbers of 8 bytes, little-endian",
            Numbers::Text => "this dictionary's operator takes decimal whole numbers that fit 128 bits",
        };
        invalid("a value", shown(value), why)
    }

    fn numbers(self) -> Option<Numbers> {
        match self {
            MergeOperator::Append => None,
            MergeOperator::Sum(numbers) | MergeOperator::Max(numbers) | MergeOperator::Min(numbers) => {
                Some(numbers)
            }
        }
    }

    /// Puts what an operand makes of a value into `out`, which is empty. Both were checked when they came; what was not written by this
    /// operator counts as 0.
    fn apply(self, value: &[u8], operand: &[u8], out: &mut Vec<u8>) {
        let Some(numbers) = self.numbers() else {
            out.extend_from_slice(value);
            out.extend_from_slice(operand);
            return;
        };
        let (a, b) = (numbers.read(value).unwrap_or(0), numbers.read(operand).unwrap_or(0));
        let result = match self {
            MergeOperator::Sum(_) => a.wrapping_add(b),
            MergeOperator::Max(_) => a.max(b),
            MergeOperator::Min(_) | MergeOperator::Append => a.min(b),
        };
        numbers.write(result, out);
    }

    /// As [`MergeOperator::apply`], to the value that `value` holds.
    fn apply_to(self, value: &mut Vec<u8>, operand: &[u8]) {
        if self == MergeOperator::Append {
            // Many operands of one key would else be copied once for each of them.
            return value.extend_from_slice(operand);
        }
        let before = std::mem::take(value);
        self.apply(&before, operand, value);
    }

    /// What the manifest says of it.
    pub(super) fn code(operator: Option<MergeOperator>) -> u8 {
        let (which, numbers) = match operator {
            None => return 0,
            Some(MergeOperator::Append) => return 1,
            Some(MergeOperator::Sum(numbers)) => (2, numbers),
            Some(MergeOperator::Max(numbers)) => (4, numbers),
            Some(MergeOperator::Min(numbers)) => (6, numbers),
        };
        which + u8::from(numbers == Numbers::Text)
    }

    /// What [`MergeOperator::code`] made of it; `None` if it is no such code.
    pub(super) fn of_code(code: u8) -> Option<Option<MergeOperator>> {
        let numbers = if code & 1 == 1 { Numbers::Text } else { Numbers::Binary };
        match code {
            0 => Some(None),
            1 => Some(Some(MergeOperator::Append)),
            2 | 3 => Some(Some(MergeOperator::Sum(numbers))),
            4 | 5 => Some(Some(MergeOperator::Max(numbers))),
            6 | 7 => Some(Some(MergeOperator::Min(numbers))),
            _ => None,
        }
    }
}

impl Numbers {
    fn read(self, bytes: &[u8]) -> Option<i128> {
        match self {
            Numbers::Binary => bytes.try_into().ok().map(|bytes| i64::from_le_bytes(bytes).into()),
            Numbers::Text => str::from_utf8(bytes).ok()?.parse().ok(),
        }
    }

    fn write(self, number: i128, out: &mut Vec<u8>) {
        match self {
            // A sum wraps around at the ends of 64 bits.
            Numbers::Binary => out.extend_from_slice(&(number as i64).to_le_bytes()),
            Numbers::Text => out.extend_from_slice(number.to_string().as_bytes()),
        }
    }
}

/// What an older and a newer item of a key come to; a value that neither has is put into `scratch`.
pub(super) fn combine(
    operator: Option<MergeOperator>,
    older: Value<'_>,
    newer: Value<'_>,
    scratch: &mut Vec<u8>,
) -> Combined {
    let mut apply = |value: &[u8], operand: &[u8]| {
        scratch.clear();
        // Without an operator no operand is let in.
        operator.unwrap_or(MergeOperator::Append).apply(value, operand, scratch);
    };
    match (older, newer) {
        (_, Value::Put(_) | Value::Deleted) => Combined::Newer,
        (Value::Deleted, Value::IfAbsent(_) | Value::Operand(_)) => Combined::NewerAsPut,
        (_, Value::IfAbsent(_)) => Combined::Older,
        (Value::Put(value), Value::Operand(operand)) => {
            apply(value, operand);
            Combined::Put
        }
        // A dictionary with an operator has no items of the first kind.
        (Value::IfAbsent(value) | Value::Operand(value), Value::Operand(operand)) => {
            apply(value, operand);
            Combined::Operand
        }
    }
}

/// As [`combine`], where `scratch` has the older item's bytes, a value's or an operand's, as [`Combined::Put`] and [`Combined::Operand`]
/// left them.
pub(super) fn combine_more(
    operator: Option<MergeOperator>,
    older: Combined,
    newer: Value<'_>,
    scratch: &mut Vec<u8>,
) -> Combined {
    match newer {
        Value::Put(_) | Value::Deleted => Combined::Newer,
        Value::IfAbsent(_) => older,
        Value::Operand(operand) => {
            operator.unwrap_or(MergeOperator::Append).apply_to(scratch, operand);
            older
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a key has after items in the order in which they came.
    fn after<'a>(operator: Option<MergeOperator>, items: impl Iterator<Item = Value<'a>>) -> Option<Vec<u8>> {
        items.fold(None, |before: Option<Vec<u8>>, item| match item {
            Value::Put(value) => Some(value.to_vec()),
            Value::Deleted => None,
            Value::IfAbsent(value) => before.or_else(|| Some(value.to_vec())),
            Value::Operand(operand) => match before {
                None => Some(operand.to_vec()),
                Some(before) => {
                    let mut out = Vec::new();
                    operator.unwrap().apply(&before, operand, &mut out);
                    Some(out)
                }
            },
        })
    }

    fn combined(
        operator: Option<MergeOperator>,
        older: (u8, Vec<u8>),
        newer: (u8, Vec<u8>),
    ) -> (u8, Vec<u8>) {
        let mut scratch = Vec::new();
        match combine(operator, value(&older), value(&newer), &mut scratch) {
            Combined::Older => older,
            Combined::Newer => newer,
            Combined::NewerAsPut => (0, newer.1),
            Combined::Put => (0, scratch),
            Combined::Operand => (2, scratch),
        }
    }

    fn value(item: &(u8, Vec<u8>)) -> Value<'_> {
        match item.0 {
            0 => Value::Put(&item.1),
            1 => Value::IfAbsent(&item.1),
            2 => Value::Operand(&item.1),
            _ => Value::Deleted,
        }
    }

    proptest! {
        /// Whichever neighbours are combined first, the end is that of the items one after the other.
        #[test]
        fn items_may_be_combined_in_any_grouping(
            code in 0u8..8,
            kinds in prop::collection::vec((0u8..4, any::<i64>()), 1..7),
            order in prop::collection::vec(any::<prop::sample::Index>(), 7),
        ) {
            let operator = MergeOperator::of_code(code).unwrap();
            let mut items: Vec<(u8, Vec<u8>)> = kinds.iter().map(|&(kind, number)| {
                // Operands need an operator, and items that only fill gaps have none.
                let kind = match (kind, operator) { (2, None) => 1, (1, Some(_)) => 2, (kind, _) => kind };
                let bytes = match operator.and_then(MergeOperator::numbers) {
                    Some(Numbers::Text) => number.to_string().into_bytes(),
                    _ => number.to_le_bytes().to_vec(),
                };
                (kind, bytes)
            }).collect();
            let expected = after(operator, items.iter().map(value));
            for at in order {
                if items.len() > 1 {
                    let at = at.index(items.len() - 1);
                    let newer = items.remove(at + 1);
                    items[at] = combined(operator, items[at].clone(), newer);
                }
            }
            prop_assert_eq!(after(operator, items.iter().map(value)), expected);
        }
    }

    proptest! {
        /// Operands that are added to what others came to are no others than by themselves.
        #[test]
        fn items_may_be_combined_in_place(
            code in 0u8..8, kinds in prop::collection::vec((0u8..4, any::<i64>()), 1..9),
        ) {
            let operator = MergeOperator::of_code(code).unwrap();
            let items: Vec<(u8, Vec<u8>)> = (kinds.iter())
                .map(|&(kind, number)| {
                    let kind = match (kind, operator) { (2, None) => 1, (1, Some(_)) => 2, (kind, _) => kind };
                    let bytes = match operator.and_then(MergeOperator::numbers) {
                        Some(Numbers::Text) => number.to_string().into_bytes(),
                        _ => number.to_le_bytes().to_vec(),
                    };
                    (kind, bytes)
                })
                .collect();
            let (mut last, mut so_far, mut scratch) = (items[0].clone(), Combined::Older, Vec::new());
            for item in &items[1..] {
                so_far = match so_far {
                    Combined::Put | Combined::Operand => combine_more(operator, so_far, value(item), &mut scratch),
                    _ => combine(operator, value(&last), value(item), &mut scratch),
                };
                match so_far {
                    Combined::Newer => last = item.clone(),
                    Combined::NewerAsPut => last = (0, item.1.clone()),
                    Combined::Older | Combined::Put | Combined::Operand => {}
                }
            }
            let last = match so_far {
                Combined::Put => (0, scratch),
                Combined::Operand => (2, scratch),
                _ => last,
            };
            prop_assert_eq!(after(operator, [value(&last)].into_iter()), after(operator, items.iter().map(value)));
        }
    }

    #[test]
    fn codes_are_the_operators_own() {
        for code in 0..=u8::MAX {
            match MergeOperator::of_code(code) {
                Some(operator) => assert_eq!(MergeOperator::code(operator), code),
                None => assert!(code > 7),
            }
        }
    }

    #[test]
    fn what_is_no_number_is_refused_by_name() {
        assert!(MergeOperator::Append.check(b"x").is_ok());
        assert!(MergeOperator::Sum(Numbers::Text).check(b"-12").is_ok());
        let error = MergeOperator::Max(Numbers::Text).check(b"1.5\n").unwrap_err().to_string();
        assert!(error.contains("\"1.5\\n\"") && error.contains("decimal"), "{error}");
        assert!(MergeOperator::Min(Numbers::Binary).check(b"1234567").is_err());
    }
}
