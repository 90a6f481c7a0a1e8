//! How runs are cut into pages, and what is refused.

use super::*;
use crate::Error;
use crate::segment::BODY_BYTES;

#[test]
fn an_empty_run_is_none_and_leaves_no_file() {
    let device = Arc::new(MemoryDevice::new());
    let store = store_on(device.clone());
    let before = device.list().unwrap();
    assert!(write(store.files(), SHAPE, Expected::default(), &Model::new()).unwrap().is_none());
    assert_eq!(device.list().unwrap(), before);
}

#[test]
fn what_is_out_of_order_or_range_is_refused() {
    let store = store();
    let create = |range| {
        RunWriter::create(store.files(), hasher(), SHAPE, range, Expected { items: 3, bytes: 60 }, false)
            .unwrap()
    };
    let model = plain(3, 12, 4);
    let items: Vec<Item<'_>> =
        model.iter().map(|((hash, key), value)| Item { hash: *hash, key, value: value.lent() }).collect();
    for (first, second) in [(1, 0), (1, 1), (2, 0)] {
        let mut writer = create(0..=u64::MAX);
        writer.push(items[first]).unwrap();
        assert!(matches!(writer.push(items[second]), Err(Error::InvalidOption { .. })));
    }
    // Equal hashes come in the order of their keys.
    let mut writer = create(0..=u64::MAX);
    let equal = |key| Item { key, ..items[0] };
    writer.push(equal(b"a")).unwrap();
    writer.push(equal(b"aa")).unwrap();
    writer.push(equal(b"b")).unwrap();
    assert!(writer.push(equal(b"aaa")).is_err() && writer.push(equal(b"b")).is_err());
    let middle = items[1].hash.high();
    for (range, inside) in [(middle..=u64::MAX, [false, true, true]), (0..=middle, [true, true, false])] {
        for (item, inside) in items.iter().zip(inside) {
            assert_eq!(create(range.clone()).push(*item).is_ok(), inside);
        }
    }
}

#[test]
fn keys_of_one_hash_are_in_one_page() {
    let store = store();
    let hash = KeyHash::new(1 << 60, 5);
    let mut writer = RunWriter::create(
        store.files(),
        hasher(),
        SHAPE,
        0..=u64::MAX,
        Expected { items: 10_000, bytes: 160_000 },
        false,
    )
    .unwrap();
    let keys: Vec<[u8; 8]> = (0..3000u64).map(u64::to_be_bytes).collect();
    for key in &keys {
        writer.push(Item { hash, key, value: Value::Put(&key[4..]) }).unwrap();
    }
    let run = writer.finish().unwrap().unwrap();
    let blocks = run.find(hash);
    assert_eq!(blocks, 0..9);
    read_pages(store.files(), &[(&run, blocks)], READS, &mut |_, page| {
        assert!(keys.iter().all(|key| page.find(hash, key).unwrap() == Some(Value::Put(&key[4..]))));
        assert_eq!(page.find(hash, b"nobody's")?, None);
        Ok(())
    })
    .unwrap();
}

/// Of random hashes, the share of a page that its items fill is the same in any long run, within a part in a hundred.
#[test]
fn pages_are_filled() {
    let store = store();
    for (key_bytes, value_bytes, n, least) in
        [(12, 4, 60_000, 0.93), (40, 60, 20_000, 0.92), (100, 1000, 4000, 0.93), (1000, 1500, 2000, 0.9)]
    {
        let model = plain(n, key_bytes, value_bytes);
        let run = run_of(store.files(), SHAPE, &model);
        let bytes = expected(&model).bytes as f64;
        let fill = bytes / (run.written_blocks() as f64 * BODY_BYTES as f64);
        println!("{} bytes an item: {:.1} % filled", key_bytes + value_bytes, fill * 100.0);
        assert!(fill >= least, "{fill} of {key_bytes} and {value_bytes} bytes");
    }
}

/// Addresses of pages on hosts of some hundred names, and values of words and numbers, as a crawl has them.
#[cfg(all(feature = "lz4", feature = "zstd"))]
fn crawled(n: u64) -> Model {
    let number = |i: u64, seed: u64| Seed(u128::from(i) << 64 | u128::from(seed)).fingerprint();
    let words = [
        "news", "archive", "product", "category", "index", "user", "profile", "image", "article", "search",
        "tag", "page",
    ];
    let word = |i: u64, seed: u64| words[(number(i, seed) % words.len() as u64) as usize];
    model_of((0..n).map(|i| {
        let (host, id) = (number(i, 1) % 400, number(i, 2) % 10_000_000);
        let url = format!("https://www.host{host}.example.com/{}/{}/{}-{id}.html", word(i, 3), word(i, 4), word(i, 5));
        let value = format!(
            "{{\"status\":200,\"type\":\"text/html; charset=utf-8\",\"length\":{},\"seen\":{},\"title\":\"{} {} {}\",\"score\":0.{}}}",
            number(i, 6) % 100_000, 1_700_000_000 + number(i, 7) % 30_000_000, word(i, 8), word(i, 9), word(i, 10), number(i, 11) % 10_000,
        );
        (url.into_bytes(), Owned::Put(value.into_bytes()))
    }))
}

#[cfg(all(feature = "lz4", feature = "zstd"))]
#[test]
fn packed_pages_are_filled() {
    let store = store();
    let model = crawled(40_000);
    let raw_bytes = expected(&model).bytes as f64;
    for (compression, page_blocks, least_ratio) in [
        (Compression::Lz4, 1, 1.8),
        (Compression::Lz4, 4, 2.0),
        (Compression::Zstd, 1, 3.5),
        (Compression::Zstd, 4, 3.5),
    ] {
        let shape = RunShape { page_blocks, compression, ..SHAPE };
        let run = run_of(store.files(), shape, &model);
        let (mut pages, mut raw) = (0, 0);
        let mut filled = 0;
        run.file
            .segment
            .rebuild(1 << 20, false, |blocks, body| {
                let mut unpacked = Vec::new();
                let page = run.file.unpacker.unpack(body, &mut unpacked)?;
                pages += 1;
                raw += page.page.len();
                filled += page.packed_bytes.unwrap_or(body.len());
                let items = Page::of(page.page)?;
                assert!(blocks.end - blocks.start <= u64::from(page_blocks));
                Ok(items.ends(hasher())?.0.high())
            })
            .unwrap();
        let written = run.written_blocks() as f64 * BODY_BYTES as f64;
        let (ratio, fill) = (raw_bytes / written, filled as f64 / written);
        println!(
            "{compression:?}, {page_blocks} blocks: ratio {ratio:.2}, {:.1} % filled, {} bytes a page",
            fill * 100.0,
            raw / pages
        );
        assert!(ratio >= least_ratio && fill >= 0.9, "{ratio} {fill}");
        run.verify().unwrap();
    }
}
