//! Segments with a quantised index against a plain list of pages.

use super::*;
use std::ops::Range;

/// A page: its hashes, ascending, and how many blocks it takes.
#[derive(Clone, Debug)]
struct Page {
    hashes: Vec<u64>,
    blocks: u64,
}

/// The obvious packing: a page takes whole quanta as long as their hashes are `per_block` at most; a quantum of more makes a longer page.
fn pack(hashes: &[u64], quanta: Quanta, per_block: usize) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    let mut rest = hashes;
    while let Some(&first) = rest.first() {
        let mut end = rest.partition_point(|&hash| quanta.of(hash) <= quanta.of(first));
        while end < rest.len() {
            let next = rest.partition_point(|&hash| quanta.of(hash) <= quanta.of(rest[end]));
            if next > per_block {
                break;
            }
            end = next;
        }
        let (page, behind) = rest.split_at(end);
        pages.push(Page { hashes: page.to_vec(), blocks: page.len().div_ceil(per_block) as u64 });
        rest = behind;
    }
    pages
}

/// The body of a page: its hashes, its number at the end of its last block.
fn body_of(page: &Page, number: usize) -> Vec<u8> {
    let mut body: Vec<u8> = page.hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    body.resize(page.blocks as usize * BODY_BYTES - 8, 0xee);
    body.extend_from_slice(&(number as u64).to_le_bytes());
    body
}

fn write_pages(files: &Files, pages: &[Page], quanta: Quanta, meta: &[u8]) -> SegmentInfo {
    let mut writer = SegmentWriter::create_quantised(files, KIND, quanta, 16 * BLOCK_BYTES, false).unwrap();
    for (number, page) in pages.iter().enumerate() {
        let (first, last) = (page.hashes[0], page.hashes[page.hashes.len() - 1]);
        writer.push_page(first, last, page.hashes.len() as u64, &body_of(page, number)).unwrap();
    }
    assert_eq!(writer.blocks(), pages.iter().map(|page| page.blocks).sum::<u64>());
    writer.finish(meta).unwrap()
}

/// The blocks of each page.
fn places(pages: &[Page]) -> Vec<Range<u64>> {
    let mut end = 0;
    let mut place = |page: &Page| {
        let first = end;
        end += page.blocks;
        first..end
    };
    pages.iter().map(&mut place).collect()
}

fn first_hash(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().unwrap())
}

fn rebuild(segment: &Segment, twist: impl Fn(u64) -> u64) -> Result<()> {
    segment.rebuild(8 * BLOCK_BYTES, false, |_, body| Ok(twist(first_hash(body))))
}

/// What `segment` answers against the pages that were pushed.
fn compare(segment: &Segment, pages: &[Page], quanta: Quanta, probes: &[u64]) {
    let places = places(pages);
    let all = || pages.iter().flat_map(|page| &page.hashes);
    let near = all().flat_map(|hash| [hash.saturating_sub(1), *hash, hash.saturating_add(1)]);
    let range = segment.hash_range();
    assert_eq!(range, all().next().zip(all().last()).map(|(first, last)| (*first, *last)));
    for hash in near.chain(probes.iter().copied()).chain([0, u64::MAX]) {
        let is_inside = range.is_some_and(|(first, last)| first <= hash && hash <= last);
        let through = pages.partition_point(|page| quanta.of(page.hashes[0]) <= quanta.of(hash));
        let expected = if is_inside { places[through - 1].clone() } else { 0..0 };
        assert_eq!(segment.find(hash), expected, "{hash:#x}");
        let holder = pages.iter().position(|page| page.hashes.binary_search(&hash).is_ok());
        assert!(holder.is_none_or(|number| places[number] == expected), "{hash:#x}");
        let below = segment.blocks_below(hash);
        let begun = pages.partition_point(|page| page.hashes[0] < hash);
        assert!(below >= begun.checked_sub(1).map_or(0, |last| places[last].end), "{hash:#x}");
        assert!(below <= segment.blocks() && (below == 0 || range.is_some_and(|(first, _)| first < hash)));
        // A page that begins in the quantum of the hash before may hold hashes below it; no later one can.
        let maybe =
            pages.partition_point(|page| quanta.of(page.hashes[0]) <= quanta.of(hash.saturating_sub(1)));
        assert!(below <= maybe.checked_sub(1).map_or(0, |last| places[last].end), "{hash:#x}");
    }
    all().chain(probes).for_each(|&hash| segment.prefetch(hash));
    let mut scan = segment.scan_pieces(0..segment.blocks(), 3 * BLOCK_BYTES, false).unwrap();
    for (number, (page, place)) in pages.iter().zip(&places).enumerate() {
        let (blocks, body) = scan.next_page().unwrap().expect("a page");
        assert_eq!((&blocks, body), (place, &body_of(page, number)[..]));
    }
    assert!(scan.next_page().unwrap().is_none());
    segment.verify().unwrap();
    rebuild(segment, |hash| hash).unwrap();
}

