//! What SQL says, in small cases written by hand, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends where it stands")]

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type, TimestampMillisecondType, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int8Array, Int64Array, ListArray,
    RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array,
};
use arrow_schema::DataType;
use overbank::aggregate::GroupsOptions;
use overbank::store::{Store, StoreOptions};
use overbank_table::{Call, Error, Order, SumOverflow, TableGroups, TableOptions};
use std::sync::Arc;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn grouped(
    batch: &RecordBatch,
    by: &[&str],
    calls: &str,
    options: TableOptions,
) -> overbank_table::Result<TableGroups> {
    let groups = TableGroups::new(&batch.schema(), by, &Call::parse_list(calls)?, options)?;
    groups.insert(batch)?;
    Ok(groups)
}

fn only(groups: &TableGroups) -> overbank_table::Result<RecordBatch> {
    groups.batches()?.next().expect("a group")
}

#[test]
fn types_stay_what_they_are() {
    let moment = TimestampMillisecondArray::from(vec![Some(5), Some(3), None]).with_timezone("Europe/Zurich");
    let batch = batch(vec![
        ("at", Arc::new(moment)),
        ("day", Arc::new(Date32Array::from(vec![1, 1, 1]))),
        ("is", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("tiny", Arc::new(Int8Array::from(vec![Some(-1), Some(2), None]))),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![Some(250), Some(1), None]).with_precision_and_scale(5, 2).unwrap(),
            ),
        ),
    ]);
    let calls = "min(at),max(is),sum(is),min(tiny),sum(tiny),sum(price),max(price),count(at)";
    let groups = grouped(&batch, &["day"], calls, TableOptions::new()).unwrap();
    let types: Vec<DataType> =
        groups.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let moment = batch.schema().field(0).data_type().clone();
    let expected = [
        DataType::Date32,
        moment,
        DataType::Boolean,
        DataType::Int64,
        DataType::Int8,
        DataType::Int64,
        DataType::Decimal128(38, 2),
        DataType::Decimal128(5, 2),
        DataType::Int64,
    ];
    assert_eq!(types, expected);
    let found = only(&groups).unwrap();
    assert_eq!(found.column(1).as_primitive::<TimestampMillisecondType>().value(0), 3);
    assert!(found.column(2).as_boolean().value(0));
    assert_eq!(found.column(3).as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(found.column(5).as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(found.column(6).as_primitive::<Decimal128Type>().value(0), 251);
    assert_eq!(found.column(7).as_primitive::<Decimal128Type>().value(0), 250);
    assert_eq!(found.column(8).as_primitive::<Int64Type>().value(0), 2);
}

#[test]
fn a_sum_beyond_64_bits_is_what_was_asked_for() {
    let batch = batch(vec![
        ("key", Arc::new(StringArray::from(vec!["a", "a"]))),
        ("x", Arc::new(Int64Array::from(vec![i64::MAX, 1]))),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 2]))),
    ]);
    let sums = |overflow| {
        grouped(&batch, &["key"], "sum(x),sum(u),max(x)", TableOptions::new().sum_overflow(overflow)).unwrap()
    };
    let error = only(&sums(SumOverflow::Error)).unwrap_err().to_string();
    assert!(error.contains("9223372036854775808"), "{error}");
    let saturated = only(&sums(SumOverflow::Saturate)).unwrap();
    assert_eq!(saturated.column(1).as_primitive::<Int64Type>().value(0), i64::MAX);
    assert_eq!(saturated.column(2).as_primitive::<UInt64Type>().value(0), u64::MAX);
    let wide = only(&sums(SumOverflow::Wide)).unwrap();
    assert_eq!(wide.column(1).as_primitive::<Decimal128Type>().value(0), i128::from(i64::MAX) + 1);
    assert_eq!(wide.column(2).as_primitive::<Decimal128Type>().value(0), i128::from(u64::MAX) + 2);
    assert_eq!(wide.schema().field(1).data_type(), &DataType::Decimal128(38, 0));
    assert_eq!(wide.column(3).data_type(), &DataType::Int64);
}

#[test]
fn without_columns_all_rows_are_one_group() {
    let batch = batch(vec![("x", Arc::new(Int64Array::from(vec![Some(4), None, Some(-1)])))]);
    let groups = grouped(&batch, &[], "count,count(x),sum(x)", TableOptions::new()).unwrap();
    let found = only(&groups).unwrap();
    let value = |column: usize| found.column(column).as_primitive::<Int64Type>().value(0);
    assert_eq!((found.num_rows(), value(0), value(1), value(2)), (1, 3, 2, 3));
}

