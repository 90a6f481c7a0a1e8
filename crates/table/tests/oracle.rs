//! Groups against a map from keys to rows, whatever the columns, batches and threads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt8Array, types::UInt8Type,
};
use overbank::aggregate::GroupsOptions;
use overbank::{HashKind, KeyHasher, Seed};
use overbank_table::{Call, Order, TableGroups, TableOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row: keys `name`, `size`, `weight`; values `amount`, `price`, `rate`, `note`.
#[derive(Clone, Debug)]
struct Row {
    name: Option<String>,
    size: Option<i32>,
    weight: Option<f64>,
    amount: Option<i64>,
    price: Option<i128>,
    rate: Option<f64>,
    note: Option<String>,
}

fn row() -> impl Strategy<Value = Row> {
    let name = prop::option::of(prop::sample::select(vec!["", "pear", "fig", "\0", "\u{1}", "pear\0"]));
    let size = prop::option::of(prop::sample::select(vec![0, -1, 1, 110, 111, i32::MIN, i32::MAX]));
    let weight = prop::option::of(prop::sample::select(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.5]));
    let amount = prop::option::of(-1000i64..1000);
    let price = prop::option::of(-99_999i128..100_000);
    let rate = prop::option::of(any::<i16>().prop_map(|rate| f64::from(rate) / 16.0));
    let note = prop::option::of("[a-c]{0,3}");
    (name, size, weight, amount, price, rate, note).prop_map(
        |(name, size, weight, amount, price, rate, note)| Row {
            name: name.map(str::to_owned),
            size,
            weight,
            amount,
            price,
            rate,
            note,
        },
    )
}

fn batch(rows: &[Row]) -> RecordBatch {
    let prices = rows.iter().map(|row| row.price).collect::<Decimal128Array>();
    RecordBatch::try_from_iter([
        ("name", Arc::new(rows.iter().map(|row| row.name.as_deref()).collect::<StringArray>()) as _),
        ("size", Arc::new(rows.iter().map(|row| row.size).collect::<Int32Array>()) as _),
        ("weight", Arc::new(rows.iter().map(|row| row.weight).collect::<Float64Array>()) as _),
        ("amount", Arc::new(rows.iter().map(|row| row.amount).collect::<Int64Array>()) as _),
        ("price", Arc::new(prices.with_precision_and_scale(10, 2).unwrap()) as _),
        ("rate", Arc::new(rows.iter().map(|row| row.rate).collect::<Float64Array>()) as _),
        ("note", Arc::new(rows.iter().map(|row| row.note.as_deref()).collect::<StringArray>()) as _),
    ])
    .unwrap()
}

const CALLS: &str = "count,count(note),sum(amount),min(amount),max(amount),sum(price),max(price),sum(rate),min(rate),min(note),max(note)";

/// A value as a text that is equal for what SQL calls equal.
fn told(float: f64) -> String {
    match float {
        _ if float.is_nan() => "nan".to_owned(),
        _ if float == 0.0 => "0".to_owned(),
        _ => float.to_string(),
    }
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

fn key_of(row: &Row, by: &[&str]) -> Vec<String> {
    by.iter()
        .map(|name| match *name {
            "name" => format!("{:?}", row.name),
            "size" => or_null(row.size),
            _ => or_null(row.weight.map(told)),
        })
        .collect()
}

/// The results by key, computed one row at a time.
fn expected(rows: &[Row], by: &[&str]) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(key_of(row, by)).or_default().push(row);
    }
    let results = |rows: &Vec<&Row>| {
        let amounts = || rows.iter().filter_map(|row| row.amount);
        let prices = || rows.iter().filter_map(|row| row.price);
        let rates = || rows.iter().filter_map(|row| row.rate);
        let notes = || rows.iter().filter_map(|row| row.note.clone());
        vec![
            rows.len().to_string(),
            notes().count().to_string(),
            or_null(amounts().reduce(|sum, amount| sum + amount)),
            or_null(amounts().min()),
            or_null(amounts().max()),
            or_null(prices().reduce(|sum, price| sum + price)),
            or_null(prices().max()),
            // Sixteenths add up without loss.
            or_null(rates().reduce(|sum, rate| sum + rate).map(told)),
            or_null(rates().reduce(f64::min).map(told)),
            or_null(notes().min()),
            or_null(notes().max()),
        ]
    };
    groups.iter().map(|(key, rows)| (key.clone(), results(rows))).collect()
}

/// A column of results as texts.
fn texts(array: &dyn Array, is_name: bool) -> Vec<String> {
    use arrow_schema::DataType;
    match array.data_type() {
        DataType::Utf8 if is_name => {
            array.as_string::<i32>().iter().map(|name| format!("{:?}", name.map(str::to_owned))).collect()
        }
        DataType::Utf8 => array.as_string::<i32>().iter().map(or_null).collect(),
        DataType::Int32 => {
            array.as_primitive::<arrow_array::types::Int32Type>().iter().map(or_null).collect()
        }
        DataType::Int64 => array.as_primitive::<Int64Type>().iter().map(or_null).collect(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().iter().map(or_null).collect(),
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().map(|float| or_null(float.map(told))).collect()
        }
        other => panic!("{other}"),
    }
}

/// Rows of results as texts, the key apart.
fn rows_of(batch: &RecordBatch, keys: usize) -> Vec<(Vec<String>, Vec<String>)> {
    let columns: Vec<Vec<String>> = batch
        .columns()
        .iter()
        .enumerate()
        .map(|(i, array)| texts(array.as_ref(), i < keys && batch.schema().field(i).name() == "name"))
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            let cells = columns.iter().map(|column| column[row].clone());
            (cells.clone().take(keys).collect(), cells.skip(keys).collect())
        })
        .collect()
}