/// Hashes of all kinds: spread, near each other, at the ends.
fn hashes() -> impl Strategy<Value = Vec<u64>> {
    let hash = prop_oneof![
        4 => any::<u64>(), 1 => 0..200u64, 1 => (0..200u64).prop_map(|below| u64::MAX - below),
        1 => 1u64 << 63..(1 << 63) + 200,
    ];
    prop::collection::vec(hash, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn a_segment_of_pages_answers_as_the_list_of_them(
        mut hashes in hashes(),
        per_block in 1..40usize,
        // From one quantum to far too many, and about as many as are wanted.
        count in prop_oneof![Just(1), 2..20u64, 20..2000u64, Just(1 << 40), any::<u64>()],
        is_tight: bool,
        longer in 1..4u64,
        meta in prop::collection::vec(any::<u8>(), 0..5000),
        probes in prop::collection::vec(any::<u64>(), 20),
    ) {
        hashes.sort_unstable();
        let tight = hashes.first().copied().unwrap_or(5)..=hashes.last().copied().unwrap_or(5);
        let quanta = Quanta::new(if is_tight { tight } else { 0..=u64::MAX }, count).unwrap();
        let mut pages = pack(&hashes, quanta, per_block);
        pages.iter_mut().for_each(|page| page.blocks *= longer);
        let store = store_on(Arc::new(MemoryDevice::new()));
        let info = write_pages(store.files(), &pages, quanta, &meta);
        prop_assert_eq!((info.entries, info.blocks), (hashes.len() as u64, pages.iter().map(|p| p.blocks).sum()));
        let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
        prop_assert_eq!((segment.meta(), segment.blocks()), (&meta[..], info.blocks));
        compare(&segment, &pages, quanta, &probes);
    }
}

/// 500 hashes in 20 pages of a block each, but for one of three.
fn some_pages() -> (Vec<Page>, Quanta) {
    let quanta = Quanta::new(0..=u64::MAX, 160).unwrap();
    let hashes: Vec<u64> = uniform(500).into_iter().map(|(hash, _)| hash).collect();
    let mut pages = pack(&hashes, quanta, 28);
    pages[7].blocks = 3;
    (pages, quanta)
}

#[test]
fn the_bytes_are_those_of_format_version_5() {
    let (pages, quanta) = some_pages();
    // Its random numbers are always the same, and so the store's id in the seals.
    let store = store_on(Arc::new(SimDevice::new(1)));
    let file = write_pages(store.files(), &pages, quanta, b"meta").file;
    assert_eq!((file.bytes, file.xxh3), GOLDEN, "{:#034x}: other bytes need another version", file.xxh3);
}

/// The length of the file, and its XXH3.
const GOLDEN: (u64, u128) = (22 * BLOCK_BYTES as u64, 0x66c6_9b83_2e32_41e0_c1aa_58ce_1840_a06a);

#[test]
fn pages_out_of_order_or_in_a_quantum_that_began_are_refused() {
    let store = store_on(Arc::new(MemoryDevice::new()));
    // Quanta of 16 hashes.
    let quanta = Quanta::new(0x100..=0x1ff, 16).unwrap();
    let mut writer =
        SegmentWriter::create_quantised(store.files(), KIND, quanta, BLOCK_BYTES, false).unwrap();
    let refused = |writer: &mut SegmentWriter, first, last| {
        let pushed = writer.push_page(first, last, 1, b"x");
        assert!(matches!(pushed, Err(Error::InvalidOption { .. })), "{first:#x} to {last:#x}");
    };
    for (first, last) in [(0xff, 0x110), (0x1f0, 0x200), (0x120, 0x11f)] {
        refused(&mut writer, first, last);
    }
    writer.push_page(0x105, 0x125, 3, &[1; 2 * BODY_BYTES]).unwrap();
    for (first, last) in [(0x124, 0x130), (0x126, 0x130), (0x12f, 0x12f)] {
        refused(&mut writer, first, last);
    }
    assert!(matches!(writer.push_block(0x130, 0x130, 1, b"x"), Err(Error::InvalidOption { .. })));
    writer.push_page(0x130, 0x130, 1, b"").unwrap();
    writer.push_page(0x1ff, 0x1ff, 1, &[2; BODY_BYTES + 1]).unwrap();
    let segment = writer.finish_open(b"").unwrap();
    assert_eq!((segment.blocks(), segment.entries()), (5, 5));
    for (hash, blocks) in
        [(0x104, 0..0), (0x105, 0..2), (0x12f, 0..2), (0x130, 2..3), (0x1ef, 2..3), (0x1ff, 3..5)]
    {
        assert_eq!(segment.find(hash), blocks, "{hash:#x}");
    }
    let mut fenced = SegmentWriter::create(store.files(), KIND).unwrap();
    assert!(matches!(fenced.push_page(1, 2, 1, b"x"), Err(Error::InvalidOption { .. })));
    let fenced = fenced.finish_open(b"").unwrap();
    assert!(matches!(rebuild(&fenced, |hash| hash), Err(Error::InvalidOption { .. })));
}

#[test]
fn an_index_that_is_not_that_of_the_pages_is_noticed() {
    let (pages, quanta) = some_pages();
    let store = store_on(Arc::new(MemoryDevice::new()));
    let info = write_pages(store.files(), &pages, quanta, b"");
    let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
    rebuild(&segment, |hash| hash).unwrap();
    let corrupt = |result: Result<()>| assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
    let third = pages[3].hashes[0];
    corrupt(rebuild(&segment, |hash| if hash == third { hash - (1 << 60) } else { hash }));
    corrupt(rebuild(&segment, |hash| if hash == third { hash + (1 << 60) } else { hash }));
    corrupt(rebuild(&segment, |hash| if hash == pages[0].hashes[0] { hash - 1 } else { hash }));
    corrupt(rebuild(&segment, |_| 0));
}

#[test]
fn a_page_is_read_whole_or_not_at_all() {
    let (pages, quanta) = some_pages();
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let before = device.list().unwrap();
    let info = write_pages(store.files(), &pages, quanta, b"");
    let name = device.list().unwrap().into_iter().find(|name| !before.contains(name)).unwrap();
    let file = device.open(&name, Access::Read).unwrap();
    let segment = Segment::open(store.files(), &info.file, KIND).unwrap();
    let read = |blocks: Range<u64>| {
        let mut bytes = vec![0; (blocks.end - blocks.start) as usize * BLOCK_BYTES];
        file.read(blocks.start * BLOCK_BYTES as u64, &mut bytes).unwrap();
        let mut joined = Vec::new();
        segment.page_of(blocks, &bytes, &mut joined).map(<[u8]>::to_vec)
    };
    for (number, (page, place)) in pages.iter().zip(places(&pages)).enumerate() {
        assert_eq!(read(place).unwrap(), body_of(page, number));
    }
    for part in [7..8, 7..9, 8..9, 8..10, 9..10, 9..11, 6..8, 6..10, 7..11, 4..6] {
        assert!(matches!(read(part.clone()), Err(Error::Corrupt { .. })), "{part:?}");
        let mut scan = segment.scan(part.clone()).unwrap();
        let mut whole = 0..part.start;
        let ended = loop {
            match scan.next_page() {
                Ok(Some((blocks, _))) => whole = blocks,
                ended => break ended.map(|page| page.is_none()),
            }
        };
        // What is handed out is whole; what begins or ends inside a page is an error.
        assert_eq!(ended.is_err(), (8..10).contains(&part.start) || (8..10).contains(&part.end), "{part:?}");
        assert!(ended.is_err() || whole.end == part.end);
    }
}
