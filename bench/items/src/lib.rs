//! The items of the dictionary benches: keys and values that follow from a workload and a number, so that every engine is given the same
//! ones in the same order, and whoever looks one up knows what must come, without a file of them.
//!
//! ```text
//!   urls    http://www.tamoku.org/lirena/sotu/...?id=0123456789abcdef     111 bytes      1000 random bytes
//!   small   twelve bytes of a hash                                        12 bytes       4 random bytes
//! ```
//!
//! Invariants:
//! 1. Item `n` of a workload is the same on every machine, and no two numbers have the same key.
//! 2. The order of the numbers is not the order of the keys: whatever an engine sorts by, it has to sort.
//!
//! Source: the workloads of Lim, Andersen, Kaminsky, Practical Batch-Updatable External Hashing with Sorting, ALENEX 2013, section 4.1:
//! URLs of 111 bytes on average with values of 1000 bytes; and keys that were hashed into twelve bytes before, with values of four.
#![forbid(unsafe_code)]

/// What the items look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Items {
    /// URL-like keys with random values of a kilobyte.
    Urls,
    /// Hashes of twelve bytes with four bytes each.
    Small,
}

/// Numbers from here on belong to keys that nobody inserts.
pub const ABSENT: u64 = 1 << 40;

/// Bytes of a word's syllable.
const SYLLABLE_BYTES: usize = 2;

/// Where the unique end of a URL begins.
const UNIQUE_AT: usize = Items::Urls.key_bytes() - b"?id=".len() - 16;

impl Items {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Urls, Self::Small];

    /// The name on command lines and in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urls => "urls",
            Self::Small => "small",
        }
    }

    /// The workload of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|items| items.name() == name)
    }

    /// Bytes of each key.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Urls => 111,
            Self::Small => 12,
        }
    }

    /// Bytes of each value.
    pub const fn value_bytes(self) -> usize {
        match self {
            Self::Urls => 1000,
            Self::Small => 4,
        }
    }

    /// Bytes of a key and its value.
    pub const fn item_bytes(self) -> usize {
        self.key_bytes() + self.value_bytes()
    }

    /// Writes the key of item `number`, below 2^41, into as many bytes as [`key_bytes`](Self::key_bytes).
    pub fn fill_key(self, number: u64, key: &mut [u8]) {
        match self {
            Self::Urls => fill_url(number, key),
            Self::Small => {
                let first = mix(number);
                key[..8].copy_from_slice(&first.to_le_bytes());
                key[8..].copy_from_slice(&mix(first).to_le_bytes()[..4]);
            }
        }
    }

    /// Writes the value of item `number` into as many bytes as [`value_bytes`](Self::value_bytes).
    pub fn fill_value(self, number: u64, value: &mut [u8]) {
        let mut random = Words { state: mix(number ^ 0x5eed_0fa0_a1ce) };
        let (words, rest) = value.as_chunks_mut::<8>();
        words.iter_mut().for_each(|word| *word = random.next().to_le_bytes());
        let last = random.next().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }

    /// Writes key and value of item `number`, back to back.
    pub fn fill(self, number: u64, item: &mut [u8]) {
        let (key, value) = item.split_at_mut(self.key_bytes());
        self.fill_key(number, key);
        self.fill_value(number, value);
    }
}

/// Item numbers to look up, in an order that depends on the seed alone.
#[derive(Clone, Debug)]
pub struct Asked {
    words: Words,
    items: u64,
}

impl Asked {
    /// Numbers below `items`, which is not 0.
    pub fn new(items: u64, seed: u64) -> Self {
        Self { words: Words { state: mix(seed) }, items }
    }
}

impl Iterator for Asked {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(((u128::from(self.words.next()) * u128::from(self.items)) >> 64) as u64)
    }
}

