//! The files of groups with bytes changed: they answer as they did, or with an error; with seals mended, so that the pages of runs and
//! what their files say of themselves are what nobody wrote, they may answer anything, but nothing panics and nothing is asked of memory
//! that the file does not back.

use crate::image::{Image, judge, options, seeds};
use crate::{Target, Verdict};
use overbank::Result;
use overbank::aggregate::{
    Aggregate, ColumnType, Columns, Count, Function, Groups, GroupsOptions, Item, RowBatch,
};
use overbank::device::memory::MemoryDevice;
use overbank::store::Store;
use std::sync::{Arc, LazyLock};

/// The target. Input: that of [`judge`].
pub const TARGET: Target = Target { name: "aggregate_image", seeds, run };

const KEYS: u64 = 300;
/// Of the groups whose states are one word, and of those that have tails.
const NAMES: [&str; 2] = ["counts", "lists"];

/// Key, words and tail of each group: of each of the two, looked up and scanned.
type Answers = Vec<Vec<(Vec<u8>, Vec<u64>, Vec<u8>)>>;

/// The files, and the answers at each commit: damage to both copies of the last one's record shows the one before.
static IMAGE: LazyLock<(Image, Vec<Answers>)> = LazyLock::new(|| {
    let mut answers = Vec::new();
    let image = Image::new(|store| {
        let (counts, lists) = open(store).expect("the options are in range");
        let columns = lists.aggregate().clone();
        for turn in 0..3u64 {
            let numbers = turn * 40..KEYS - turn * 50;
            let keys: Vec<Vec<u8>> = numbers.clone().map(key).collect();
            counts.insert_many(&keys, &[]).expect("RAM takes it");
            let mut rows = RowBatch::new();
            for number in numbers {
                let text = format!("{number}").repeat((number % 5) as usize);
                let items = [Item::Bytes(text.as_bytes()), Item::Signed(number as i64 - 150)];
                columns
                    .push_row(turn * KEYS + number, &items, &mut rows)
                    .expect("the items are of their types");
            }
            lists.insert_batch(&keys, &rows).expect("RAM takes it");
            store.commit(&[turn as u8]).expect("RAM takes a commit");
            answers.push(answers_of(&counts, &lists).expect("RAM reads"));
        }
    });
    (image, answers)
});

/// One is longer than a block, the others of some lengths.
fn key(number: u64) -> Vec<u8> {
    let bytes = if number == 77 { 9000 } else { 8 + number as usize % 9 };
    number.wrapping_mul(0x0123_4567_89ab_cdef).to_be_bytes().iter().copied().cycle().take(bytes).collect()
}

fn open(store: &Store) -> Result<(Groups<Count>, Groups<Columns>)> {
    let options = || GroupsOptions::new().memory_bytes(4 << 20).threads(1);
    let functions = [
        Function::First { column: 0 },
        Function::List { column: 0, most: 3 },
        Function::Sum { column: 1 },
        Function::DistinctCount { column: 1, lg_m: 5 },
    ];
    let columns = Columns::new(&[ColumnType::Bytes, ColumnType::Signed], &functions)?;
    Ok((store.groups(NAMES[0], Count, options())?, store.groups(NAMES[1], columns, options())?))
}

/// What each key has, then all by a scan.
fn answers_of(counts: &Groups<Count>, lists: &Groups<Columns>) -> Result<Answers> {
    let mut answers = Vec::new();
    gather(counts, &mut answers)?;
    gather(lists, &mut answers)?;
    Ok(answers)
}

fn gather<A: Aggregate>(groups: &Groups<A>, answers: &mut Answers) -> Result<()> {
    let mut found = Vec::new();
    for number in 0..KEYS + 10 {
        if let Some(group) = groups.get(&key(number))? {
            found.push((group.key, group.words, group.tail));
        }
    }
    answers.push(std::mem::take(&mut found));
    let mut scan = groups.scan()?;
    while let Some(group) = scan.next_group()? {
        found.push((group.key.clone(), group.words.clone(), group.tail.clone()));
    }
    answers.push(found);
    Ok(())
}

fn run(data: &[u8]) -> Verdict {
    judge(&IMAGE, data, ask)
}

/// Opens the groups, asks them in each way, and inserts and commits.
fn ask(device: Arc<MemoryDevice>) -> Result<Answers> {
    let store = Store::open_on(device, options())?;
    let (counts, lists) = open(&store)?;
    let answers = answers_of(&counts, &lists)?;
    // Whatever they find, and say.
    let _ = (counts.verify(), lists.verify());
    for (_, words, tail) in &answers[3] {
        let _ = lists.aggregate().values(overbank::aggregate::State { words, tail });
    }
    let _ = counts.top(3, |state| state.words[0])?;
    counts.insert_many(&[key(1), key(2)], &[])?;
    store.commit(b"more")?;
    Ok(answers)
}
