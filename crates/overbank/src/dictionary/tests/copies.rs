//! Copies of ranges: shards parted and joined, and what others write meanwhile.

use super::*;
use crate::Error;
use crate::device::sim::planted::{Instead, WithoutDataSync};
use crate::device::sim::{Fault, FaultKind};
use std::sync::{Mutex, OnceLock};

#[test]
fn shards_are_parted_and_joined() {
    for (is_even, options) in [false, true].map(|is| (is, DictionaryOptions::new().ranks(is))) {
        let (_, store) = simulated(0);
        let whole = small(&store, options, u128::MAX).unwrap();
        let (keys, values) = pairs(0..3_000, 1, is_even);
        whole.insert_many(&keys, &values).unwrap();
        whole.remove_many(&keys[2_900..]).unwrap();
        let expected = scanned(&whole);
        let snapshot = whole.snapshot().unwrap();
        let (_, other) = simulated(0);
        let joined = small(&other, options, u128::MAX).unwrap();
        let mut copied = 0;
        for part in 0..3u64 {
            let (_, own) = simulated(0);
            let shard = small(&own, options, u128::MAX).unwrap();
            let range =
                part * (u64::MAX / 3)..=if part == 2 { u64::MAX } else { (part + 1) * (u64::MAX / 3) - 1 };
            let before = copied;
            copied += shard.copy_from(&snapshot, range.clone()).unwrap();
            let last = expected.keys().filter(|key| range.contains(&shard.hasher().hash(key).high()));
            let last = last.max_by_key(|key| shard.hasher().hash(key)).unwrap();
            if options.has_ranks() {
                assert_eq!(shard.rank(last).unwrap(), Some(copied - before - 1));
            }
            shard.verify().unwrap();
            let hasher = shard.hasher();
            assert!(scanned(&shard).keys().all(|key| range.contains(&hasher.hash(key).high())));
            own.commit(b"").unwrap();
            assert!(own.verify().unwrap().is_whole());
            joined.copy_from(&shard.snapshot().unwrap(), 0..=u64::MAX).unwrap();
        }
        assert_eq!(copied, expected.len() as u64);
        assert!(scanned(&joined) == expected);
        joined.compact().unwrap();
        assert!(scanned(&joined) == expected);
        other.commit(b"").unwrap();
    }
}

#[test]
fn a_copy_that_fails_leaves_no_file_and_no_item() {
    let (_, store) = simulated(0);
    let from = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    let (keys, values) = pairs(0..2_000, 1, false);
    from.insert_many(&keys, &values).unwrap();
    let snapshot = from.snapshot().unwrap();
    let mut failed = 0;
    loop {
        let (device, other) = simulated(0);
        let to = small(&other, DictionaryOptions::new(), u128::MAX).unwrap();
        to.insert(b"before", b"1").unwrap();
        other.commit(b"").unwrap();
        let files = crate::device::Device::list(&*device).unwrap();
        let operation = device.changes() + failed;
        device.inject(Fault { operation, on_reads: false, kind: FaultKind::Enospc, sticky: true });
        let copied = to.copy_from(&snapshot, 0..=u64::MAX);
        device.heal();
        match copied {
            Ok(copied) => {
                assert_eq!(copied, 2_000);
                break;
            }
            Err(error) => assert!(matches!(error, Error::Full { .. }), "{error}"),
        }
        assert_eq!(crate::device::Device::list(&*device).unwrap(), files);
        assert_eq!(scanned(&to).len(), 1);
        failed += 1;
        assert_eq!(to.copy_from(&snapshot, 0..=u64::MAX).unwrap(), 2_000);
        assert_eq!(scanned(&to).len(), 2_001);
        other.commit(b"").unwrap();
    }
    assert!(failed >= 2, "{failed} operations failed");
}

/// Whatever order others' writes and the copy come in, it stays the order.
#[test]
fn what_is_written_during_a_copy_does_not_change_its_mind() {
    let writer = Arc::new(OnceLock::<Mutex<Option<(Dictionary, Vec<u8>)>>>::new());
    let writes = Arc::clone(&writer);
    let instead = Instead::new(move || {
        let once = writes.get().and_then(|writer| writer.lock().unwrap().take());
        if let Some((dictionary, key)) = once {
            dictionary.insert(&key, b"written meanwhile").unwrap();
        }
    });
    let device = Arc::new(WithoutDataSync(SimDevice::new(1), instead));
    let store = Store::create_on(device, store_options(0)).unwrap();
    let dictionary = small(&store, DictionaryOptions::new(), u128::MAX).unwrap();
    let (keys, values) = pairs(0..300, 1, false);
    dictionary.insert_many(&keys, &values).unwrap();
    dictionary.flush().unwrap();
    let snapshot = dictionary.snapshot().unwrap();
    assert!(writer.set(Mutex::new(Some((dictionary.clone(), keys[7].clone())))).is_ok());
    assert_eq!(dictionary.copy_from(&snapshot, 0..=u64::MAX).unwrap(), 300);
    let then = dictionary.get(&keys[7]).unwrap();
    dictionary.flush().unwrap();
    assert_eq!(dictionary.get(&keys[7]).unwrap(), then, "after a flush");
    dictionary.compact().unwrap();
    assert_eq!(dictionary.get(&keys[7]).unwrap(), then, "after a merge");
}
