//! Every function against the obvious way: sorted vectors, sets, wide integers.

use super::*;
use crate::sketch::HyperLogLog;
use proptest::prelude::*;
use std::cmp::Ordering;

const TYPES: [ColumnType; 5] =
    [ColumnType::Unsigned, ColumnType::Signed, ColumnType::Wide, ColumnType::Float, ColumnType::Bytes];
const Q: f64 = 0.4;
const ALPHA: f64 = 0.02;
const TRACKED: usize = 9;
const MOST: usize = 4;
const BELOW: u32 = 300;

/// Of column 0.
fn functions(column_type: ColumnType) -> Vec<Function> {
    let column = 0;
    let mut all = vec![
        Function::CountRows,
        Function::Count { column },
        Function::Sum { column },
        Function::Min { column },
        Function::Max { column },
        Function::Mean { column },
        Function::First { column },
        Function::Last { column },
        Function::Any { column },
        Function::List { column, most: MOST },
        Function::Distinct { column, most: MOST },
        Function::Top { column, most: MOST, tracked: TRACKED },
        Function::DistinctCount { column, lg_m: 6 },
        Function::Quantile { column, q: Q, alpha: ALPHA },
        Function::Quantile { column, q: 1.0, alpha: ALPHA },
        Function::Bitmap { column, below: BELOW },
        Function::BitAnd { column },
        Function::BitOr { column },
        Function::BitXor { column },
    ];
    for of in [Basis::Population, Basis::Sample] {
        all.extend([Function::Variance { column, of }, Function::Deviation { column, of }]);
    }
    all.retain(|function| function.takes(column_type));
    all
}

