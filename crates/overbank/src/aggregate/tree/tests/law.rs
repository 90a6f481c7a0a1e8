//! The law: for any knobs, order, batches and hashes, the groups are those of a map.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Insert),
    /// States of one row each, of keys from the first on.
    InsertStates {
        first: u32,
        keys: u32,
    },
    Finalize,
    Scan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => inserts(2000, 4).prop_map(Step::Insert),
        1 => (0u32..3000, 1u32..500).prop_map(|(first, keys)| Step::InsertStates { first, keys }),
        1 => Just(Step::Finalize),
        1 => Just(Step::Scan),
    ];
    prop::collection::vec(step, 1..8)
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

fn obeys<A: Aggregate>(tree: &BufferTree<A>, steps: &[Step], row: impl Fn(u32) -> ModelRow) {
    let mut model = Model::default();
    let mut number = 0;
    for step in steps {
        match *step {
            Step::Insert(insert) => {
                insert.insert(&mut model, &mut number, &row, |keys, rows| {
                    tree.insert_rows(keys, rows).unwrap()
                });
            }
            Step::InsertStates { first, keys } => {
                let keys: Vec<Vec<u8>> = (0..keys).map(|i| key(first + i, 0)).collect();
                let mut lone = Model::default();
                for (key, (words, bytes)) in keys.iter().zip((number..).map(&row)) {
                    lone.insert(key, Row { words: &words, bytes: &bytes });
                    model.insert(key, Row { words: &words, bytes: &bytes });
                }
                number += keys.len() as u32;
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
