//! The tables beside the plain coder, places, directories, and hostile bits.

use super::averages::Averages;
use super::codes::{Code, Codes};
use super::directory::{Directory, Load};
use super::places::Places;
use super::read::TrieReader;
use super::write::{BitSink, TrieWriter};
use super::*;
use crate::KeyHash;
use crate::bytes::ByteReader;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

fn shapes() -> impl Strategy<Value = TrieShape> {
    let huffman = prop_oneof![Just(64), 1..=HUFFMAN_KEYS_MAX];
    let detail = prop_oneof![
        Just(Detail::Keys { skip_keys_min: u32::MAX }),
        (2u32..200).prop_map(|skip_keys_min| Detail::Keys { skip_keys_min }),
        (1u32..60).prop_map(|items| Detail::Blocks { items }),
    ];
    (huffman, detail).prop_map(|(huffman_keys_max, detail)| TrieShape { huffman_keys_max, detail })
}

/// Even paths, and such as share many bits or differ in the last ones only.
fn paths() -> impl Strategy<Value = Vec<Path>> {
    let path = prop_oneof![
        8 => any::<u128>(),
        1 => any::<u8>().prop_map(u128::from),
        1 => (0u32..128).prop_map(|bit| 1 << bit),
        1 => any::<u16>().prop_map(|low| u128::from(low) << 60),
    ];
    prop::collection::btree_set(path, 0..400).prop_map(|paths| {
        paths.into_iter().map(|path| Path { high: (path >> 64) as u64, low: path as u64 }).collect()
    })
}

/// Tries one after another, the first of which begins with the item at `first`: their bytes, and where each ends.
fn written(shape: TrieShape, tries: &[&[Path]], first: u64) -> (Vec<u8>, Vec<u64>) {
    let (mut writer, mut sink, mut ends) = (TrieWriter::new(shape), BitSink::default(), vec![0]);
    let mut first = first;
    for paths in tries {
        paths.iter().for_each(|path| writer.push(*path));
        assert_eq!(writer.len(), paths.len());
        writer.finish((first % u64::from(shape.block_items())) as usize, &mut sink);
        ends.push(sink.len_bits());
        first += paths.len() as u64;
    }
    let mut bytes = sink.into_bytes();
    bytes.extend([0; TrieReader::BEHIND_BYTES]);
    (bytes, ends)
}

proptest! {
    // The plain coder compares a code with each that there is: a case takes it some 50 ms.
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tries_are_those_of_the_plain_coder_and_answer_as_it_does(
        shape in shapes(), tries in prop::collection::vec(paths(), 1..3), others in paths(), first in 0u64..100,
    ) {
        let mut tries = tries;
        if let (Detail::Blocks { .. }, Some(trie)) = (shape.detail, tries.first_mut()) {
            // Equal hashes, up to some blocks full of them.
            let repeated: Vec<Path> = trie.iter().take(2).flat_map(|path| [*path; 40]).collect();
            trie.extend(repeated);
            trie.sort_unstable();
        }
        let (bytes, ends) = written(shape, &tries.iter().map(Vec::as_slice).collect::<Vec<_>>(), first);
        let averages = Averages::new(shape);
        let reader = TrieReader::new(shape, &averages, &bytes);
        let mut first = first;
        for (paths, ends) in std::iter::zip(&tries, ends.windows(2)) {
            let plain = model::encode(shape, paths, first);
            let found: Vec<bool> =
                (ends[0]..ends[1]).map(|bit| bytes[(bit / 8) as usize] >> (bit % 8) & 1 == 1).collect();
            prop_assert_eq!(&found, &plain);
            let keys = paths.len() as u32;
            let offset = (first % u64::from(shape.block_items())) as u32;
            prop_assert!(reader.check(ends[0], ends[1], keys, offset));
            let found = |path: Path| match shape.detail {
                Detail::Keys { .. } => {
                    let rank = reader.rank(ends[0], keys, path);
                    rank..rank + 1
                }
                Detail::Blocks { .. } => reader.locate(ends[0], keys, path, offset),
            };
            for (rank, path) in (0..).zip(paths) {
                prop_assert!(found(*path).contains(&rank));
            }
            for path in others.iter().chain(paths).step_by(50).filter(|_| keys > 0) {
                let (plain, rest) = model::locate(shape, &plain, first..first + u64::from(keys), *path);
                prop_assert!(rest.is_empty());
                prop_assert_eq!(u64::from(found(*path).start) + first, plain.start);
                prop_assert_eq!(u64::from(found(*path).end) + first, plain.end);
            }
            first += u64::from(keys);
        }
    }
}

