//! The codecs of 128 numbers: any bytes are refused or decode to numbers that survive being written again.

use crate::{Target, Verdict};
use overbank::bits::{BLOCK_VALUES, BitReader, decode_block, decode_deltas, encode_block, encode_deltas};

/// The target. Input: which codec, the number before the block, then the block.
pub const TARGET: Target = Target { name: "block_codecs", seeds, run };

const HEAD_BYTES: usize = 9;

fn seeds() -> Vec<Vec<u8>> {
    let flat = [41u64; BLOCK_VALUES];
    let steep: [u64; BLOCK_VALUES] = std::array::from_fn(|i| (i as u64) << (i / 2));
    let near: [u64; BLOCK_VALUES] = std::array::from_fn(|i| 1_000_000 + (i * 7 % 5 + i * 9) as u64);
    debug_assert!(near.is_sorted());
    let mut seeds = Vec::new();
    for values in [flat, steep, near] {
        let mut plain = vec![0; HEAD_BYTES];
        encode_block(&values, &mut plain);
        seeds.push(plain);
    }
    let mut deltas = vec![1];
    deltas.extend(999_999u64.to_le_bytes());
    encode_deltas(999_999, &near, &mut deltas);
    seeds.push(deltas);
    seeds
}

fn run(data: &[u8]) -> Verdict {
    let Some((head, block)) = data.split_at_checked(HEAD_BYTES) else { return Verdict::Refused };
    read_bits(block);
    let previous = head[1..].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let mut values = [0; BLOCK_VALUES];
    let mut again = [1; BLOCK_VALUES];
    let mut bytes = Vec::new();
    if head[0].is_multiple_of(2) {
        let Ok(taken) = decode_block(block, &mut values) else { return Verdict::Refused };
        assert!(taken <= block.len());
        encode_block(&values, &mut bytes);
        assert_eq!(decode_block(&bytes, &mut again).ok(), Some(bytes.len()));
    } else {
        let Ok(taken) = decode_deltas(previous, block, &mut values) else { return Verdict::Refused };
        assert!(taken <= block.len());
        assert!(values[0] >= previous && values.is_sorted(), "differences never go down");
        encode_deltas(previous, &values, &mut bytes);
        assert_eq!(decode_deltas(previous, &bytes, &mut again).ok(), Some(bytes.len()));
    }
    assert_eq!(values, again);
    Verdict::Accepted
}

/// Reads the bytes as fields of all widths and as unary numbers until they end.
fn read_bits(bytes: &[u8]) {
    let mut reader = BitReader::new(bytes);
    let mut width = 0;
    while reader.read(width % 65).is_ok() && reader.read_unary().is_ok() {
        width += 1;
    }
    assert!(reader.at_bit() <= bytes.len() as u64 * 8);
}
