//! Segments against a sorted list of entries, damage of every byte, and counted blocks.

mod pages;

use super::*;
use crate::device::memory::MemoryDevice;
use crate::device::sim::SimDevice;
use crate::device::{Access, BLOCK_BYTES, Device};
use crate::store::{FileRef, Files, Store, StoreOptions};
use crate::{Error, HashKind, Result, Seed};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const KIND: SegmentKind = SegmentKind {
    structure: Structure { id: 9, version: 1 },
    seed_fingerprint: 0x5eed,
    hash_kind: HashKind::Xxh3,
};

fn store_on(device: Arc<dyn Device>) -> Store {
    Store::create_on(device, StoreOptions::new().seed(Seed(1)).threads(1)).unwrap()
}

/// The obvious structure: an entry is a hash and a payload, 16 bytes; equal hashes may go over a border.
fn write_entries(files: &Files, entries: &[(u64, u64)], per_block: usize, meta: &[u8]) -> SegmentInfo {
    let mut writer = SegmentWriter::create(files, KIND).unwrap();
    for chunk in entries.chunks(per_block) {
        let body: Vec<u8> =
            chunk.iter().flat_map(|&(h, v)| [h.to_le_bytes(), v.to_le_bytes()].concat()).collect();
        writer.push_block(chunk[0].0, chunk[chunk.len() - 1].0, chunk.len() as u64, &body).unwrap();
    }
    writer.finish(meta).unwrap()
}

fn decode(body: &[u8]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    body.chunks_exact(16).map(move |e| (word(&e[..8]), word(&e[8..]))).filter(|&(_, v)| v != 0)
}

fn get(segment: &Segment, hash: u64) -> Result<Vec<u64>> {
    let numbers: Vec<u64> = segment.find(hash).collect();
    let mut found = Vec::new();
    segment.read_blocks(&numbers, 4, &mut |_, body| {
        found.extend(decode(body).filter(|e| e.0 == hash).map(|e| e.1));
        Ok(())
    })?;
    found.sort_unstable();
    Ok(found)
}

fn scan_all(segment: &Segment) -> Result<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    let mut scan = segment.scan(0..segment.blocks())?;
    let mut expected = 0;
    while let Some((number, body)) = scan.next_block()? {
        assert_eq!(number, expected);
        expected += 1;
        all.extend(decode(body));
    }
    Ok(all)
}

/// `n` entries with hashes all over the range, in order.
fn uniform(n: u64) -> Vec<(u64, u64)> {
    let mut entries: Vec<_> = (0..n).map(|i| (Seed(u128::from(i)).fingerprint(), i + 1)).collect();
    entries.sort_unstable();
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_segment_answers_as_a_map(
        hashes in prop::collection::vec(prop_oneof![any::<u64>(), 0..50u64, Just(u64::MAX)], 0..600),
        per_block in 1..256usize,
        meta in prop::collection::vec(any::<u8>(), 0..9000),
        absent in prop::collection::vec(any::<u64>(), 20),
    ) {
        let store = store_on(Arc::new(MemoryDevice::new()));
        let mut model: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (i, &hash) in hashes.iter().enumerate() {
            model.entry(hash).or_default().push(i as u64 + 1);
        }
        let entries: Vec<(u64, u64)> =
            model.iter().flat_map(|(&h, vs)| vs.iter().map(move |&v| (h, v))).collect();
        let info = write_entries(store.files(), &entries, per_block, &meta);
        prop_assert_eq!(info.entries, entries.len() as u64);
        let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
        prop_assert_eq!((segment.blocks(), segment.entries()), (info.blocks, info.entries));
        prop_assert_eq!(segment.meta(), &meta[..]);
        let range = entries.first().zip(entries.last()).map(|(f, l)| (f.0, l.0));
        prop_assert_eq!(segment.hash_range(), range);
        prop_assert_eq!(scan_all(&segment).unwrap(), entries);
        for hash in hashes.iter().chain(&absent) {
            let expected = model.get(hash).cloned().unwrap_or_default();
            prop_assert_eq!(get(&segment, *hash).unwrap(), expected);
        }
        segment.verify().unwrap();
    }
}

