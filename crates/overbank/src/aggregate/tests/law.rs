//! The law: for any order, batches and hashes, the groups are those of a map.

use super::inserts::{Insert, inserts, key};
use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Insert(Insert),
    Get { key: u32, kind: u8 },
    Finalize,
    Scan,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => inserts(2500, 5).prop_map(Step::Insert),
        2 => (0u32..4000, 0u8..4).prop_map(|(key, kind)| Step::Get { key, kind }),
        1 => Just(Step::Finalize),
        1 => Just(Step::Scan),
    ];
    prop::collection::vec(step, 1..12)
}

/// Masks of hashes: all; 8 bits, of which some name the leaf; these and some that neither a record nor a page has; one hash for all keys.
pub(super) const MASKS: [u128; 5] = [u128::MAX, 0xff << 120, 0xff << 96, 0xff << 120 | 0xff, 0];

pub(super) fn obeys<A: Aggregate>(groups: &Groups<A>, steps: &[Step], row: impl Fn(u32) -> ModelRow) {
    let mut model = Model::default();
    let mut number = 1;
    for step in steps {
        match *step {
            Step::Insert(insert) => {
                insert.insert(&mut model, &mut number, &row, |keys, rows| {
                    groups.insert_rows(keys, rows).unwrap()
                });
            }
            Step::Get { key: number, kind } => {
                let key = key(number, kind);
                assert_eq!(groups.get(&key).unwrap(), model.group(groups.aggregate(), &key));
            }
            Step::Finalize => groups.finalize().unwrap(),
            Step::Scan => model.check(groups),
        }
    }
    model.check(groups);
}