#[test]
fn groups_without_functions_are_the_different_keys() {
    let batch = batch(vec![("x", Arc::new(Int64Array::from(vec![Some(4), None, Some(4)])))]);
    let calls: [Call; 0] = [];
    let groups = TableGroups::new(&batch.schema(), &["x"], &calls, TableOptions::new()).unwrap();
    groups.insert(&batch).unwrap();
    assert_eq!(groups.count().unwrap(), 2);
}

#[test]
fn what_cannot_be_is_refused_with_its_name() {
    let items = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1)])]);
    let batch = batch(vec![
        ("name", Arc::new(StringArray::from(vec!["a"]))),
        ("items", Arc::new(items)),
        ("x", Arc::new(Int64Array::from(vec![1]))),
        ("day", Arc::new(Date32Array::from(vec![1]))),
    ]);
    for (by, calls, why) in [
        ("nam", "count", "no column nam; columns are: name, items, x, day"),
        ("name", "sum(y)", "no column y"),
        ("items", "count", "column items is List(Int64), which cannot be a key"),
        (
            "name",
            "sum(name)",
            "column name is Utf8, which cannot be taken by sum; choose one of a type of numbers",
        ),
        ("name", "sum(day)", "column day is Date32, which cannot be taken by sum"),
        ("name", "count(items)", "cannot be taken by count"),
        ("name", "sum(x),sum(x)", "two results have this name"),
        ("name", "max(x) as name", "two results have this name"),
    ] {
        let error = grouped(&batch, &[by], calls, TableOptions::new()).unwrap_err().to_string();
        assert!(error.contains(why), "{by} {calls}: {error}");
    }
    let groups = grouped(&batch, &["name"], "count", TableOptions::new()).unwrap();
    assert!(matches!(groups.sorted(&Order::ascending("nothing")), Err(Error::NoSuchColumn { .. })));
    let other = self::batch(vec![("name", Arc::new(Int64Array::from(vec![1])))]);
    let error = groups.insert(&other).unwrap_err().to_string();
    assert!(error.contains("Int64") && error.contains("Utf8"), "{error}");
    assert!(matches!(groups.get(&other), Err(Error::Mismatch { .. })));
}

#[test]
fn every_function_says_what_its_name_does() {
    let xs = [Some(4), None, Some(4), Some(9), Some(-1), Some(4)];
    let names = [Some("b"), Some("a"), None, Some("c"), Some("a"), Some("a")];
    let prices = Decimal128Array::from(vec![Some(150), Some(250), None, None, None, None]);
    let batch = batch(vec![
        ("x", Arc::new(Int64Array::from(xs.to_vec()))),
        ("name", Arc::new(StringArray::from(names.to_vec()))),
        ("price", Arc::new(prices.with_precision_and_scale(5, 2).unwrap())),
        ("nothing", Arc::new(Int64Array::from(vec![None; 6]))),
    ]);
    let calls = "mean(x),var(x),stddev(x),first(x),last(name),any(x),list(name,3),topk(x,1),distinct(name),median(x),p100(x),\
                 bitmap(x),mean(price),var(price),stddev(price),median(price),topk(name,2)";
    let groups = grouped(&batch, &[], calls, TableOptions::new()).unwrap();
    let found = only(&groups).unwrap();
    let float = |name: &str| found[name].as_primitive::<Float64Type>().value(0);
    let whole = |name: &str| found[name].as_primitive::<Int64Type>().value(0);
    let near = |value: f64, expected: f64, error: f64| (value - expected).abs() <= error * expected.abs();
    assert_eq!((float("mean(x)"), float("var(x)"), float("stddev(x)")), (4.0, 12.5, 12.5f64.sqrt()));
    assert_eq!((whole("first(x)"), whole("any(x)"), whole("distinct(name)")), (4, -1, 3));
    assert_eq!(found["last(name)"].as_string::<i32>().value(0), "a");
    let items = |name: &str| found[name].as_list::<i32>().value(0);
    let texts = |name: &str| -> Vec<String> {
        items(name).as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
    };
    let numbers = |name: &str| items(name).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(texts("list(name,3)"), ["b", "a", "c"]);
    let counted = |name: &str| {
        let pairs = items(name).as_struct().clone();
        let numbers =
            |name: &str| pairs.column_by_name(name).unwrap().as_primitive::<Int64Type>().values().to_vec();
        (pairs.column_by_name("value").unwrap().clone(), numbers("count"), numbers("error"))
    };
    let (value, counts, errors) = counted("topk(x,1)");
    assert_eq!((value.as_primitive::<Int64Type>().value(0), counts, errors), (4, vec![3], vec![0]));
    let (value, counts, errors) = counted("topk(name,2)");
    assert_eq!((value.as_string::<i32>().value(0), counts, errors), ("a", vec![3, 1], vec![0, 0]));
    assert_eq!(numbers("bitmap(x)"), [4, 9]);
    assert!(near(float("median(x)"), 4.0, 0.02) && near(float("p100(x)"), 9.0, 0.02));
    assert_eq!((float("mean(price)"), float("var(price)")), (2.0, 0.5));
    assert!(near(float("stddev(price)"), 0.5f64.sqrt(), 1e-12) && near(float("median(price)"), 1.5, 0.02));

    let calls = "count(nothing),sum(nothing),mean(nothing),var(nothing),stddev(nothing),first(nothing),last(nothing),any(nothing),\
                 list(nothing,3),topk(nothing,2),distinct(nothing),median(nothing),bitmap(nothing),min(nothing)";
    let found = only(&grouped(&batch, &[], calls, TableOptions::new()).unwrap()).unwrap();
    for (field, array) in found.schema().fields().iter().zip(found.columns()) {
        match field.name().as_str() {
            "count(nothing)" | "distinct(nothing)" => {
                assert_eq!(array.as_primitive::<Int64Type>().value(0), 0)
            }
            name => assert!(array.is_null(0), "{name}"),
        }
    }
    // One value has no variance.
    let one = batch.slice(0, 1);
    assert!(only(&grouped(&one, &[], "var(x)", TableOptions::new()).unwrap()).unwrap().column(0).is_null(0));
}

