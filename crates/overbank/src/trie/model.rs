//! The same tries, a bit at a time: what the tables are held against.

use super::averages::Averages;
use super::codes::{Code, Codes};
use super::pointer::{ESCAPED_BITS, QUOTIENT_MAX, RICE_BITS};
use super::{Detail, Path, TrieShape, unzigzag, zigzag};
use std::ops::Range;

/// The trie of sorted paths, the first of which is the key of an item that stands at `first`.
pub(super) fn encode(shape: TrieShape, paths: &[Path], first: u64) -> Vec<bool> {
    encode_at(shape, paths, first, 0)
}

fn encode_at(shape: TrieShape, paths: &[Path], first: u64, depth: u32) -> Vec<bool> {
    if is_end(shape, paths.len() as u64, first, depth) {
        return Vec::new();
    }
    let is_left = |path: &&Path| path.high >> 63 == 0;
    let below = |paths: &[Path]| -> Vec<Path> {
        let mut paths = paths.to_vec();
        for path in &mut paths {
            path.next_bit();
        }
        paths
    };
    let left = paths.iter().filter(is_left).count();
    let is_split = left != 0 && left != paths.len();
    let symbol = if is_split { left as u32 } else { 0 };
    let (one, other) = Codes::of(shape.huffman_keys_max).encode(paths.len() as u32, symbol);
    let mut bits = [bits_of(one), bits_of(other)].concat();
    if !is_split {
        bits.extend(encode_at(shape, &below(paths), first, depth + 1));
        return bits;
    }
    let lefts = encode_at(shape, &below(&paths[..left]), first, depth + 1);
    let rights = encode_at(shape, &below(&paths[left..]), first + left as u64, depth + 1);
    if has_pointer(shape, paths.len() as u32) {
        let number = zigzag(lefts.len() as i64 - Averages::new(shape).bits(left as u32));
        let quotient = (number >> RICE_BITS) as u32;
        if quotient < QUOTIENT_MAX {
            bits.extend(vec![false; quotient as usize]);
            bits.push(true);
            bits.extend(bits_of(Code { bits: number & ((1 << RICE_BITS) - 1), width: RICE_BITS }));
        } else {
            bits.extend(vec![false; QUOTIENT_MAX as usize]);
            bits.extend(bits_of(Code { bits: number, width: ESCAPED_BITS }));
        }
    }
    bits.extend(lefts);
    bits.extend(rights);
    bits
}

/// The items that may have this path, and the bits that are left behind the trie.
pub(super) fn locate(
    shape: TrieShape,
    bits: &[bool],
    items: Range<u64>,
    path: Path,
) -> (Range<u64>, &[bool]) {
    locate_at(shape, bits, items, path, 0)
}

fn locate_at(
    shape: TrieShape,
    bits: &[bool],
    items: Range<u64>,
    path: Path,
    depth: u32,
) -> (Range<u64>, &[bool]) {
    let keys = items.end - items.start;
    if is_end(shape, keys, items.start, depth) {
        return (items, bits);
    }
    let mut path = path;
    let (left, mut bits) = decode(shape, bits, keys as u32);
    let is_right = path.next_bit() == 1;
    if left == 0 {
        return locate_at(shape, bits, items, path, depth + 1);
    }
    let mut told = None;
    if has_pointer(shape, keys as u32) {
        let quotient = bits.iter().take(QUOTIENT_MAX as usize).take_while(|bit| !**bit).count();
        let (number, rest) = if quotient < QUOTIENT_MAX as usize {
            let (low, rest) = number(&bits[quotient + 1..], RICE_BITS);
            ((quotient as u64) << RICE_BITS | low, rest)
        } else {
            number(&bits[quotient..], ESCAPED_BITS)
        };
        told = Some((unzigzag(number) + Averages::new(shape).bits(left)) as usize);
        bits = rest;
    }
    let middle = items.start + u64::from(left);
    let (in_left, rest) = locate_at(shape, bits, items.start..middle, path, depth + 1);
    assert!(told.is_none_or(|told| told == bits.len() - rest.len()), "a pointer tells the length");
    let (in_right, rest) = locate_at(shape, rest, middle..items.end, path, depth + 1);
    (if is_right { in_right } else { in_left }, rest)
}

fn is_end(shape: TrieShape, keys: u64, first: u64, depth: u32) -> bool {
    match shape.detail {
        Detail::Keys { .. } => keys <= 1,
        Detail::Blocks { items } => {
            let (first_block, last_block) =
                (first / u64::from(items), (first + keys).saturating_sub(1) / u64::from(items));
            keys == 0 || first_block == last_block || depth == Path::BITS
        }
    }
}

fn has_pointer(shape: TrieShape, keys: u32) -> bool {
    matches!(shape.detail, Detail::Keys { skip_keys_min } if keys >= skip_keys_min)
}

fn decode(shape: TrieShape, bits: &[bool], keys: u32) -> (u32, &[bool]) {
    let codes = (0..keys).map(|left| {
        let (one, other) = Codes::of(shape.huffman_keys_max).encode(keys, left);
        (left, [bits_of(one), bits_of(other)].concat())
    });
    let mut found = codes.filter(|(_, code)| bits.starts_with(code));
    let (left, code) = found.next().expect("some code");
    assert!(found.next().is_none(), "no code begins another");
    (left, &bits[code.len()..])
}

fn bits_of(code: Code) -> Vec<bool> {
    (0..code.width).map(|bit| code.bits >> bit & 1 == 1).collect()
}

fn number(bits: &[bool], width: u32) -> (u64, &[bool]) {
    let (number, rest) = bits.split_at(width as usize);
    (number.iter().rev().fold(0, |number, bit| number << 1 | u64::from(*bit)), rest)
}