proptest! {
    #[test]
    fn hostile_bits_are_refused_or_answered_without_a_panic(
        shape in shapes(), bytes in prop::collection::vec(any::<u8>(), 0..160),
        keys in prop_oneof![0u32..300, 0..1u32 << 24], start in 0u64..200, bits in 0u64..1200,
        path in any::<(u64, u64)>(), offset in any::<u32>(),
    ) {
        let end = (start + bits).min(bytes.len() as u64 * 8);
        let averages = Averages::new(shape);
        let reader = TrieReader::new(shape, &averages, &bytes);
        let offset = offset % shape.block_items();
        // No bits that are drawn are a trie's up to the end of what was drawn; their own end is found by trying.
        let accepted = (start..=end).find(|end| reader.check(start, *end, keys, offset));
        if accepted.is_some() {
            let path = Path { high: path.0, low: path.1 };
            match shape.detail {
                Detail::Keys { .. } => prop_assert!(reader.rank(start, keys, path) < keys.max(1)),
                Detail::Blocks { .. } => prop_assert!(reader.locate(start, keys, path, offset).end <= keys),
            }
        }
    }

    #[test]
    fn places_keep_order_and_tell_every_hash_apart(
        range in any::<(u64, u64)>().prop_flat_map(|(one, other)| prop_oneof![
            Just((0, u64::MAX)), Just((one.min(other), one.max(other))), Just((one, one.saturating_add(other % 100))),
        ]),
        buckets in prop_oneof![0u64..5, any::<u32>().prop_map(u64::from), any::<u64>()],
        hashes in prop::collection::vec(any::<u128>(), 2..20),
    ) {
        let places = Places::new(range.0..=range.1, buckets);
        prop_assert!(places.buckets() >= 1 && places.buckets() <= buckets.max(1));
        let span = u128::from(range.1 - range.0) + 1;
        let hashes = hashes.iter().map(|hash| {
            let high = range.0 + ((hash >> 64) % span) as u64;
            KeyHash::new(high, *hash as u64)
        });
        let ends = [KeyHash::new(range.0, 0), KeyHash::new(range.1, u64::MAX)];
        let mut hashes: Vec<KeyHash> = hashes.chain(ends).collect();
        hashes.sort_unstable();
        hashes.dedup();
        prop_assert!(hashes.iter().all(|hash| places.has(*hash)));
        prop_assert!(hashes.is_sorted_by(|one, other| places.of(*one) < places.of(*other)));
        prop_assert!(places.of(hashes[hashes.len() - 1]).0 < places.buckets());
        // The last bucket may be smaller, the others are of one size.
        let (last, _) = places.of(ends[1]);
        prop_assert!(last + 1 >= places.buckets().div_ceil(2), "{last} of {}", places.buckets());
        prop_assert!(places.of(KeyHash(0)).0 < places.buckets() && places.of(KeyHash(u128::MAX)).0 < places.buckets());
    }

    #[test]
    fn directories_say_where_each_bucket_begins(
        loads in prop::collection::vec(prop_oneof![
            8 => (200u32..300).prop_map(|keys| Load { keys, bits: keys * 5 / 2 }),
            4 => (200u32..300, 400u32..800).prop_map(|(keys, bits)| Load { keys, bits }),
            1 => (0u32..1 << 24, any::<u32>()).prop_map(|(keys, bits)| Load { keys, bits }),
        ], 0..200),
    ) {
        let directory = Directory::of(&loads);
        let (mut rank, mut at) = (0, 0);
        for (bucket, load) in (0..).zip(&loads) {
            let found = directory.get(bucket);
            prop_assert_eq!((found.first_rank, found.at_bit, found.keys), (rank, at, load.keys));
            (rank, at) = (rank + u64::from(load.keys), at + u64::from(load.bits));
        }
    }

    #[test]
    fn forests_come_back_from_their_bytes_and_forged_ones_are_refused_or_answer(
        shape in shapes(),
        hashes in prop::collection::btree_set(any::<u128>(), 0..600),
        bucket_keys in 1u32..400,
        at in any::<usize>(), value in any::<u8>(),
    ) {
        let mut builder = Forest::builder(shape, 0..=u64::MAX, hashes.len() as u64, bucket_keys);
        for hash in &hashes {
            builder.push(KeyHash(*hash)).unwrap();
        }
        let forest = builder.finish();
        let mut bytes = Vec::new();
        forest.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), forest.encoded_bytes());
        let found = Forest::decode(&mut ByteReader::new(&bytes)).unwrap();
        prop_assert!(found == forest);
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(found) = Forest::decode(&mut ByteReader::new(&bytes)) {
            let mut again = Vec::new();
            found.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
            for hash in &hashes {
                let end = match found.shape.detail {
                    Detail::Keys { .. } => found.rank(KeyHash(*hash)) + 1,
                    Detail::Blocks { .. } => found.locate(KeyHash(*hash)).end,
                };
                prop_assert!(end <= found.len().max(1));
            }
        }
        prop_assert!(Forest::decode(&mut ByteReader::new(&bytes[..at])).is_err());
    }
}

