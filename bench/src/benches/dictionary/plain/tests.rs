//! Every item is found by each scheme, after a load and after updates, in any memory; and indexes are as long as the paper says.

use super::*;

const SCHEMES: [Scheme; 3] = [Scheme::Ect, Scheme::EphSort, Scheme::EphPartition];

#[test]
fn every_item_is_found_after_a_load_and_updates_in_any_memory() {
    for (items, memory_bytes) in [(Items::Small, 64 << 10), (Items::Small, 8 << 20), (Items::Urls, 512 << 10)]
    {
        for scheme in SCHEMES {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut plain = Plain::open(folder.path(), scheme, items, memory_bytes).expect("opened");
            for numbers in [0..3_000, 3_000..3_700, 3_700..3_701] {
                // Each read is one of the disk's: some items are enough.
                let looked_up =
                    (0..numbers.end).step_by(23).chain([numbers.start, numbers.end - 1, items::ABSENT]);
                plain.insert(numbers.clone()).expect("inserted");
                let reopened = Plain::open(folder.path(), scheme, items, memory_bytes).expect("opened");
                for plain in [&plain, &reopened] {
                    let mut reader = plain.reader().expect("opened");
                    let mut item = vec![0; items.item_bytes()];
                    for number in looked_up.clone() {
                        items.fill(number, &mut item);
                        let (key, value) = item.split_at(items.key_bytes());
                        let wanted = (number < numbers.end).then_some(value);
                        assert_eq!(reader.get(key).expect("read"), wanted, "{scheme:?} {number}");
                    }
                }
            }
            assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 2, "nothing is left over");
        }
    }
}

#[test]
fn indexes_take_what_the_paper_says() {
    let mut hashes: Vec<u64> = (0..100_000u64).map(|number| hash_of(&number.to_le_bytes())).collect();
    hashes.sort_unstable();
    let a_key = |index: &Index| index.size_bits() as f64 / hashes.len() as f64;
    let tries = Index::tries(&hashes, G, HMAX).expect("built");
    assert!((2.4..2.6).contains(&a_key(&tries)), "{} bits", a_key(&tries));
    assert!(hashes.iter().enumerate().all(|(at, hash)| tries.rank(*hash) == Some(at as u64)));
    let functions = Index::functions(&hashes).expect("built");
    assert!((3.6..3.95).contains(&a_key(&functions)), "{} bits", a_key(&functions));
    let mut ranks: Vec<Option<u64>> = hashes.iter().map(|hash| functions.rank(*hash)).collect();
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq((0..100_000).map(Some)));
}