#[test]
fn every_flipped_byte_is_corrupt() {
    flip_bytes(b"the structure's own", 3);
    // Two of data, one of fences, two of meta, and the footer.
    flip_bytes(&[7; 5000], 6);
}

fn flip_bytes(meta: &[u8], blocks: u64) {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let before = device.list().unwrap();
    let entries = uniform(500);
    let info = write_entries(store.files(), &entries, 255, meta);
    let name = device.list().unwrap().into_iter().find(|name| !before.contains(name)).unwrap();
    let file = device.open(&name, Access::Write).unwrap();
    assert_eq!(info.file.bytes, blocks * BLOCK_BYTES as u64);
    let everything = |segment: Segment| -> Result<()> {
        scan_all(&segment)?;
        segment.verify()
    };
    let mut block = vec![0; BLOCK_BYTES];
    for at in 0..info.file.bytes as usize {
        let offset = (at / BLOCK_BYTES * BLOCK_BYTES) as u64;
        file.read(offset, &mut block).unwrap();
        block[at % BLOCK_BYTES] ^= 1 << (at % 8);
        file.write(offset, &block).unwrap();
        let opened = Segment::open(store.files(), &info.file, KIND);
        match opened.and_then(everything) {
            Err(Error::Corrupt { at: told, .. }) => assert_eq!(told, offset, "byte {at}"),
            other => panic!("byte {at}: {other:?}"),
        }
        block[at % BLOCK_BYTES] ^= 1 << (at % 8);
        file.write(offset, &block).unwrap();
    }
    everything(Segment::open(store.files(), &info.file, KIND).unwrap()).unwrap();
    // Blocks of the right file in each other's places, and a file that was cut.
    let mut other = vec![0; BLOCK_BYTES];
    file.read(0, &mut block).unwrap();
    file.read(BLOCK_BYTES as u64, &mut other).unwrap();
    file.write(0, &other).unwrap();
    let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
    assert!(matches!(segment.scan(0..1).unwrap().next_block(), Err(Error::Corrupt { .. })));
    assert!(matches!(get(&segment, entries[0].0), Err(Error::Corrupt { .. })));
    for bytes in [0, BLOCK_BYTES as u64, info.file.bytes - BLOCK_BYTES as u64] {
        file.set_len(bytes).unwrap();
        let opened = Segment::open(store.files(), &info.file, KIND);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{bytes}");
        let shorter = FileRef { bytes, ..info.file };
        let opened = Segment::open(store.files(), &shorter, KIND);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{bytes}");
    }
}

#[test]
fn a_footer_whose_seal_is_right_and_whose_fields_are_not_is_corrupt() {
    damage_footer(4, format::IndexKind::Fences);
    damage_footer(format::VERSION, format::IndexKind::Quantised { bytes: 4080 * 3 + 5 });
}

fn damage_footer(version: u16, index: format::IndexKind) {
    use format::Footer;
    let path = std::path::Path::new("f");
    let blocks = 5000;
    let footer = Footer {
        version,
        kind: KIND,
        blocks,
        entries: 9,
        first_hash: 3,
        last_hash: 7 << 60,
        meta_bytes: 5000,
        index,
    };
    let file_bytes = (blocks + footer.index_blocks() + 2 + 1) * BLOCK_BYTES as u64;
    let good = footer.encode();
    assert_eq!(Footer::decode(&good, file_bytes, path).unwrap(), footer);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        match Footer::decode(&bad, file_bytes, path) {
            Err(Error::Corrupt { .. } | Error::UnsupportedVersion { .. }) => {}
            Ok(other) => {
                // What no length depends on cannot be noticed here; the kind is compared by `open`.
                assert_eq!(
                    (other.blocks, other.index_blocks(), other.meta_blocks()),
                    (footer.blocks, footer.index_blocks(), footer.meta_blocks()),
                    "bit {bit}"
                );
            }
            Err(other) => panic!("bit {bit}: {other}"),
        }
    }
    for length in 0..good.len() {
        let cut = Footer::decode(&good[..length], file_bytes, path);
        assert!(length >= 72 || matches!(cut, Err(Error::Corrupt { .. })), "{length}");
    }
}

