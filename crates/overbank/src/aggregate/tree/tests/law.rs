//! The law: for any knobs, order, batches and hashes, the groups are those of a map.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Rows of this many keys, from the first on, each so often.
    Insert {
        first: u32,
        keys: u32,
        each: u32,
        kind: u8,
    },
    /// The same, as states of one row each.
    InsertStates {
        first: u32,
        keys: u32,
    },
    Finalize,
    Scan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u32..3000, prop_oneof![1u32..10, 100u32..2000], 1u32..4, 0u8..4)
            .prop_map(|(first, keys, each, kind)| Step::Insert { first, keys, each, kind }),
        1 => (0u32..3000, 1u32..500).prop_map(|(first, keys)| Step::InsertStates { first, keys }),
        1 => Just(Step::Finalize),
        1 => Just(Step::Scan),
    ];
    prop::collection::vec(step, 1..8)
}

/// Keys of one length, of several, of all bytes, and a long one here and there.
fn key(number: u32, kind: u8) -> Vec<u8> {
    match kind {
        0 => format!("{number:06}").into_bytes(),
        1 => format!("{number}").repeat(1 + number as usize % 7).into_bytes(),
        2 => number.wrapping_mul(0x9e37_79b1).to_le_bytes().to_vec(),
        _ if number.is_multiple_of(500) => format!("{number}:").repeat(500).into_bytes(),
        _ => format!("https://example.org/{}/{number}", number % 10).into_bytes(),
    }
}

/// A user's codec: eight bytes below 128 in seven.
#[derive(Debug)]
struct Sevens;

impl Codec for Sevens {
    fn compress(&self, raw: &[u8], into: &mut Vec<u8>) -> bool {
        for eight in raw.chunks(8) {
            let word = eight.iter().rev().fold(0u64, |word, &byte| word << 7 | u64::from(byte & 127));
            into.extend_from_slice(&word.to_le_bytes()[..eight.len().min(7)]);
        }
        raw.is_ascii()
    }

    fn decompress(&self, packed: &[u8], into: &mut [u8]) -> bool {
        let mut packed = packed.chunks(7);
        into.chunks_mut(8).all(|eight| {
            let Some(seven) = packed.next() else { return false };
            let word = seven.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
            eight.iter_mut().enumerate().for_each(|(i, byte)| *byte = (word >> (7 * i)) as u8 & 127);
            true
        })
    }
}

fn options() -> impl Strategy<Value = BufferTreeOptions> {
    let knobs = (256usize..4000, 2usize..=16, 1usize..=8, 1usize..=4, 1usize..=4, 0usize..=4);
    (knobs, 0u8..4, any::<bool>()).prop_map(
        |((bytes, most, least, roots, trees, workers), codec, is_coded)| {
            let options = BufferTreeOptions::new()
                .buffer_bytes(bytes)
                .fan_out(least.min(most.div_ceil(2)), most)
                .root_buffers(roots)
                .trees(trees)
                .workers(workers)
                .column_codes(is_coded);
            match codec {
                #[cfg(feature = "lz4")]
                0 => options.codec(Lz4Codec),
                #[cfg(feature = "zstd")]
                1 => options.codec(ZstdCodec::default()),
                2 => options.codec(Sevens),
                _ => options.without_codec(),
            }
        },
    )
}