/// The words of a row of a signed number and a float, each of which is NULL now and then.
pub(in crate::aggregate) fn row_of_numbers(columns: &Columns, number: u32) -> (Vec<u64>, Vec<u8>) {
    let mut rows = RowBatch::new();
    let signed = ((i64::from(number) - 500) * i64::from(number % 9)) << (number % 3 * 20);
    let float = f64::from(number % 1000) * 1.1e-3 * 10f64.powi((number % 40) as i32 - 20);
    let items = match number % 10 {
        0 => [Item::Null, Item::Float(float)],
        1 => [Item::Signed(signed), Item::Null],
        _ => [Item::Signed(signed), Item::Float(float)],
    };
    columns.push_row(number.into(), &items, &mut rows).unwrap();
    (rows.row(0).words.to_vec(), Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn counts_are_those_of_a_map(steps in steps(), lg_leaves in 0u32..5, mask in prop::sample::select(&MASKS[..4])) {
        obeys(&small(Count, lg_leaves, mask), &steps, |_| (Vec::new(), Vec::new()));
    }

    #[test]
    fn several_functions_are_those_of_a_map(steps in steps(), lg_leaves in 0u32..3, mask in prop::sample::select(&MASKS[..4])) {
        let functions = [
            Function::CountRows,
            Function::Sum { column: 0 },
            Function::Min { column: 0 },
            Function::Max { column: 1 },
            Function::Sum { column: 1 },
        ];
        let columns = Columns::new(&[ColumnType::Signed, ColumnType::Float], &functions).unwrap();
        let row = |number| row_of_numbers(&columns, number);
        obeys(&small(columns.clone(), lg_leaves, mask), &steps, row);
    }

    #[test]
    fn functions_with_tails_are_those_of_a_map(steps in steps(), lg_leaves in 0u32..3, mask in prop::sample::select(&MASKS[..3])) {
        let (column, most) = (0, 3);
        let functions = [
            Function::First { column: 1 },
            Function::Min { column },
            Function::List { column, most },
            Function::Distinct { column, most },
            Function::Top { column, most, tracked: 5 },
            Function::DistinctCount { column, lg_m: 4 },
            Function::Quantile { column: 1, q: 0.5, alpha: 0.1 },
            Function::Bitmap { column: 1, below: 40 },
        ];
        let columns = Columns::new(&[ColumnType::Bytes, ColumnType::Unsigned], &functions).unwrap();
        let row = |number: u32| {
            let text = format!("{}", number % 30).repeat(number as usize % 3);
            let items = [Item::Bytes(text.as_bytes()), Item::Unsigned((number % 50).into())];
            let items = if number.is_multiple_of(10) { [items[0], Item::Null] } else { items };
            let mut rows = RowBatch::new();
            columns.push_row(number.wrapping_mul(0x9e37_79b1).into(), &items, &mut rows).unwrap();
            (rows.row(0).words.to_vec(), rows.row(0).bytes.to_vec())
        };
        obeys(&small(columns.clone(), lg_leaves, mask), &steps, row);
    }

    #[test]
    fn states_with_tails_are_those_of_a_map(steps in steps(), lg_leaves in 0u32..3, mask in prop::sample::select(&MASKS[..4])) {
        let row = |number: u32| (vec![1 << (number % 64)], format!("{}", number % 30).into_bytes());
        obeys(&small(Collect, lg_leaves, mask), &steps, row);
    }
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let groups = small(Count, 2, 0);
    let steps = [
        Step::Insert(Insert { first: 0, keys: 1500, each: 2, kind: 0 }),
        Step::Get { key: 77, kind: 0 },
        Step::Insert(Insert { first: 700, keys: 1500, each: 1, kind: 1 }),
        Step::Scan,
    ];
    obeys(&groups, &steps, |_| (Vec::new(), Vec::new()));
}

/// Many rows of a group are taken in at once, between states of it that others have made.
#[test]
fn rows_of_heavy_groups_are_taken_in_at_once() {
    let functions = [
        Function::CountRows,
        Function::Top { column: 0, most: 3, tracked: 40 },
        Function::DistinctCount { column: 0, lg_m: 8 },
        Function::Quantile { column: 0, q: 0.9, alpha: 0.01 },
        Function::Bitmap { column: 0, below: 3000 },
        Function::List { column: 0, most: 20 },
    ];
    let columns = Columns::new(&[ColumnType::Unsigned], &functions).unwrap();
    let options = || GroupsOptions::new().hasher(KeyHasher::new(HashKind::Xxh3, Seed(7)));
    let [groups, mut others] = [(); 2].map(|()| Groups::new(columns.clone(), options()).unwrap());
    let mut model = Model::default();
    for number in 0..24_000u64 {
        let (key, mut rows) = (format!("{}", number % 1000 % 3), RowBatch::new());
        let item = number.wrapping_mul(0x9e37_79b9) % (1 + number % 4000);
        columns.push_row(number, &[Item::Unsigned(item)], &mut rows).unwrap();
        let into = if number / 3000 % 2 == 0 { &groups } else { &others };
        into.insert_batch(&[&key], &rows).unwrap();
        model.insert(key.as_bytes(), rows.row(0));
        if number % 6000 == 5999 {
            groups.merge_from(&others).unwrap();
            others = Groups::new(columns.clone(), options()).unwrap();
        }
    }
    model.check(&groups);
}

/// A count goes through every width of its column.
#[test]
fn heavy_keys_are_counted_beside_light_ones() {
    let groups = small(Count, 1, u128::MAX);
    let light: Vec<String> = (0..3000).map(|i| format!("light {i}")).collect();
    groups.insert_many(&light, &[]).unwrap();
    let heavy: Vec<String> = (0..200_000).map(|i| format!("heavy {}", i % 7)).collect();
    groups.insert_many(&heavy, &[]).unwrap();
    for i in 0..7 {
        let expected = (200_000u64 - i).div_ceil(7);
        assert_eq!(groups.get(format!("heavy {i}").as_bytes()).unwrap().unwrap().words, [expected]);
    }
    let top = groups.top(9, |state| state.words[0]).unwrap();
    let first: Vec<&[u8]> = top.iter().map(|group| &group.key[..]).collect();
    assert_eq!(first[..7].iter().filter(|key| key.starts_with(b"heavy")).count(), 7);
    assert_eq!(first[7..], [&b"light 0"[..], b"light 1"], "of equal ones, those whose keys are less");
    assert!(top.is_sorted_by(|a, b| a.words[0] >= b.words[0]));
}
