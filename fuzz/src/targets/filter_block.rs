//! The block of a filter's run: any body is refused, or its entries are in order and a lookup finds each of them.

use crate::{Target, Verdict};
use overbank::HashKind;
use overbank::device::block::BODY_BYTES;
use overbank::device::memory::MemoryDevice;
use overbank::device::{Access, Device};
use overbank::filter::run::{RunKind, RunWriter, Sign, count_in_block, decode_block};
use overbank::store::{Store, StoreOptions};
use std::sync::Arc;

/// The target. Input: the bits of a fingerprint, then a block's body.
pub const TARGET: Target = Target { name: "filter_block", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    let plain = (0..3000u64).map(|i| (i * 70_001 % (1 << 17) + (i << 20), 1)).collect();
    let counted =
        (0..500u64).map(|i| ((i << 40) + i * i, if i % 3 == 0 { -1 } else { 1 + i as i64 % 4 })).collect();
    [(32, plain), (64, counted), (9, vec![(5, 1), (6, 1 << 40), (511, -9)])]
        .map(|(bits, entries)| seed_of(bits, entries))
        .into()
}

fn seed_of(fingerprint_bits: u32, entries: Vec<(u64, i64)>) -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new());
    let store =
        Store::create_on(device.clone(), StoreOptions::new().reserve_bytes(0)).expect("an empty device");
    let before = device.list().expect("names");
    let kind =
        RunKind { fingerprint_bits, seed_fingerprint: 1, hash_kind: HashKind::Xxh3, sign: Sign::Insertions };
    let mut writer = RunWriter::create(store.files(), kind, false).expect("a writer");
    writer.push_counted(&entries).expect("ascending entries");
    writer.finish().expect("a run");
    let name =
        device.list().expect("names").into_iter().find(|name| !before.contains(name)).expect("the run");
    let mut block = vec![0; overbank::device::BLOCK_BYTES];
    device.open(&name, Access::Read).and_then(|file| file.read(0, &mut block)).expect("its first block");
    [&[fingerprint_bits as u8], &block[..BODY_BYTES]].concat()
}

fn run(data: &[u8]) -> Verdict {
    let Some((&bits, bytes)) = data.split_first() else { return Verdict::Refused };
    let mut body = bytes.to_vec();
    body.resize(BODY_BYTES, 0);
    let bits = u32::from(bits);
    // Where the order is wrong a lookup may miss, but it ends.
    let _ = count_in_block(&body, bits, &[0, 1 << 9, 1 << 32, u64::MAX]);
    let Ok(entries) = decode_block(&body, bits) else { return Verdict::Refused };
    let fingerprints = entries.fingerprints();
    assert!(fingerprints.is_sorted_by(|one, next| one < next), "fingerprints ascend");
    assert!(
        fingerprints.iter().all(|&fingerprint| fingerprint <= u64::MAX >> (64 - bits)),
        "in so many bits"
    );
    let counts: Vec<i64> = entries.iter().map(|(_, count)| count).collect();
    assert!(counts.iter().all(|&count| count != 0), "what is there has a count");
    let found = count_in_block(&body, bits, fingerprints).expect("a body that decodes");
    assert_eq!(found, counts, "a lookup finds what a cursor reads");
    Verdict::Accepted
}
