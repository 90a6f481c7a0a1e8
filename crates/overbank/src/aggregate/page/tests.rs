//! Pages against the entries that they were made of.

use super::*;
use crate::aggregate::alphabet::{Alphabet, ByteSet};
use crate::aggregate::group::KeyState;
use crate::aggregate::pool::{BLOCK_BYTES, Block};
use crate::aggregate::state::Shape;
use proptest::prelude::*;

const LG_BUCKETS: u32 = 6;

#[derive(Clone, Debug)]
struct Placed {
    hash: u32,
    group: KeyState,
}

/// Entries in order, with few hashes or many, keys of one length or of several.
fn entries(has_tail: bool) -> impl Strategy<Value = Vec<Placed>> {
    let key = prop_oneof![
        3 => prop::collection::vec(b'a'..b'g', 5),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ];
    let word =
        (any::<u64>(), prop_oneof![Just(0u32), Just(40), Just(56), Just(63)]).prop_map(|(w, s)| w >> s);
    let tail = prop::collection::vec(any::<u8>(), 0..if has_tail { 40 } else { 1 });
    let entry = (any::<u32>(), key, [word.clone(), word], tail);
    (prop::collection::vec(entry, 0..600), 0u32..32).prop_map(|(entries, drop_bits)| {
        let mut entries: Vec<Placed> = entries
            .into_iter()
            .map(|(hash, key, words, tail)| {
                let hash = if drop_bits == 31 { 7 << 28 } else { hash >> drop_bits << drop_bits };
                Placed { hash, group: KeyState { key, words: words.to_vec(), tail } }
            })
            .collect();
        entries.sort_by(|a, b| (a.hash, &a.group.key).cmp(&(b.hash, &b.group.key)));
        entries.dedup_by(|a, b| a.group.key == b.group.key);
        entries
    })
}

fn alphabet_of(entries: &[Placed]) -> Alphabet {
    let mut set = ByteSet::default();
    entries.iter().for_each(|entry| set.insert_all(&entry.group.key));
    Alphabet::empty().with(set).unwrap_or_else(Alphabet::empty)
}

fn pages_of(entries: &[Placed], alphabet: &Alphabet, has_tail: bool) -> Vec<Block> {
    let mut builder = PageBuilder::new(Shape { row_words: 0, state_words: 2, has_tail });
    // What was in the memory before must not show.
    let take = |bytes: usize| -> Block { vec![0xee; bytes.max(BLOCK_BYTES)].into() };
    let mut pages = Vec::new();
    for Placed { hash, group } in entries {
        let (bucket, fingerprint) = (bucket_of(*hash, LG_BUCKETS), fingerprint_of(*hash, LG_BUCKETS));
        pages.extend(builder.push(bucket, fingerprint, &group.key, group.as_state(), alphabet, take));
    }
    pages.extend(builder.finish(alphabet, take));
    pages
}

fn groups_of(pages: &[Block], alphabet: &Alphabet) -> Vec<KeyState> {
    let (mut groups, mut group) = (Vec::new(), KeyState::default());
    for page in pages {
        let mut cursor = EntryCursor::default();
        while cursor.next(Page::new(page, 2), alphabet, &mut group) {
            groups.push(group.clone());
        }
    }
    groups
}

fn first_bucket(page: &Block) -> u32 {
    PageHead::of(page, 2).first_bucket
}

