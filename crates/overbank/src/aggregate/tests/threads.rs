//! Threads that insert and ask at once.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sums of floats, whose order shows where they are added as they come, and what asks for the place of a row.
fn several() -> Columns {
    let functions = [
        Function::CountRows,
        Function::Sum { column: 0 },
        Function::First { column: 0 },
        Function::Last { column: 1 },
        Function::List { column: 1, most: 2 },
        Function::Top { column: 0, most: 2, tracked: 4 },
        Function::DistinctCount { column: 0, lg_m: 4 },
    ];
    Columns::new(&[ColumnType::Float, ColumnType::Bytes], &functions).unwrap()
}

/// The rows of one of some threads, in batches.
fn batches(columns: &Columns, part: usize, parts: usize) -> Vec<(Vec<String>, RowBatch)> {
    let rows: Vec<usize> = (part..60_000).step_by(parts).collect();
    let batch = |rows: &[usize]| {
        let (mut keys, mut batch) = (Vec::new(), RowBatch::new());
        for &i in rows {
            let key = format!("key {}", i * 7919 % 5003);
            let number = (i as f64 * 0.1 - 1000.0) * 10f64.powi(i as i32 % 30 - 15);
            let items = [Item::Float(number), Item::Bytes(key.as_bytes())];
            columns.push_row(i as u64, &items, &mut batch).unwrap();
            keys.push(key);
        }
        (keys, batch)
    };
    rows.chunks(100).map(batch).collect()
}

#[test]
fn any_number_of_threads_has_the_same_answers() {
    let expected = {
        let groups = small(several(), 3, u128::MAX);
        for (keys, rows) in batches(&several(), 0, 1) {
            groups.insert_batch(&keys, &rows).unwrap();
        }
        all(&groups)
    };
    assert_eq!(expected.len(), 5003);
    for threads in [1, 2, 8] {
        let groups = small(several(), 3, u128::MAX);
        std::thread::scope(|scope| {
            for part in 0..threads {
                let groups = groups.clone();
                scope.spawn(move || {
                    for (keys, rows) in batches(&several(), part, threads) {
                        groups.insert_batch(&keys, &rows).unwrap();
                    }
                });
            }
        });
        assert!(all(&groups) == expected, "{threads} threads");
    }
}

/// However many threads begin at once, there is no more of what each has than there is memory for.
#[test]
fn threads_that_begin_at_once_share() {
    let groups = small(Count, 6, u128::MAX);
    let together = Barrier::new(16);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (groups, together) = (groups.clone(), &together);
            scope.spawn(move || {
                together.wait();
                groups.insert_many(&[format!("{thread}")], &[]).unwrap();
            });
        }
    });
    assert!(read(&groups.shared().inserters).len() <= 3);
    assert_eq!(groups.count().unwrap(), 16);
}

/// A key that a call has brought in is there for all questions that begin later, whichever thread asks; and a scan beside writers has
/// each key once, in order.
#[test]
fn questions_see_what_was_inserted_before() {
    let groups = small(Count, 2, u128::MAX);
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (groups, done) = (groups.clone(), &done);
            scope.spawn(move || {
                for i in 0..4000 {
                    let keys = [format!("{writer} {i}"), format!("{writer} {}", i / 2)];
                    groups.insert_many(&keys, &[]).unwrap();
                    let own = groups.get(keys[0].as_bytes()).unwrap().unwrap();
                    assert!(own.words[0] >= 1, "{own:?}");
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        while done.load(Ordering::Acquire) < 2 {
            let before = groups.count().unwrap();
            let found = all(&groups);
            assert!(found.len() as u64 >= before);
            let order =
                |group: &KeyState| (groups.shared().leaves.ground.hasher.hash(&group.key), group.key.clone());
            assert!(found.is_sorted_by(|a, b| order(a) < order(b)));
        }
    });
    let found = all(&groups);
    assert_eq!((found.len(), found.iter().map(|group| group.words[0]).sum::<u64>()), (8000, 16_000));
}