fn dense(skip_keys_min: u32) -> TrieShape {
    TrieShape { huffman_keys_max: 64, detail: Detail::Keys { skip_keys_min } }
}

#[test]
fn every_code_is_a_prefix_code_that_decodes_whatever_follows() {
    let codes = Codes::of(HUFFMAN_KEYS_MAX);
    for keys in 2..=300 {
        for left in 0..keys {
            let (Code { bits, width }, second) = codes.encode(keys, left);
            let (bits, width) = (bits | second.bits << width, width + second.width);
            assert!(width <= 45, "{width} bits for {left} of {keys}");
            for behind in [0, u64::MAX] {
                assert_eq!(codes.decode(keys, bits | behind << width), (left, width), "{left} of {keys}");
            }
        }
    }
    let keys = forest::BUCKET_KEYS_MAX;
    for left in [0, 1, keys / 2, keys - 1] {
        let (one, other) = codes.encode(keys, left);
        assert_eq!(codes.decode(keys, one.bits | other.bits << one.width), (left, one.width + other.width));
    }
}

/// The cost of Huffman's code as the sum of all pairs that are joined, the two lightest first.
#[test]
fn huffman_codes_are_as_short_as_any() {
    for keys in 2..=HUFFMAN_KEYS_MAX {
        // The weights of section 2.4, in floating point.
        let mut binomial = 1.0f64;
        let weights: Vec<f64> = (0..keys)
            .map(|left| {
                let weight = if left == 0 { 2.0 } else { binomial };
                binomial *= f64::from(keys - left) / f64::from(left + 1);
                weight / 2f64.powi(keys as i32)
            })
            .collect();
        let codes = Codes::of(HUFFMAN_KEYS_MAX);
        let width = |left| codes.encode(keys, left).0.width;
        let cost: f64 = (0..keys).map(|left| weights[left as usize] * f64::from(width(left))).sum();
        let mut heap: BinaryHeap<_> = weights.iter().map(|weight| Reverse(Weight(*weight))).collect();
        let mut least = 0.0;
        while let (Some(Reverse(Weight(one))), Some(Reverse(Weight(other)))) = (heap.pop(), heap.pop()) {
            least += one + other;
            if heap.is_empty() {
                break;
            }
            heap.push(Reverse(Weight(one + other)));
        }
        // Weights below 2^-30 are raised to it, which costs next to nothing.
        assert!(cost <= least + 1e-6, "{keys} keys: {cost} bits instead of {least}");
    }
}

struct Weight(f64);

impl PartialEq for Weight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Weight {}

impl PartialOrd for Weight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Weight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Figure 3 of the paper: tries of 256 keys at hmax = 64 take some 2.4 bits a key, without pointers.
#[test]
fn a_trie_takes_what_the_paper_says() {
    let keys = 256u64;
    let tries: u64 = 200;
    let mut bits = 0;
    for trie in 0..tries {
        let mut paths: Vec<Path> =
            (0..keys).map(|key| Path { high: mixed(trie * keys + key), low: 0 }).collect();
        paths.sort_unstable();
        bits += written(dense(u32::MAX), &[&paths], 0).1[1];
    }
    let average = bits as f64 / (tries * keys) as f64;
    assert!((2.3..2.45).contains(&average), "{average} bits a key");
    let expected = Averages::new(dense(u32::MAX)).bits(keys as u32) as f64 / keys as f64;
    assert!((average - expected).abs() < 0.03, "{average} bits a key, not {expected}");
}

/// Any bijection that scatters: the finaliser of SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[test]
fn the_last_levels_tell_paths_apart() {
    let paths: Vec<Path> = (0..4).map(|low| Path { high: u64::MAX, low }).collect();
    let (bytes, ends) = written(dense(2), &[&paths], 0);
    let averages = Averages::new(dense(2));
    let reader = TrieReader::new(dense(2), &averages, &bytes);
    assert!(reader.check(0, ends[1], 4, 0) && !reader.check(0, ends[1] - 1, 4, 0));
    assert_eq!(paths.iter().map(|path| reader.rank(0, 4, *path)).collect::<Vec<_>>(), [0, 1, 2, 3]);
}