#[test]
fn the_first_and_the_last_row_are_those_of_the_stream_whoever_inserts_them() {
    let batch = |from: i64| {
        let values: Vec<i64> = (from..from + 10).collect();
        self::batch(vec![("x", Arc::new(Int64Array::from(values)))])
    };
    let calls = Call::parse_list("first(x),last(x),list(x,3)").unwrap();
    let by: [&str; 0] = [];
    let groups = TableGroups::new(&batch(0).schema(), &by, &calls, TableOptions::new()).unwrap();
    for part in [7u64, 2, 9, 0, 5] {
        groups.insert_at(&batch(part as i64 * 100), part * 10).unwrap();
    }
    let found = only(&groups).unwrap();
    let value = |column: usize| found.column(column).as_primitive::<Int64Type>().value(0);
    assert_eq!((value(0), value(1)), (0, 909));
    assert_eq!(
        found.column(2).as_list::<i32>().value(0).as_primitive::<Int64Type>().values().to_vec(),
        [0, 1, 2]
    );
}

#[test]
fn groups_in_a_store_come_back() {
    let batch = batch(vec![
        ("key", Arc::new(StringArray::from(vec![Some("a"), None, Some("a")]))),
        ("x", Arc::new(Int64Array::from(vec![1, 2, 3]))),
    ]);
    let place = tempfile::tempdir().unwrap();
    let calls = Call::parse_list("count,sum(x),list(x,5)").unwrap();
    let open = |store: &Store| {
        let groups = GroupsOptions::new().memory_bytes(4 << 20);
        TableGroups::stored(
            &batch.schema(),
            &["key"],
            &calls,
            TableOptions::new().groups(groups),
            store,
            "groups",
        )
    };
    let path = place.path().join("store");
    {
        let store = Store::create(&path, StoreOptions::new()).unwrap();
        open(&store).unwrap().insert(&batch).unwrap();
        store.commit(b"").unwrap();
    }
    let store = Store::open(&path, StoreOptions::new()).unwrap();
    let groups = open(&store).unwrap();
    groups.insert_at(&batch, 100).unwrap();
    let found = groups.get(&batch.slice(0, 2)).unwrap();
    assert_eq!(found.column(1).as_primitive::<Int64Type>().values().to_vec(), [4, 2]);
    assert_eq!(found.column(2).as_primitive::<Int64Type>().values().to_vec(), [8, 4]);
    let list = found.column(3).as_list::<i32>().value(0);
    assert_eq!(list.as_primitive::<Int64Type>().values().to_vec(), [1, 3, 1, 3]);
    let other = Call::parse_list("max(x)").unwrap();
    let foreign =
        TableGroups::stored(&batch.schema(), &["key"], &other, TableOptions::new(), &store, "groups");
    assert!(foreign.is_err());
}