fn obeys<A: Aggregate>(tree: &BufferTree<A>, steps: &[Step], row: impl Fn(u32) -> (Vec<u64>, Vec<u8>)) {
    let mut model = Model::default();
    let mut number = 0;
    let mut next_rows = |keys: usize| -> Vec<(Vec<u64>, Vec<u8>)> {
        let rows = (number..number + keys as u32).map(&row).collect();
        number += keys as u32;
        rows
    };
    for step in steps {
        match *step {
            Step::Insert { first, keys, each, kind } => {
                let keys: Vec<Vec<u8>> = (0..keys * each).map(|i| key(first + i % keys, kind)).collect();
                let rows = next_rows(keys.len());
                let rows: Vec<Row<'_>> = rows.iter().map(|(words, bytes)| Row { words, bytes }).collect();
                tree.insert_rows(&keys, &rows).unwrap();
                keys.iter().zip(&rows).for_each(|(key, row)| model.insert(key, *row));
            }
            Step::InsertStates { first, keys } => {
                let keys: Vec<Vec<u8>> = (0..keys).map(|i| key(first + i, 0)).collect();
                let mut lone = Model::default();
                for (key, (words, bytes)) in keys.iter().zip(next_rows(keys.len())) {
                    lone.insert(key, Row { words: &words, bytes: &bytes });
                    model.insert(key, Row { words: &words, bytes: &bytes });
                }
                let groups: Vec<KeyState> =
                    keys.iter().filter_map(|key| lone.group(tree.aggregate(), key)).collect();
                let states: Vec<State<'_>> = groups.iter().map(KeyState::as_state).collect();
                tree.insert_states(&keys, &states).unwrap();
            }
            Step::Finalize => tree.finalize().unwrap(),
            Step::Scan => check(tree, &model),
        }
    }
    check(tree, &model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn counts_are_those_of_a_map(steps in steps(), options in options(), mask in prop::sample::select(&MASKS)) {
        obeys(&masked(Count, options, mask), &steps, |_| (Vec::new(), Vec::new()));
    }

    #[test]
    fn several_functions_are_those_of_a_map(steps in steps(), options in options(), mask in prop::sample::select(&MASKS[..3])) {
        let functions = [
            Function::CountRows,
            Function::Sum { column: 0 },
            Function::Min { column: 0 },
            Function::Sum { column: 1 },
        ];
        let columns = Columns::new(&[ColumnType::Signed, ColumnType::Float], &functions).unwrap();
        let row = |number| row_of_numbers(&columns, number);
        obeys(&masked(columns.clone(), options, mask), &steps, row);
    }

    #[test]
    fn states_with_tails_are_those_of_a_map(steps in steps(), options in options(), mask in prop::sample::select(&MASKS[..3])) {
        let row = |number: u32| (vec![1 << (number % 64)], format!("{}", number % 30).into_bytes());
        obeys(&masked(Collect, options, mask), &steps, row);
    }
}

/// What the tree answers does not depend on anything but the rows, to the byte.
#[test]
fn knobs_change_no_answer() {
    let rows = |tree: &BufferTree<Count>| {
        for i in 0u32..20 {
            let keys: Vec<Vec<u8>> = (0..700).map(|j| key((i * 211 + j * 7) % 4000, 1)).collect();
            tree.insert_many(&keys, &[]).unwrap();
        }
        all(tree)
    };
    let expected = rows(&masked(Count, BufferTreeOptions::new().workers(0), u128::MAX));
    for (workers, trees, bytes) in [(0, 1, 500), (1, 3, 700), (4, 2, 3000), (3, 7, 20_000)] {
        let options = small().workers(workers).trees(trees).buffer_bytes(bytes);
        assert_eq!(rows(&masked(Count, options, u128::MAX)), expected);
    }
}

/// Threads insert and ask side by side; what a scan began with stays as it was.
#[test]
fn threads_insert_beside_scans() {
    let tree = masked(Count, small().trees(2).root_buffers(2).workers(3), u128::MAX);
    std::thread::scope(|scope| {
        for thread in 0u32..4 {
            let tree = &tree;
            scope.spawn(move || {
                for i in 0..25 {
                    let keys: Vec<Vec<u8>> =
                        (0..200).map(|j| key((thread * 37 + i * 91 + j) % 2500, 0)).collect();
                    tree.insert_many(&keys, &[]).unwrap();
                }
            });
        }
        for _ in 0..5 {
            let mut scan = tree.scan().unwrap();
            let mut rows = 0;
            while let Some(group) = scan.next_group().unwrap() {
                rows += group.words[0];
            }
            assert!(rows <= 20_000);
        }
    });
    assert_eq!(all(&tree).iter().map(|group| group.words[0]).sum::<u64>(), 20_000);
    check_shape(&tree);
}