#[test]
fn fences_and_meta_that_fit_behind_the_footer_are_there_and_of_version_2_never() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    // 4,008 bytes fit: two fences with their bucket, 16 bytes, leave 3,992.
    for (version, meta_bytes, behind) in [(3, 0, 1), (3, 3992, 1), (3, 3993, 3), (2, 0, 2), (2, 3992, 3)] {
        let mut writer = SegmentWriter::create(store.files(), KIND).unwrap().of_version(version);
        writer.push_block(1, 4, 2, &[1; 9]).unwrap();
        writer.push_block(5, 9, 2, &[2; 9]).unwrap();
        let info = writer.finish(&vec![7; meta_bytes]).unwrap();
        assert_eq!(info.file.bytes / BLOCK_BYTES as u64, 2 + behind, "{version}, {meta_bytes}");
        device.reset_counts();
        let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
        assert_eq!(device.io_counts().blocks_read, behind, "{version}, {meta_bytes}");
        assert_eq!((segment.find(3), segment.find(7), segment.find(10)), (0..1, 1..2, 0..0));
        assert_eq!(segment.meta(), vec![7; meta_bytes]);
        segment.verify().unwrap();
    }
    // 4,000 blocks have 17,028 bytes of fences: four blocks, and 708 bytes that leave 3,300 for meta.
    for (version, meta_bytes, behind) in
        [(4, 0, 5), (4, 3300, 5), (4, 3301, 7), (3, 0, 6), (3, 3300, 7), (2, 24, 7)]
    {
        let mut writer = SegmentWriter::create(store.files(), KIND).unwrap().of_version(version);
        (0..4000).for_each(|number| writer.push_block(number << 50, number << 50 | 9, 1, &[1]).unwrap());
        let info = writer.finish(&vec![7; meta_bytes]).unwrap();
        assert_eq!(info.file.bytes / BLOCK_BYTES as u64, 4000 + behind, "{version}, {meta_bytes}");
        let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
        assert!((0..4000).all(|number| segment.find(number << 50) == (number..number + 1)));
        assert_eq!(segment.meta(), vec![7; meta_bytes]);
        segment.verify().unwrap();
    }
    for blocks in [0, 1, 3, 900, 944, 945, 946, 4000] {
        let mut writer = SegmentWriter::create(store.files(), KIND).unwrap();
        (0..blocks).for_each(|number| writer.push_block(number, number, 1, &[1]).unwrap());
        let info = writer.finish(b"").unwrap();
        assert_eq!(info.file.bytes / BLOCK_BYTES as u64, blocks + blocks_behind(blocks), "{blocks} blocks");
    }
}

#[test]
fn a_segment_that_was_left_open_is_the_one_that_is_read_back_and_durable_once_it_was_synced() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let mut writer = SegmentWriter::create_pieces(store.files(), KIND, 2 * BLOCK_BYTES, false).unwrap();
    device.reset_counts();
    for number in 0..7u64 {
        // What was in the block's place before is not there any more.
        let fill = |body: &mut [u8]| body.fill(number as u8 + 1);
        writer.push_block_with(number << 60, number << 60 | 9, 3, fill).unwrap();
    }
    let written = writer.finish_open(b"meta").unwrap();
    let counts = device.io_counts();
    assert_eq!((counts.blocks_written, counts.writes, counts.blocks_read, counts.syncs), (8, 4, 0, 0));
    written.sync().unwrap();
    written.sync().unwrap();
    assert_eq!(device.io_counts().syncs, 1);
    let read = Segment::open(store.files(), &written.file_ref(), KIND).unwrap();
    for segment in [&written, &read] {
        assert_eq!((segment.blocks(), segment.entries(), segment.meta()), (7, 21, &b"meta"[..]));
        assert_eq!(segment.find(3 << 60), 3..4);
        assert_eq!((segment.blocks_below(3 << 60), segment.blocks_below(3 << 60 | 1)), (3, 4));
        assert_eq!((segment.blocks_below(0), segment.blocks_below(u64::MAX)), (0, 7));
        let mut seen = 0;
        let each = &mut |number: usize, body: &[u8]| {
            assert!(body.iter().all(|&byte| usize::from(byte) == number + 1));
            seen += 1;
            Ok(())
        };
        segment.read_blocks(&[0, 1, 2, 3, 4, 5, 6], 4, each).unwrap();
        assert_eq!(seen, 7);
        segment.verify().unwrap();
    }
}

