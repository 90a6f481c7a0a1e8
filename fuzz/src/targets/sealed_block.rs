//! The seal on stored blocks: any 4096 bytes are checked without panic, and no changed block passes.

use crate::{Target, Verdict};
use overbank::device::BLOCK_BYTES;
use overbank::device::block::{BlockOwner, Seal, check, seal, valid};
use std::path::Path;

/// The target. Input: a block, then which bit to flip in it (two bytes).
pub const TARGET: Target = Target { name: "sealed_block", seeds, run };

const OWNER: BlockOwner = BlockOwner { store_id: 7, file_id: 3 };
const NUMBER: u64 = 5;

fn seeds() -> Vec<Vec<u8>> {
    (0..3u8)
        .map(|i| {
            let mut block: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at as u8).wrapping_mul(i)).collect();
            seal(&mut block, OWNER, NUMBER, Seal { tag: 1, sequence: u64::from(i) });
            block
        })
        .collect()
}

fn run(data: &[u8]) -> Verdict {
    let mut block = data.to_vec();
    block.resize(BLOCK_BYTES, 0);
    let checked = check(&block, OWNER, NUMBER, Path::new("fuzz"));
    assert_eq!(checked.as_ref().ok(), valid(&block, OWNER, NUMBER).as_ref(), "check and valid differ");
    let verdict = if checked.is_ok() { Verdict::Accepted } else { Verdict::Refused };

    let again = Seal { tag: data.len() as u32, sequence: u64::from(data.first().copied().unwrap_or(0)) };
    seal(&mut block, OWNER, NUMBER, again);
    assert_eq!(valid(&block, OWNER, NUMBER), Some(again), "a sealed block does not pass");
    assert_eq!(valid(&block, OWNER, NUMBER + 1), None, "a block passes at another place");
    assert_eq!(
        valid(&block, BlockOwner { file_id: 4, ..OWNER }, NUMBER),
        None,
        "a block passes in another file"
    );
    let bit = data.rchunks_exact(2).next().map_or(0, |two| usize::from(u16::from_le_bytes([two[0], two[1]])));
    let bit = bit % (BLOCK_BYTES * 8);
    block[bit / 8] ^= 1 << (bit % 8);
    assert_eq!(valid(&block, OWNER, NUMBER), None, "a flipped bit {bit} passes");
    verdict
}
