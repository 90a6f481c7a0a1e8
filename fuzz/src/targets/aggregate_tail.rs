//! The tails of groups' states: hostile bytes are refused when they are asked and harmless when they are merged or updated.

use crate::{Target, Verdict};
use overbank::aggregate::{Aggregate, ColumnType, Columns, Function, Item, RowBatch, State, StateMut};

/// The target.
pub const TARGET: Target = Target { name: "aggregate_tail", seeds, run };

/// All functions that keep what has no fixed size, of strings and of numbers.
fn columns() -> Columns {
    let functions = [
        Function::Max { column: 0 },
        Function::Last { column: 0 },
        Function::List { column: 0, most: 4 },
        Function::Distinct { column: 0, most: 4 },
        Function::Top { column: 0, most: 2, tracked: 5 },
        Function::DistinctCount { column: 0, lg_m: 4 },
        Function::List { column: 1, most: 4 },
        Function::Distinct { column: 1, most: 4 },
        Function::Top { column: 1, most: 2, tracked: 5 },
        Function::Quantile { column: 1, q: 0.5, alpha: 0.01 },
        Function::Bitmap { column: 1, below: 200 },
    ];
    Columns::new(&[ColumnType::Bytes, ColumnType::Unsigned], &functions).expect("valid functions")
}

fn updated(columns: &Columns, mut words: Vec<u64>, mut tail: Vec<u8>, rows: u64) -> (Vec<u64>, Vec<u8>) {
    let mut batch = RowBatch::new();
    for place in 0..rows {
        let text = format!("{}", place * place % 11);
        let items = [Item::Bytes(text.as_bytes()), Item::Unsigned(place * 7)];
        columns.push_row(place, &items, &mut batch).expect("a row of its columns");
    }
    for i in 0..batch.len() {
        columns.update(StateMut { words: &mut words, tail: &mut tail }, batch.row(i));
    }
    (words, tail)
}

fn seeds() -> Vec<Vec<u8>> {
    let columns = columns();
    let seed = |rows| updated(&columns, vec![0; columns.state_words()], Vec::new(), rows).1;
    [0, 1, 3, 40].map(seed).into()
}

fn run(data: &[u8]) -> Verdict {
    let columns = columns();
    let (words, tail) = updated(&columns, vec![0; columns.state_words()], Vec::new(), 9);
    let read = columns.values(State { words: &words, tail: data }).is_ok();
    let (mut merged_words, mut merged) = (words.clone(), data.to_vec());
    columns.merge(
        StateMut { words: &mut merged_words, tail: &mut merged },
        State { words: &words, tail: &tail },
    );
    let (mut other_words, mut other) = (words.clone(), tail);
    columns
        .merge(StateMut { words: &mut other_words, tail: &mut other }, State { words: &words, tail: data });
    if read {
        assert_eq!((&merged_words, &merged), (&other_words, &other), "a merge depends on its order");
    }
    let is_merged = columns.values(State { words: &merged_words, tail: &merged }).is_ok();
    assert_eq!(is_merged, read, "what is corrupt stays so, and nothing else becomes it");
    let (words, tail) = updated(&columns, words, data.to_vec(), 9);
    let is_updated = columns.values(State { words: &words, tail: &tail }).is_ok();
    assert!(is_updated || !read, "rows made a whole tail corrupt");
    if read { Verdict::Accepted } else { Verdict::Refused }
}