/// A few hosts have most of the pages, and every page a path of words; the end is the number in disguise, so no URL comes twice.
fn fill_url(number: u64, key: &mut [u8]) {
    let mut random = Words { state: mix(number) };
    let draw = random.next();
    // The square of a uniform number: one host in a hundred has a tenth of the pages.
    let (unit, hosts) = (draw >> 44, 1u64 << 16);
    let mut host = Words { state: (((unit * unit) >> 20) * hosts) >> 20 };
    let mut at = put(key, 0, b"http://www.");
    at = put_word(key, at, host.next());
    at = put(key, at, b".org");
    while at < UNIQUE_AT {
        at = put(&mut key[..UNIQUE_AT], at, b"/");
        at = put_word(&mut key[..UNIQUE_AT], at, random.next());
    }
    at = put(key, at, b"?id=");
    for (digit, place) in key[at..].iter_mut().enumerate() {
        *place = b"0123456789abcdef"[(mix(number) >> (60 - 4 * digit) & 15) as usize];
    }
}

/// Puts what fits of `text` at `at`; returns where it ends.
fn put(key: &mut [u8], at: usize, text: &[u8]) -> usize {
    let end = key.len().min(at + text.len());
    key[at..end].copy_from_slice(&text[..end - at]);
    end
}

/// Puts a word of three to six syllables.
fn put_word(key: &mut [u8], mut at: usize, mut draw: u64) -> usize {
    for _ in 0..3 + draw % 4 {
        draw >>= 7;
        let syllable: [u8; SYLLABLE_BYTES] =
            [b"bcdfghklmnprstvw"[(draw & 15) as usize], b"aeiouaei"[(draw >> 4 & 7) as usize]];
        at = put(key, at, &syllable);
    }
    at
}

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
struct Words {
    state: u64,
}

impl Words {
    #[inline]
    fn next(&mut self) -> u64 {
        let word = mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }
}

/// The finalizer of SplitMix64: a bijection.
const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn item(items: Items, number: u64) -> Vec<u8> {
        let mut item = vec![0; items.item_bytes()];
        items.fill(number, &mut item);
        item
    }

    #[test]
    fn keys_are_all_different_and_in_no_order() {
        for items in Items::ALL {
            let keys: Vec<Vec<u8>> =
                (0..20_000).map(|number| item(items, number)[..items.key_bytes()].to_vec()).collect();
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
            let ascents = keys.windows(2).filter(|pair| pair[0] < pair[1]).count();
            assert!((9_000..11_000).contains(&ascents), "{ascents} ascents of 20000");
        }
    }

    #[test]
    fn a_url_looks_like_one_and_ends_with_what_is_its_own() {
        for number in [0, 1, 7_000_000, ABSENT + 3] {
            let key = item(Items::Urls, number)[..111].to_vec();
            let text = String::from_utf8(key).expect("ASCII");
            assert!(text.starts_with("http://www.") && text.contains(".org/"), "{text}");
            assert!(text.ends_with(&format!("?id={:016x}", mix(number))), "{text}");
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        }
        let hosts: HashSet<Vec<u8>> = (0..10_000).map(|n| item(Items::Urls, n)[..19].to_vec()).collect();
        assert!((1_000..9_000).contains(&hosts.len()), "{} hosts", hosts.len());
    }

    #[test]
    fn values_are_random_and_follow_from_the_number() {
        let (one, other) = (item(Items::Urls, 5), item(Items::Urls, 6));
        assert_eq!(one, item(Items::Urls, 5));
        let same = std::iter::zip(&one[111..], &other[111..]).filter(|(a, b)| a == b).count();
        assert!(same < 40, "{same} of 1000 bytes are alike");
        let ones: u32 = one[111..].iter().map(|byte| byte.count_ones()).sum();
        assert!((3_700..4_300).contains(&ones), "{ones} of 8000 bits");
    }

    #[test]
    fn numbers_to_ask_for_are_spread_and_repeatable() {
        let asked: Vec<u64> = Asked::new(1000, 3).take(5_000).collect();
        assert_eq!(asked, Asked::new(1000, 3).take(5_000).collect::<Vec<_>>());
        assert_ne!(asked[..10], Asked::new(1000, 4).take(10).collect::<Vec<_>>());
        assert!(asked.iter().all(|&number| number < 1000));
        assert!(asked.iter().collect::<HashSet<_>>().len() > 950);
    }
}