/// An item that owns its bytes.
#[derive(Clone, PartialEq, Debug)]
enum Owned {
    Null,
    Unsigned(u64),
    Signed(i64),
    Wide(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Owned {
    fn item(&self) -> Item<'_> {
        match self {
            Owned::Null => Item::Null,
            Owned::Unsigned(number) => Item::Unsigned(*number),
            Owned::Signed(number) => Item::Signed(*number),
            Owned::Wide(number) => Item::Wide(*number),
            Owned::Float(number) => Item::Float(*number),
            Owned::Bytes(bytes) => Item::Bytes(bytes),
        }
    }

    fn value(&self) -> Value {
        match self.clone() {
            Owned::Null => Value::Null,
            Owned::Unsigned(number) => Value::Unsigned(number),
            Owned::Signed(number) => Value::Signed(number),
            Owned::Wide(number) => Value::Wide(number),
            Owned::Float(number) if number.is_nan() => Value::Float(f64::NAN),
            Owned::Float(number) => Value::Float(number),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    fn float(&self) -> f64 {
        match *self {
            Owned::Unsigned(number) => number as f64,
            Owned::Signed(number) => number as f64,
            Owned::Wide(number) => number as f64,
            Owned::Float(number) => number,
            _ => unreachable!("only numbers are asked for as such"),
        }
    }

    fn distinct(&self) -> Owned {
        if *self == Owned::Float(0.0) { Owned::Float(0.0) } else { self.clone() }
    }
}

fn order(one: &Owned, other: &Owned) -> Ordering {
    match (one, other) {
        (Owned::Unsigned(one), Owned::Unsigned(other)) => one.cmp(other),
        (Owned::Signed(one), Owned::Signed(other)) => one.cmp(other),
        (Owned::Wide(one), Owned::Wide(other)) => one.cmp(other),
        (Owned::Bytes(one), Owned::Bytes(other)) => one.cmp(other),
        (Owned::Float(one), Owned::Float(other)) => match (one.is_nan(), other.is_nan()) {
            (false, false) => one.total_cmp(other),
            (one, other) => one.cmp(&other),
        },
        _ => unreachable!("a column has one type"),
    }
}

fn item(column_type: ColumnType) -> BoxedStrategy<Owned> {
    let some = match column_type {
        ColumnType::Unsigned => {
            prop_oneof![6 => 0u64..400, 1 => Just(u64::MAX), 1 => any::<u64>()].prop_map(Owned::Unsigned).boxed()
        }
        ColumnType::Signed => {
            prop_oneof![6 => -9i64..9, 1 => Just(i64::MIN), 1 => any::<i64>()].prop_map(Owned::Signed).boxed()
        }
        ColumnType::Wide => {
            prop_oneof![6 => -9i128..9, 1 => Just(i128::MAX), 1 => any::<i128>(), 1 => any::<i128>().prop_map(|w| w >> 50)]
                .prop_map(Owned::Wide)
                .boxed()
        }
        ColumnType::Float => {
            let special = prop::sample::select(&[-0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY][..]);
            let quarters = |range| prop::num::i32::ANY.prop_map(move |i: i32| f64::from(i % range) / 4.0);
            prop_oneof![6 => quarters(30), 4 => quarters(i32::MAX), 1 => special].prop_map(Owned::Float).boxed()
        }
        ColumnType::Bytes => "[ab]{0,3}|[a-z]{0,20}".prop_map(|text| Owned::Bytes(text.into_bytes())).boxed(),
    };
    prop_oneof![1 => Just(Owned::Null), 5 => some].boxed()
}

/// Rows of one column, each with a place, which most have for themselves.
fn rows() -> impl Strategy<Value = (ColumnType, Vec<(u64, Owned)>)> {
    prop::sample::select(&TYPES[..]).prop_flat_map(|column_type| {
        let place = prop_oneof![8 => any::<u64>(), 1 => 0u64..3];
        (Just(column_type), prop::collection::vec((place, item(column_type)), 0..40))
    })
}

fn batch(columns: &Columns, rows: &[(u64, Owned)]) -> RowBatch {
    let mut batch = RowBatch::new();
    rows.iter().for_each(|(place, item)| columns.push_row(*place, &[item.item()], &mut batch).unwrap());
    batch
}

fn updated(columns: &Columns, rows: &[(u64, Owned)]) -> KeyState {
    let mut state = KeyState { words: vec![0; columns.state_words()], ..KeyState::default() };
    let batch = batch(columns, rows);
    for i in 0..batch.len() {
        columns.update(StateMut { words: &mut state.words, tail: &mut state.tail }, batch.row(i));
    }
    state
}

/// As [`updated`], by all rows before `cut` at once and then by those behind it.
fn updated_at_once(columns: &Columns, rows: &[(u64, Owned)], cut: usize) -> KeyState {
    let mut state = KeyState { words: vec![0; columns.state_words()], ..KeyState::default() };
    let batch = batch(columns, rows);
    let rows: Vec<Row<'_>> = (0..batch.len()).map(|i| batch.row(i)).collect();
    for rows in [&rows[..cut], &rows[cut..]] {
        columns.update_all(StateMut { words: &mut state.words, tail: &mut state.tail }, rows);
    }
    state
}

fn merged(columns: &Columns, mut state: KeyState, other: &KeyState) -> KeyState {
    columns.merge(StateMut { words: &mut state.words, tail: &mut state.tail }, other.as_state());
    state
}

/// What a value should be.
enum Expected {
    Exactly(Value),
    /// A float this near, relatively.
    Near(f64),
    /// Between its bounds.
    Within(f64),
    Anything,
}

fn sum_of(items: &[Owned], column_type: ColumnType) -> Value {
    match column_type {
        ColumnType::Unsigned => {
            let sum: u128 =
                items.iter().map(|item| if let Owned::Unsigned(n) = item { (*n).into() } else { 0 }).sum();
            Value::Unsigned(u64::try_from(sum).unwrap_or(u64::MAX))
        }
        ColumnType::Float => Value::Float(items.iter().fold(0.0, |sum, item| sum + item.float())),
        _ => {
            let wide = items.iter().map(|item| match *item {
                Owned::Signed(number) => i128::from(number),
                Owned::Wide(number) => number,
                _ => 0,
            });
            // Two halves, for the sum may need more than 128 bits.
            let (high, low) = wide
                .fold((0, 0), |(high, low), n| (high + (n >> 64), low + (n & u128::from(u64::MAX) as i128)));
            let (high, low) = (high + (low >> 64), low as u64);
            if column_type == ColumnType::Signed {
                let sum = (high << 64 | i128::from(low)).clamp(i64::MIN.into(), i64::MAX.into());
                return Value::Signed(sum as i64);
            }
            Value::Wide(match i64::try_from(high) {
                Ok(high) => i128::from(high) << 64 | i128::from(low),
                Err(_) if high < 0 => i128::MIN,
                Err(_) => i128::MAX,
            })
        }
    }
}

/// Whether the arithmetic of the variance below is exact.
fn is_small(items: &[Owned]) -> bool {
    items.iter().all(|item| item.float().abs() < 2f64.powi(45))
}

fn variance_of(items: &[Owned], of: Basis) -> Option<f64> {
    let n = items.len() as i128;
    let less = if of == Basis::Sample { 1 } else { 0 };
    if n <= less {
        return None;
    }
    let quarters = items.iter().map(|item| (item.float() * 4.0) as i128);
    let (sum, squares) = quarters.fold((0, 0), |(sum, squares), n| (sum + n, squares + n * n));
    Some((n * squares - sum * sum) as f64 / 16.0 / (n * (n - less)) as f64)
}

fn expected(function: Function, column_type: ColumnType, rows: &[(u64, Owned)]) -> Expected {
    let mut placed: Vec<&(u64, Owned)> = rows.iter().filter(|row| row.1 != Owned::Null).collect();
    placed.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| order(&one.1, &other.1)));
    let items: Vec<Owned> = placed.iter().map(|row| row.1.clone()).collect();
    let mut sorted = items.clone();
    sorted.sort_by(order);
    let mut distinct: Vec<Owned> = items.iter().map(Owned::distinct).collect();
    distinct.sort_by(order);
    distinct.dedup_by(|one, other| order(one, other).is_eq());
    let or_null = |item: Option<&Owned>| Expected::Exactly(item.map_or(Value::Null, Owned::value));
    let list = |items: &[Owned], left_out| {
        Expected::Exactly(Value::List { values: items.iter().map(Owned::value).collect(), left_out })
    };
    let near = |value: Option<f64>| value.map_or(Expected::Exactly(Value::Null), Expected::Near);
    let bits =
        |fold: fn(u64, u64) -> u64| {
            let raw = items.iter().map(|item| match *item {
                Owned::Signed(number) => number as u64,
                Owned::Unsigned(number) => number,
                _ => unreachable!("bits are of whole numbers"),
            });
            let all = raw.reduce(fold);
            let signed = column_type == ColumnType::Signed;
            Expected::Exactly(all.map_or(Value::Null, |all| {
                if signed { Value::Signed(all as i64) } else { Value::Unsigned(all) }
            }))
        };
    match function {
        Function::CountRows => Expected::Exactly(Value::Unsigned(rows.len() as u64)),
        Function::Count { .. } => Expected::Exactly(Value::Unsigned(items.len() as u64)),
        Function::Sum { .. } if items.is_empty() => Expected::Exactly(Value::Null),
        Function::Sum { .. } => Expected::Exactly(sum_of(&items, column_type)),
        Function::Min { .. } | Function::Any { .. } => or_null(sorted.first()),
        Function::Max { .. } => or_null(sorted.last()),
        Function::First { .. } => or_null(items.first()),
        Function::Last { .. } => or_null(items.last()),
        Function::Mean { .. }
            if !items.is_empty() && column_type != ColumnType::Float && !is_small(&items) =>
        {
            Expected::Anything
        }
        Function::Mean { .. } if items.is_empty() => Expected::Exactly(Value::Null),
        Function::Mean { .. } => {
            let sum: f64 = items.iter().map(Owned::float).sum();
            Expected::Near(sum / items.len() as f64)
        }
        Function::Variance { .. } | Function::Deviation { .. }
            if items.iter().any(|item| !item.float().is_finite()) =>
        {
            let is_known = !matches!(
                function,
                Function::Variance { of: Basis::Sample, .. } | Function::Deviation { of: Basis::Sample, .. }
            );
            near((is_known || items.len() > 1).then_some(f64::NAN))
        }
        Function::Variance { .. } | Function::Deviation { .. } if !is_small(&items) => Expected::Anything,
        Function::Variance { of, .. } => near(variance_of(&items, of)),
        Function::Deviation { of, .. } => near(variance_of(&items, of).map(f64::sqrt)),
        Function::List { most, .. } => {
            let kept = &items[..items.len().min(most)];
            list(kept, LeftOut::Exactly((items.len() - kept.len()) as u64))
        }
        Function::Distinct { most, .. } => {
            let has_more = distinct.len() > most;
            list(
                &distinct[..distinct.len().min(most)],
                if has_more { LeftOut::Some } else { LeftOut::Exactly(0) },
            )
        }
        Function::Top { most, tracked, .. } if distinct.len() <= tracked => {
            let count = |item: &Owned| {
                items.iter().filter(|other| order(&other.distinct(), item).is_eq()).count() as u64
            };
            let mut counts: Vec<(u64, Value)> =
                distinct.iter().map(|item| (count(item), item.value())).collect();
            counts.sort_by_key(|count| std::cmp::Reverse(count.0));
            let others_at_most = counts.get(most).map_or(0, |next| next.0);
            counts.truncate(most);
            let counts =
                counts.into_iter().map(|(count, value)| Counted { value, count, error: 0 }).collect();
            Expected::Exactly(Value::Counts { counts, others_at_most })
        }
        Function::Top { .. } => Expected::Anything,
        Function::DistinctCount { lg_m, .. } => {
            let hasher = KeyHasher::new(HashKind::Xxh3, Seed(0));
            let mut sketch = HyperLogLog::new(lg_m, hasher).unwrap();
            for item in &distinct {
                sketch.update(match item {
                    Owned::Bytes(bytes) => hasher.hash(bytes),
                    Owned::Wide(number) => hasher.hash(&number.to_le_bytes()),
                    Owned::Signed(number) => hasher.hash_u64(*number as u64),
                    Owned::Unsigned(number) => hasher.hash_u64(*number),
                    Owned::Float(number) if number.is_nan() => hasher.hash_u64(f64::NAN.to_bits()),
                    item => hasher.hash_u64(item.float().to_bits()),
                });
            }
            let (lower, upper) = (sketch.lower_bound(3.0), sketch.upper_bound(3.0));
            Expected::Exactly(Value::About { value: sketch.estimate(), lower, upper })
        }
        Function::Quantile { q, .. } => {
            let finite: Vec<f64> =
                sorted.iter().map(Owned::float).filter(|float| float.is_finite()).collect();
            match finite.len().checked_sub(1) {
                None => Expected::Exactly(Value::Null),
                Some(last) => Expected::Within(finite[(q * last as f64) as usize]),
            }
        }
        Function::Bitmap { below, .. } => {
            let is_below = |item: &Owned| matches!(item, Owned::Unsigned(number) if *number < below.into());
            let left_out = items.iter().filter(|item| !is_below(item)).count() as u64;
            let kept: Vec<Owned> = distinct.iter().filter(|item| is_below(item)).cloned().collect();
            list(&kept, LeftOut::Exactly(left_out))
        }
        Function::BitAnd { .. } => bits(|one, other| one & other),
        Function::BitOr { .. } => bits(|one, other| one | other),
        Function::BitXor { .. } => bits(|one, other| one ^ other),
    }
}

fn check(function: Function, value: &Value, expected: &Expected) {
    match (expected, value) {
        (Expected::Anything, _) => {}
        // As text, in which a NaN is equal to itself and a zero below zero is not one above.
        (Expected::Exactly(expected), value) => {
            assert_eq!(format!("{value:?}"), format!("{expected:?}"), "{function:?}");
        }
        (Expected::Near(truth), Value::Float(value)) => {
            let is_near = (value - truth).abs() <= truth.abs() * 4.0 * f64::EPSILON;
            assert!(
                is_near || value.is_nan() && truth.is_nan() || value == truth,
                "{function:?}: {value}, not {truth}"
            );
        }
        (Expected::Within(truth), Value::About { value, lower, upper }) => {
            assert!(lower <= value && value <= upper, "{function:?}: {value} in {lower} to {upper}");
            assert!(lower <= truth && truth <= upper, "{function:?}: {truth} in {lower} to {upper}");
            assert!((value - truth).abs() <= ALPHA * truth.abs(), "{function:?}: {value}, not {truth}");
        }
        (_, value) => panic!("{function:?}: {value:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The values are those of the obvious way; states do not depend on order, nor on what was merged into what.
    #[test]
    fn functions_are_those_of_sql(
        (column_type, rows) in rows(),
        keys in prop::collection::vec((any::<u32>(), 0usize..4), 40),
        tree in prop::collection::vec(any::<prop::sample::Index>(), 4),
    ) {
        let mut shuffled: Vec<((u32, usize), (u64, Owned))> = keys.into_iter().zip(rows.iter().cloned()).collect();
        shuffled.sort_by_key(|row| row.0);
        for function in functions(column_type) {
            let columns = Columns::new(&[column_type], &[function]).unwrap().overflow(Overflow::Saturate);
            let whole = updated(&columns, &rows);
            let at_once = updated_at_once(&columns, &rows, tree[0].index(rows.len() + 1));
            prop_assert_eq!(&at_once, &whole, "{:?}", function);
            let mut parts: Vec<KeyState> = (0..4)
                .map(|part| {
                    let rows = shuffled.iter().filter(|row| row.0.1 == part).map(|row| row.1.clone());
                    updated(&columns, &rows.collect::<Vec<_>>())
                })
                .collect();
            for at in &tree {
                if parts.len() > 1 {
                    let one = parts.remove(at.index(parts.len()));
                    let i = at.index(parts.len());
                    parts[i] = merged(&columns, one, &parts[i]);
                }
            }
            prop_assert_eq!(&parts[0], &whole, "{:?}", function);
            prop_assert!(whole.tail.len() <= columns.tail_bytes_max(), "{:?}: {} bytes", function, whole.tail.len());
            let values = columns.values(whole.as_state()).unwrap();
            check(function, &values[0], &expected(function, column_type, &rows));
        }
    }

    /// Several at once say what each says alone, and share what they can.
    #[test]
    fn functions_do_not_disturb_each_other((column_type, rows) in rows()) {
        let all = functions(column_type);
        for some in [&all[..all.len() / 2], &all[all.len() / 2..]] {
            let columns = Columns::new(&[column_type], some).unwrap().overflow(Overflow::Saturate);
            let state = updated(&columns, &rows);
            prop_assert_eq!(&updated_at_once(&columns, &rows, rows.len() / 3), &state);
            let values = columns.values(state.as_state()).unwrap();
            for (&function, value) in some.iter().zip(&values) {
                check(function, value, &expected(function, column_type, &rows));
            }
        }
    }

    /// Bytes of a file may be anything: that is an error or some value, and never a panic; what is corrupt stays so when it is merged.
    #[test]
    fn states_of_any_bytes_do_no_harm(
        (column_type, rows) in rows(),
        words in prop::collection::vec(any::<u64>(), 64),
        garbage in prop::collection::vec(any::<u8>(), 0..60),
        place in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        for function in functions(column_type) {
            let columns = Columns::new(&[column_type], &[function]).unwrap();
            let whole = updated(&columns, &rows);
            let mut damaged = whole.clone();
            if !damaged.tail.is_empty() {
                let at = place.index(damaged.tail.len());
                damaged.tail[at] = byte;
            }
            let noise = KeyState { words: words[..columns.state_words()].to_vec(), tail: garbage.clone(), ..KeyState::default() };
            let cut = KeyState { tail: whole.tail[..place.index(whole.tail.len() + 1)].to_vec(), ..whole.clone() };
            for mut state in [damaged, noise, cut] {
                let is_corrupt = columns.values(state.as_state()).is_err();
                for (one, other) in [(&state, &whole), (&whole, &state)] {
                    let both = merged(&columns, one.clone(), other);
                    let _ = columns.values(both.as_state());
                }
                // A section that no state has is found by the next merge, or by whoever asks.
                let twice = merged(&columns, merged(&columns, whole.clone(), &state), &whole);
                if is_corrupt && whole.words[0] & 1 == 1 && state.words[0] & 1 == 1 && columns.has_tail() {
                    prop_assert!(columns.values(twice.as_state()).is_err(), "{:?}", function);
                }
                let batch = batch(&columns, &rows);
                let rows: Vec<Row<'_>> = (0..batch.len()).map(|i| batch.row(i)).collect();
                let mut at_once = state.clone();
                columns.update_all(StateMut { words: &mut at_once.words, tail: &mut at_once.tail }, &rows);
                let _ = columns.values(at_once.as_state());
                for &row in &rows {
                    columns.update(StateMut { words: &mut state.words, tail: &mut state.tail }, row);
                }
                let _ = columns.values(state.as_state());
            }
            let _ = columns.values(State { words: &words[..3], tail: &garbage });
        }
    }
}

fn value_of(column_type: ColumnType, function: Function, items: &[Owned]) -> Value {
    let columns = Columns::new(&[column_type], &[function]).unwrap();
    let rows: Vec<(u64, Owned)> = (0..).zip(items.iter().cloned()).collect();
    columns.values(updated(&columns, &rows).as_state()).unwrap().remove(0)
}

/// Against fractions of integers of any size, rounded once.
#[test]
fn variances_are_those_of_exact_arithmetic() {
    let floats =
        |numbers: &[f64]| (ColumnType::Float, numbers.iter().copied().map(Owned::Float).collect::<Vec<_>>());
    let near: Vec<f64> = (0..10).map(|i| 1e8 + 1e-7 * f64::from(i)).collect();
    let mut outlier: Vec<f64> = (1..8).map(|i| 1e-8 * f64::from(i)).collect();
    outlier.push(1e8);
    let unsigned = [u64::MAX, 0, 1].map(Owned::Unsigned).to_vec();
    let signed = [i64::MIN, i64::MIN, i64::MIN + 1].map(Owned::Signed).to_vec();
    let wide = [i128::MIN, i128::MAX, 5].map(Owned::Wide).to_vec();
    let inf = f64::INFINITY;
    let cases = [
        (
            floats(&near),
            [
                100000000.00000045,
                8.23252577220046e-14,
                9.147250858000512e-14,
                2.8692378382072933e-07,
                3.0244422391575794e-07,
            ],
        ),
        (
            floats(&[1e16, 1.0, -1e16]),
            [0.3333333333333333, 6.666666666666667e+31, 1e+32, 8164965809277260.0, 1e+16],
        ),
        (
            floats(&[1e300, 1e-300, 3.0]),
            [3.3333333333333335e+299, inf, inf, 4.714045207910317e+299, 5.773502691896258e+299],
        ),
        (floats(&[5e-324, 1e-323, 0.0]), [5e-324, 0.0, 0.0, 5e-324, 5e-324]),
        (floats(&[1e-200, 3e-200]), [2e-200, 0.0, 0.0, 1e-200, 1.414213562373095e-200]),
        (
            floats(&[0.1, 0.2, 0.3]),
            [0.2, 0.006666666666666665, 0.009999999999999998, 0.0816496580927726, 0.09999999999999999],
        ),
        (
            floats(&outlier),
            [
                12500000.000000035,
                1093749999999999.1,
                1249999999999999.0,
                33071891.38830737,
                35355339.059327364,
            ],
        ),
        (
            (ColumnType::Unsigned, unsigned),
            [
                6.148914691236517e+18,
                7.561830376020854e+37,
                1.1342745564031281e+38,
                8.695878550221855e+18,
                1.0650232656628343e+19,
            ],
        ),
        (
            (ColumnType::Signed, signed),
            [
                -9.223372036854776e+18,
                0.2222222222222222,
                0.3333333333333333,
                0.4714045207910317,
                0.5773502691896257,
            ],
        ),
        (
            (ColumnType::Wide, wide),
            [
                1.3333333333333333,
                1.9298681539552698e+76,
                2.894802230932905e+76,
                1.389196945704701e+38,
                1.7014118346046923e+38,
            ],
        ),
    ];
    for ((column_type, items), expected) in cases {
        let column = 0;
        let functions = [
            Function::Mean { column },
            Function::Variance { column, of: Basis::Population },
            Function::Variance { column, of: Basis::Sample },
            Function::Deviation { column, of: Basis::Population },
            Function::Deviation { column, of: Basis::Sample },
        ];
        for (function, expected) in functions.into_iter().zip(expected) {
            let Value::Float(value) = value_of(column_type, function, &items) else { panic!("{function:?}") };
            // The root is that of a rounded number, and is rounded itself.
            let is_root = matches!(function, Function::Deviation { .. });
            let is_same = value == expected || is_root && value.to_bits().abs_diff(expected.to_bits()) == 1;
            assert!(is_same, "{function:?} of {items:?} is {value}, not {expected}");
        }
    }
}

/// Fixed places, so that it either always fails or never. Of 300 counts, each is outside of its bounds with a probability below 1/200: more
/// than 15 of them with one below 1e-9.
#[test]
fn frequent_items_are_found_in_a_sample() {
    let (column, most, tracked) = (0, 100, 1024);
    let columns = Columns::new(&[ColumnType::Unsigned], &[Function::Top { column, most, tracked }]).unwrap();
    let mut outside = 0;
    for seed in 0..3u64 {
        let (mut batch, mut truth) = (RowBatch::new(), std::collections::BTreeMap::new());
        let mut state = KeyState { words: vec![0; columns.state_words()], ..KeyState::default() };
        for place in 0..15_000u64 {
            // Item i has a share of about 1 / 2i, and a third of the rows have items of their own.
            let random = place
                .wrapping_add(seed << 32)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let item = if place % 3 == 0 {
                place + 5000
            } else {
                (2000.0 / ((random >> 40) as f64 / f64::from(1 << 24) * 2000.0 + 1.0)) as u64
            };
            *truth.entry(item).or_insert(0u64) += 1;
            batch.clear();
            columns
                .push_row(
                    place.wrapping_mul(31).wrapping_add(seed << 40),
                    &[Item::Unsigned(item)],
                    &mut batch,
                )
                .unwrap();
            columns.update(StateMut { words: &mut state.words, tail: &mut state.tail }, batch.row(0));
        }
        let Value::Counts { counts, others_at_most } = columns.values(state.as_state()).unwrap().remove(0)
        else {
            panic!("counts")
        };
        assert_eq!(counts.len(), most);
        for Counted { value, count, error } in &counts {
            let Value::Unsigned(item) = value else { panic!("{value:?}") };
            outside += usize::from(truth[item].abs_diff(*count) > *error);
            truth.remove(item);
        }
        let most_left = truth.values().max().unwrap();
        assert!(
            *most_left <= others_at_most,
            "{most_left} of an item that is not listed, at most {others_at_most}"
        );
        assert!(others_at_most < 800);
    }
    assert!(outside <= 15, "{outside} of 300");
}

/// Fixed items; 6.2 standard errors are exceeded with a probability below 1e-9.
#[test]
fn distinct_items_are_counted_within_their_error() {
    let (column, lg_m) = (0, 10);
    let columns = Columns::new(&[ColumnType::Bytes], &[Function::DistinctCount { column, lg_m }]).unwrap();
    let mut rows: Vec<(u64, Owned)> = Vec::new();
    for count in [3u32, 200, 20_000] {
        while rows.len() < count as usize {
            rows.push((0, Owned::Bytes(format!("item {}", rows.len()).into_bytes())));
        }
        let state = updated(&columns, &rows);
        let Value::About { value, .. } = columns.values(state.as_state()).unwrap().remove(0) else {
            panic!("about")
        };
        let error = 6.2 * 1.04 / 32.0;
        assert!((value / f64::from(count) - 1.0).abs() < error, "{value}, not {count}");
        assert!(state.tail.len() <= if count == 3 { 12 } else { 1030 }, "{} bytes", state.tail.len());
    }
}

/// Numbers of 600 decimal places take no more bins than may be, and their quantiles are within what is said.
#[test]
fn quantiles_of_numbers_far_apart_have_bounds() {
    let function = |q| Function::Quantile { column: 0, q, alpha: 0.001 };
    let columns = Columns::new(&[ColumnType::Float], &[0.0, 0.2, 0.5, 0.9].map(function)).unwrap();
    let number = |i: u64| Owned::Float((i as f64 - 4000.0) * 10f64.powi((i * 7919 % 600) as i32 - 300));
    let rows: Vec<(u64, Owned)> = (0..9000).map(|i| (i, number(i))).collect();
    let whole = updated(&columns, &rows);
    let halves = [&rows[..100], &rows[100..]].map(|rows| updated(&columns, rows));
    assert_eq!(merged(&columns, halves[0].clone(), &halves[1]), whole);
    assert_eq!(merged(&columns, halves[1].clone(), &halves[0]), whole);
    assert!(whole.tail.len() < 10_000);
    let mut sorted: Vec<f64> = rows.iter().map(|row| row.1.float()).collect();
    sorted.sort_by(f64::total_cmp);
    for (value, q) in columns.values(whole.as_state()).unwrap().iter().zip([0.0, 0.2, 0.5, 0.9]) {
        let truth = sorted[(q * 8999.0) as usize];
        assert!(
            matches!(value, Value::About { lower, upper, .. } if *lower <= truth && truth <= *upper),
            "{value:?}, {truth}"
        );
    }
}

/// What is kept for a group of three rows: a byte more or less changes what files hold.
#[test]
fn tails_of_three_rows_are_small_and_known() {
    /// Two items, and the hashes of 0, 9 and 4.
    const TOP: [u8; 28] = [
        27, 0, 3, 234, 108, 119, 221, 1, b'a', 2, 2, 153, 138, 10, 44, 234, 108, 119, 221, 2, b'f', b'o', 1,
        1, 43, 29, 53, 140,
    ];
    let column = 0;
    let texts = ["a", "fo", "a"].map(|text| Owned::Bytes(text.as_bytes().to_vec()));
    let numbers = [3, 70, 3].map(Owned::Unsigned);
    let cases: [(&[Owned; 3], Function, &[u8]); 8] = [
        (&texts, Function::Max { column }, &[2, b'f', b'o']),
        (&texts, Function::Last { column }, &[1, b'a']),
        (&texts, Function::List { column, most: 9 }, &[11, 3, 9, 1, b'a', 5, 2, b'f', b'o', 4, 1, b'a']),
        (&texts, Function::Distinct { column, most: 9 }, &[6, 4, 1, b'a', 2, b'f', b'o']),
        (&texts, Function::Top { column, most: 9, tracked: 9 }, &TOP),
        (&texts, Function::DistinctCount { column, lg_m: 12 }, &[7, 0, 150, 21, 1, 209, 3, 2]),
        (&numbers, Function::Quantile { column, q: 0.5, alpha: 0.01 }, &[9, 0, 0, 224, 222, 4, 2, 158, 1, 1]),
        (&numbers, Function::Bitmap { column, below: 100 }, &[3, 0, 3, 66]),
    ];
    let mut found = Vec::new();
    for (items, function, _) in &cases {
        let column_type =
            if matches!(items[0], Owned::Bytes(_)) { ColumnType::Bytes } else { ColumnType::Unsigned };
        let columns = Columns::new(&[column_type], &[*function]).unwrap();
        let rows: Vec<(u64, Owned)> = [0, 4, 9].into_iter().zip(items.iter().cloned()).collect();
        found.push((function.name(), updated(&columns, &rows).tail));
    }
    let expected: Vec<(&str, Vec<u8>)> = cases.iter().map(|case| (case.1.name(), case.2.to_vec())).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_cannot_be_asked_is_refused_by_name() {
    let column = 0;
    let refused = |types: &[ColumnType], function| Columns::new(types, &[function]).unwrap_err().to_string();
    assert!(refused(&[], Function::Sum { column }).contains("there are 0"));
    assert!(refused(&[ColumnType::Bytes], Function::Sum { column }).contains("sum"));
    assert!(refused(&[ColumnType::Signed], Function::Bitmap { column, below: 9 }).contains("bitmap"));
    for function in [
        Function::List { column, most: 0 },
        Function::Distinct { column, most: 1 << 20 },
        Function::Top { column, most: 3, tracked: 2 },
        Function::DistinctCount { column, lg_m: 3 },
        Function::Quantile { column, q: 1.1, alpha: 0.01 },
        Function::Quantile { column, q: f64::NAN, alpha: 0.01 },
        Function::Quantile { column, q: 0.1, alpha: 0.0 },
        Function::Bitmap { column, below: 0 },
    ] {
        assert!(refused(&[ColumnType::Unsigned], function).contains("cannot be"), "{function:?}");
    }
    assert!(Columns::new(&[ColumnType::Float; 64], &[]).is_err());
    assert!(Columns::new(&[ColumnType::Wide; 32], &[]).is_err(), "64 words and one for NULLs");
    let sums: Vec<Function> = (0..20).map(|column| Function::Sum { column }).collect();
    assert!(Columns::new(&[ColumnType::Float; 20], &sums).is_err());
    let columns = Columns::new(&[ColumnType::Bytes], &[Function::Min { column }]).unwrap().item_bytes_max(3);
    let mut rows = RowBatch::new();
    assert!(columns.push_row(0, &[], &mut rows).is_err());
    assert!(columns.push_row(0, &[Item::Signed(3)], &mut rows).is_err());
    assert!(columns.push_row(0, &[Item::Bytes(b"long")], &mut rows).is_err());
    assert!(rows.is_empty() && rows.words.is_empty() && rows.bytes.is_empty());
}

#[test]
fn a_sum_that_does_not_fit_is_refused_or_saturated() {
    for (column_type, item, digits, nearest) in [
        (ColumnType::Unsigned, Owned::Unsigned(u64::MAX), "36893488147419103230", Value::Unsigned(u64::MAX)),
        (ColumnType::Signed, Owned::Signed(i64::MIN), "-18446744073709551616", Value::Signed(i64::MIN)),
        (ColumnType::Wide, Owned::Wide(i128::MAX), "3.402823669209385e38", Value::Wide(i128::MAX)),
        (ColumnType::Wide, Owned::Wide(i128::MIN), "-about 3.402823669209385e38", Value::Wide(i128::MIN)),
    ] {
        let columns = Columns::new(&[column_type], &[Function::Sum { column: 0 }]).unwrap();
        let state = updated(&columns, &[(0, item.clone()), (1, item)]);
        let error = columns.values(state.as_state()).unwrap_err().to_string();
        assert!(error.contains(digits), "{error}");
        assert_eq!(columns.overflow(Overflow::Saturate).values(state.as_state()).unwrap(), [nearest]);
    }
}

/// Those that ask for the same have it once.
#[test]
fn functions_share_what_they_keep() {
    let column = 0;
    let all = [
        Function::Deviation { column, of: Basis::Sample },
        Function::Variance { column, of: Basis::Population },
        Function::Mean { column },
        Function::Sum { column },
        Function::Count { column },
        Function::Quantile { column, q: 0.5, alpha: 0.01 },
        Function::Quantile { column, q: 0.9, alpha: 0.01 },
    ];
    let columns = Columns::new(&[ColumnType::Signed], &all).unwrap();
    assert_eq!(columns.state_words(), 1 + 3 + 2 + 1);
    assert_eq!(
        columns.tail_bytes_max(),
        Columns::new(&[ColumnType::Signed], &all[6..]).unwrap().tail_bytes_max()
    );
    assert!(!columns.has_places());
}
