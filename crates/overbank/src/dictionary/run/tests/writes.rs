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
        [(12, 4, 60_000, 0.93), (40, 60, 20_000, 0.92), (100, 1000, 4000, 0.7)]
    {
        let model = plain(n, key_bytes, value_bytes);
        let run = run_of(store.files(), SHAPE, &model);
        let bytes = expected(&model).bytes as f64;
        let fill = bytes / (run.written_blocks() as f64 * BODY_BYTES as f64);
        println!("{} bytes an item: {:.1} % filled", key_bytes + value_bytes, fill * 100.0);
        assert!(fill >= least, "{fill} of {key_bytes} and {value_bytes} bytes");
    }
}