fn find(pages: &[Block], hash: u32, key: &[u8], alphabet: &Alphabet) -> Option<(usize, usize)> {
    let (bucket, fingerprint) = (bucket_of(hash, LG_BUCKETS), fingerprint_of(hash, LG_BUCKETS));
    let find = |page: &Block| Page::new(page, 2).find(bucket, fingerprint, key, alphabet);
    pages.iter().enumerate().find_map(|(at, page)| Some((at, find(page)?)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn entries_come_back(entries in any::<bool>().prop_flat_map(|has_tail| (Just(has_tail), entries(has_tail)))) {
        let (has_tail, entries) = entries;
        let alphabet = alphabet_of(&entries);
        let pages = pages_of(&entries, &alphabet, has_tail);
        let expected: Vec<KeyState> = entries.iter().map(|entry| entry.group.clone()).collect();
        prop_assert_eq!(groups_of(&pages, &alphabet), expected);
        prop_assert!(pages.windows(2).all(|pair| first_bucket(&pair[0]) <= first_bucket(&pair[1])));
        prop_assert!(pages.iter().all(|page| page.len() == BLOCK_BYTES || Page::new(page, 2).entries() == 1));
        let mut read = KeyState::default();
        for Placed { hash, group } in &entries {
            let (page, entry) = find(&pages, *hash, &group.key, &alphabet).unwrap();
            Page::new(&pages[page], 2).read(entry, &alphabet, &mut read);
            prop_assert_eq!(&read, group);
            let mut other = group.key.clone();
            other.push(b'b');
            let is_there = entries.iter().any(|entry| entry.hash == *hash && entry.group.key == other);
            prop_assert_eq!(find(&pages, *hash, &other, &alphabet).is_some(), is_there);
        }
    }

    /// Words change where they lie, or not at all; nothing else does.
    #[test]
    fn words_change_in_place(
        entries in entries(false),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<[u64; 2]>(), any::<[bool; 2]>(), 0u32..64), 0..60),
    ) {
        prop_assume!(!entries.is_empty());
        let alphabet = alphabet_of(&entries);
        let mut entries: Vec<Placed> = entries.into_iter().map(|mut entry| { entry.group.tail.clear(); entry }).collect();
        let mut pages = pages_of(&entries, &alphabet, false);
        // Besides its key an entry takes 32 bytes at most: a fingerprint, a length, two words of which each may be an exception.
        let most_bytes = entries.iter().map(|entry| entry.group.key.len() + 32).sum::<usize>();
        let has_room = most_bytes + 256 <= BLOCK_BYTES;
        for (changed, (at, words, which, shift)) in changes.into_iter().enumerate() {
            let at = at.index(entries.len());
            let Placed { hash, group } = &mut entries[at];
            let (page, entry) = find(&pages, *hash, &group.key, &alphabet).unwrap();
            let mut wanted = group.words.clone();
            for i in 0..2 {
                if which[i] {
                    wanted[i] = words[i] >> shift;
                }
            }
            let (mut scratch, head) = ([0; 4], PageHead::of(&pages[page], 2));
            let is_changed = change_words(&mut pages[page], head, 2, entry, &mut scratch, |words| words.copy_from_slice(&wanted));
            if is_changed {
                group.words = wanted;
            }
            prop_assert!(is_changed || !has_room || changed > 2, "there is room for some");
        }
        let expected: Vec<KeyState> = entries.iter().map(|entry| entry.group.clone()).collect();
        prop_assert_eq!(groups_of(&pages, &alphabet), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Entries of pages that are copied between others that are new make the same pages as if all were new, but for their lengths.
    #[test]
    fn copied_entries_come_back(entries in entries(false), is_new in prop::collection::vec(prop::bool::weighted(0.2), 600)) {
        let alphabet = alphabet_of(&entries);
        let entries: Vec<Placed> = entries.into_iter().map(|mut entry| { entry.group.tail.clear(); entry }).collect();
        let is_old = |i: &usize| !is_new[*i];
        let old: Vec<Placed> = (0..entries.len()).filter(is_old).map(|i| entries[i].clone()).collect();
        let old_pages = pages_of(&old, &alphabet, false);
        let mut builder = PageBuilder::new(Shape { row_words: 0, state_words: 2, has_tail: false });
        let take = |bytes: usize| -> Block { vec![0xee; bytes.max(BLOCK_BYTES)].into() };
        let (mut pages, mut group, mut copied) = (Vec::new(), KeyState::default(), 0);
        let mut old_page = old_pages.iter().map(|page| (Page::new(page, 2), EntryCursor::default()));
        let mut current = old_page.next();
        for (i, Placed { hash, group: new }) in entries.iter().enumerate() {
            if is_old(&i) {
                continue;
            }
            // The old ones that stand before it.
            let before = (0..i).filter(is_old).count();
            while copied < before {
                let (page, cursor) = current.as_mut().unwrap();
                let from = cursor.entry();
                if from == page.entries() {
                    current = old_page.next();
                    continue;
                }
                let end = page.entries().min(from + before - copied);
                if !cursor.copy_some(*page, end, &alphabet, &mut builder) {
                    let (bucket, fingerprint) = cursor.place(*page);
                    cursor.next(*page, &alphabet, &mut group);
                    pages.extend(builder.push(bucket, fingerprint, &group.key, group.as_state(), &alphabet, take));
                }
                copied += cursor.entry() - from;
            }
            let (bucket, fingerprint) = (bucket_of(*hash, LG_BUCKETS), fingerprint_of(*hash, LG_BUCKETS));
            pages.extend(builder.push(bucket, fingerprint, &new.key, new.as_state(), &alphabet, take));
        }
        pages.extend(builder.finish(&alphabet, take));
        let written = (0..entries.len()).rfind(|i| !is_old(i)).map_or(0, |last| last + 1);
        let expected: Vec<KeyState> = entries[..written].iter().map(|entry| entry.group.clone()).collect();
        prop_assert_eq!(groups_of(&pages, &alphabet), expected);
        prop_assert!(pages.iter().all(|page| page.len() == BLOCK_BYTES || Page::new(page, 2).entries() == 1));
        let mut read = KeyState::default();
        for Placed { hash, group } in &entries[..written] {
            let (page, entry) = find(&pages, *hash, &group.key, &alphabet).unwrap();
            Page::new(&pages[page], 2).read(entry, &alphabet, &mut read);
            prop_assert_eq!(&read, group);
        }
    }
}

/// Copies are what make a merge quick: most entries of pages that are like each other are copied.
#[test]
fn entries_of_like_pages_are_copied_but_for_a_few() {
    let entries: Vec<Placed> = (0..2000u32)
        .map(|i| {
            let group = KeyState {
                key: format!("{i:06}").into(),
                words: vec![u64::from(i % 9) + 1, 7],
                tail: Vec::new(),
            };
            Placed { hash: i * 2_000_000, group }
        })
        .collect();
    let alphabet = alphabet_of(&entries);
    let take = |bytes: usize| -> Block { vec![0; bytes.max(BLOCK_BYTES)].into() };
    let mut builder = PageBuilder::new(Shape { row_words: 0, state_words: 2, has_tail: false });
    let (mut pages, mut group, mut decoded) = (Vec::new(), KeyState::default(), 0);
    for page in pages_of(&entries, &alphabet, false) {
        let (page, mut cursor) = (Page::new(&page, 2), EntryCursor::default());
        while cursor.entry() < page.entries() {
            if !cursor.copy_some(page, page.entries(), &alphabet, &mut builder) {
                let (bucket, fingerprint) = cursor.place(page);
                cursor.next(page, &alphabet, &mut group);
                pages.extend(builder.push(
                    bucket,
                    fingerprint,
                    &group.key,
                    group.as_state(),
                    &alphabet,
                    take,
                ));
                decoded += 1;
            }
        }
    }
    pages.extend(builder.finish(&alphabet, take));
    assert_eq!(groups_of(&pages, &alphabet), groups_of(&pages_of(&entries, &alphabet, false), &alphabet));
    assert!(decoded * 5 < entries.len(), "{decoded} were decoded");
}

#[test]
fn ten_bytes_of_36_and_a_count_take_no_more_than_ten() {
    let mut number = 1u64;
    let mut random = || {
        number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        number >> 33
    };
    let mut entries: Vec<Placed> = (0..800)
        .map(|_| {
            let key =
                (0..10).map(|_| b"abcdefghijklmnopqrstuvwxyz0123456789"[(random() % 36) as usize]).collect();
            let hash = (random() as u32) << 1;
            Placed { hash, group: KeyState { key, words: vec![random() % 20 + 1, 0], tail: Vec::new() } }
        })
        .collect();
    entries.sort_by(|a, b| (a.hash, &a.group.key).cmp(&(b.hash, &b.group.key)));
    let alphabet = alphabet_of(&entries);
    let pages = pages_of(&entries, &alphabet, false);
    let first = Page::new(&pages[0], 2).entries();
    assert!(first * 10 > BLOCK_BYTES, "{first} entries in the first page");
}