fn options(threads: usize) -> TableOptions {
    let hasher = KeyHasher::new(HashKind::Xxh3, Seed(7));
    let groups = GroupsOptions::new().memory_bytes(8 << 20).threads(threads).hasher(hasher);
    // Small enough for several batches and several passes.
    TableOptions::new().groups(groups).batch_rows(5).sort_bytes(2_000)
}

fn table(rows: &[Row], by: &[&str], piece: usize, threads: usize) -> TableGroups {
    let calls = Call::parse_list(CALLS).unwrap();
    let groups = TableGroups::new(&batch(&[]).schema(), by, &calls, options(threads)).unwrap();
    let pieces: Vec<&[Row]> = rows.chunks(piece).collect();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (groups, pieces) = (&groups, &pieces);
            scope.spawn(move || {
                for (number, piece) in
                    pieces.iter().enumerate().filter(|(number, _)| number % threads == thread)
                {
                    groups.insert_at(&batch(piece), number as u64 * 1000).unwrap();
                }
            });
        }
    });
    groups
}

fn by() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(vec!["name", "size", "weight"], 0..=3).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn results_are_those_of_a_map(
        rows in prop::collection::vec(row(), 0..150), by in by(), piece in 1usize..60, threads in 1usize..4,
    ) {
        let groups = table(&rows, &by, piece, threads);
        let expected = expected(&rows, &by);
        let mut found = BTreeMap::new();
        for batch in groups.batches().unwrap() {
            let batch = batch.unwrap();
            prop_assert_eq!(batch.schema(), groups.schema());
            prop_assert!((1..=5).contains(&batch.num_rows()));
            for (key, values) in rows_of(&batch, by.len()) {
                prop_assert!(found.insert(key, values).is_none());
            }
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(groups.count().unwrap(), expected.len() as u64);

        // One thread with other batches gives the same bytes in the same order.
        let again = table(&rows, &by, 7, 1);
        let all = |groups: &TableGroups| groups.batches().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        prop_assert_eq!(all(&groups), all(&again));

        // Keys that are asked for, and one that is not there.
        if !by.is_empty() {
            let mut asked = rows.clone();
            asked.push(Row { name: Some("absent".into()), size: Some(77), weight: Some(7.0), ..rows.first().cloned().unwrap_or(Row {
                name: None, size: None, weight: None, amount: None, price: None, rate: None, note: None }) });
            let answers = rows_of(&groups.get(&batch(&asked)).unwrap(), by.len());
            let (absent, present) = answers.split_last().unwrap();
            for ((key, values), row) in present.iter().zip(&asked) {
                prop_assert_eq!(key, &key_of(row, &by));
                prop_assert_eq!(Some(values), expected.get(key));
            }
            prop_assert_eq!(&absent.1[..3], ["0", "0", "NULL"]);
        }
    }

    #[test]
    fn sorted_results_are_in_order_and_the_first_n_are_their_beginning(
        rows in prop::collection::vec(row(), 0..150), by in by(), descending: bool, n in 0u64..40,
        column in prop::sample::select(vec!["count", "sum(amount)", "max(price)", "min(rate)", "min(note)"]),
    ) {
        let groups = table(&rows, &by, 40, 1);
        let order = if descending { Order::descending(column) } else { Order::ascending(column) };
        let rows = |batches: overbank_table::TableBatches| -> Vec<(Vec<String>, Vec<String>)> {
            batches.flat_map(|batch| rows_of(&batch.unwrap(), by.len())).collect()
        };
        let sorted = rows(groups.sorted(&order).unwrap());
        let mut all = rows(groups.batches().unwrap());
        all.sort();
        let mut same = sorted.clone();
        same.sort();
        prop_assert_eq!(same, all);
        let at = CALLS.split(',').position(|call| call == column).unwrap();
        for pair in sorted.windows(2) {
            let [one, other] = [&pair[0].1[at], &pair[1].1[at]];
            let is_in_order = match (one.as_str(), other.as_str()) {
                (_, "NULL") => true,
                ("NULL", _) => false,
                (one, other) if column == "min(note)" => (one <= other) != descending || one == other,
                (one, other) => {
                    let [one, other]: [f64; 2] = [one, other].map(|text| text.parse().unwrap());
                    if descending { one >= other } else { one <= other }
                }
            };
            prop_assert!(is_in_order, "{one} before {other}");
        }
        let first = rows(groups.top(n, &order).unwrap());
        prop_assert_eq!(&first[..], &sorted[..sorted.len().min(n as usize)]);
    }
}

#[test]
fn a_dictionary_is_what_it_stands_for() {
    let words = ["pear", "fig"];
    let keys = UInt8Array::from(vec![Some(1), None, Some(0), Some(1)]);
    let values = Arc::new(StringArray::from(words.to_vec()));
    let dictionary = DictionaryArray::<UInt8Type>::try_new(keys, values).unwrap();
    let batch = RecordBatch::try_from_iter([("name", Arc::new(dictionary) as _)]).unwrap();
    let calls = Call::parse_list("count,max(name)").unwrap();
    let groups = TableGroups::new(&batch.schema(), &["name"], &calls, options(1)).unwrap();
    groups.insert(&batch).unwrap();
    let sorted = groups.sorted(&Order::ascending("name")).unwrap().next().unwrap().unwrap();
    let texts = |column: &str| texts(sorted.column_by_name(column).unwrap().as_ref(), false);
    assert_eq!(texts("name"), ["fig", "pear", "NULL"]);
    assert_eq!(texts("count"), ["2", "1", "1"]);
    assert_eq!(texts("max(name)"), ["fig", "pear", "NULL"]);
}