#[test]
fn another_structure_seed_or_hash_is_incompatible() {
    let store = store_on(Arc::new(MemoryDevice::new()));
    let info = write_entries(store.files(), &uniform(10), 5, b"");
    let open = |kind| Segment::open(store.files(), &info.file, kind).map(|_| ());
    open(KIND).unwrap();
    let structure = |id, version| SegmentKind { structure: Structure { id, version }, ..KIND };
    for kind in [
        structure(8, 1),
        SegmentKind { seed_fingerprint: 1, ..KIND },
        SegmentKind { hash_kind: HashKind::SipHash13, ..KIND },
    ] {
        assert!(matches!(open(kind), Err(Error::Incompatible { .. })));
    }
    assert!(matches!(open(structure(9, 2)), Err(Error::UnsupportedVersion { found: 1, supported: 2, .. })));
}

#[test]
fn blocks_out_of_order_or_too_long_are_refused() {
    let store = store_on(Arc::new(MemoryDevice::new()));
    let mut writer = SegmentWriter::create(store.files(), KIND).unwrap();
    writer.push_block(5, 9, 2, b"a").unwrap();
    for (first, last, bytes) in [(8, 10, 1), (11, 10, 1), (10, 11, BODY_BYTES + 1)] {
        let refused = writer.push_block(first, last, 1, &vec![0; bytes]);
        assert!(matches!(refused, Err(Error::InvalidOption { .. })));
    }
    writer.push_block(9, 9, 1, &[7; BODY_BYTES]).unwrap();
    let segment = Segment::open(store.files(), &writer.finish(b"").unwrap().file, KIND).unwrap();
    assert_eq!((segment.find(9), segment.find(4), segment.find(10)), (0..2, 0..0, 0..0));
    assert!(matches!(segment.read_blocks(&[2], 1, &mut |_, _| Ok(())), Err(Error::InvalidOption { .. })));
    assert!(matches!(segment.scan(1..3), Err(Error::InvalidOption { .. })));
}

#[test]
fn an_abandoned_writer_leaves_no_file() {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let before = device.list().unwrap();
    let mut writer = SegmentWriter::create(store.files(), KIND).unwrap();
    for i in 0..600 {
        writer.push_block(i, i, 1, &[1]).unwrap();
    }
    assert_ne!(device.list().unwrap(), before);
    drop(writer);
    assert_eq!(device.list().unwrap(), before);
}

#[test]
fn a_lookup_reads_one_block_and_writing_writes_each_once() {
    let device = SimDevice::new(1);
    let store = store_on(Arc::new(device.clone()));
    let entries = uniform(300_000);
    device.reset_counts();
    let info = write_entries(store.files(), &entries, 255, b"");
    let written = device.io_counts();
    assert_eq!(written.blocks_written, info.file.bytes / BLOCK_BYTES as u64);
    assert!(written.blocks_written <= info.blocks + info.blocks / 952 + 1);
    assert!(written.writes <= written.blocks_written / 256 + 1, "written a mebibyte at a time");
    assert_eq!((written.blocks_read, written.syncs), (0, 1));
    device.reset_counts();
    let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
    assert_eq!(device.io_counts().blocks_read, 2, "the footer and a block of fences");
    assert!(segment.memory_bytes() <= info.blocks as usize * 9 / 2 + 64);
    device.reset_counts();
    let lookups = 20_000;
    for entry in entries.iter().step_by(15) {
        assert_eq!(get(&segment, entry.0).unwrap(), [entry.1]);
    }
    // One in 10^8 reads a second block.
    assert_eq!(device.io_counts().blocks_read, lookups);
    device.reset_counts();
    for i in 0..lookups {
        assert!(get(&segment, Seed(u128::from(i) + (1 << 40)).fingerprint()).unwrap().is_empty());
    }
    // A hash below the first or above the last one reads none.
    let read = device.io_counts().blocks_read;
    assert!((lookups - 10..=lookups).contains(&read), "{read}");
    device.reset_counts();
    segment.verify().unwrap();
    assert_eq!(scan_all(&segment).unwrap(), entries);
    assert_eq!(device.io_counts().blocks_read, info.file.bytes / BLOCK_BYTES as u64 + info.blocks);
}
