//! Text in about half of its bytes: frequent substrings have codes of one byte.
//!
//! ```text
//!   symbols   http://www.   .com/   index   e   …     at most 255, of 1 to 8 bytes each
//!   key       http://www.example.com/index            coded   17 | 203 | 255 x | 40 | 88
//!                                                               a byte that no symbol begins with: 255 and the byte
//! ```
//!
//! 1. What a key is coded as depends on the key and the symbols alone, so two keys are equal exactly if their codes are: a key is looked
//!    for as coded, and no key is decoded for that.
//! 2. Every key is coded and comes back, whatever the symbols were made for.
//! 3. A symbol is found by one look, or two.
//!
//! | | CPU | RAM |
//! |---|---|---|
//! | train | five passes over the sample | 32 bytes a byte of the sample, while it lasts |
//! | encode | two loads a code, of 2 to 3 bytes of usual text | 139 KiB of symbols |
//! | decode | 1 ns a code | |
//!
//! Source: Boncz, Neumann, Leis, FSST: Fast Random Access String Compression, VLDB 2020. Deviation: all leaves share their symbols, for
//! hashing spreads all kinds of keys over all of them.

use crate::lock::lock;
use std::sync::{Arc, Mutex};

/// Before a byte that no symbol stands for.
const ESCAPE: u8 = u8::MAX;
const SYMBOLS_MAX: usize = ESCAPE as usize;
const SYMBOL_BYTES_MAX: usize = 8;
const PASSES: usize = 5;
/// Places of long symbols.
const LG_LONG: u32 = 10;
const LONG: usize = 1 << LG_LONG;
/// Of a sample, no more than so many bytes are looked at.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// How often symbols are trained, at most: leaves may still have those of before.
const TRAININGS_MAX: u32 = 4;
/// Shorter keys are not worth it.
const KEY_BYTES_MIN: usize = 8;
/// How much more a symbol of one byte is worth than what it takes part in: without it, its byte takes two.
const BYTE_WORTH: u32 = 2;

/// A substring, its first byte the lowest of the word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Symbol {
    word: u64,
    bytes: u8,
}

impl Symbol {
    fn of_byte(byte: u8) -> Symbol {
        Symbol { word: byte.into(), bytes: 1 }
    }

    fn first(self) -> u8 {
        self.word as u8
    }

    /// The two behind each other, if that is short enough.
    fn then(self, next: Symbol) -> Option<Symbol> {
        let bytes = self.bytes + next.bytes;
        (usize::from(bytes) <= SYMBOL_BYTES_MAX)
            .then(|| Symbol { word: self.word | next.word << (8 * self.bytes), bytes })
    }

    #[inline]
    fn begins(self, word: u64) -> bool {
        (word ^ self.word) << (64 - 8 * u32::from(self.bytes)) == 0
    }
}

/// The symbols that keys are coded by. A code is a symbol's place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Symbols {
    all: Vec<Symbol>,
    /// By their first three bytes, those of three and more: the one that is worth most of those that share a place.
    long: Box<[Coded; LONG]>,
    /// By the two bytes that a rest begins with: the symbol of two bytes, or that of the first one.
    short: Box<[Coded; 1 << 16]>,
    /// By a byte that is the last one.
    single: Box<[Coded; 1 << 8]>,
}

/// A symbol's code, and how many bytes it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Coded {
    code: u8,
    bytes: u8,
}

/// No symbol: the byte itself, behind an escape.
const ESCAPED: Coded = Coded { code: ESCAPE, bytes: 1 };

/// The place of those that begin with the three lowest bytes.
#[inline]
fn place_of(word: u64) -> usize {
    ((word as u32) << 8).wrapping_mul(0x9e37_79b1) as usize >> (32 - LG_LONG)
}

impl Symbols {
    /// Of symbols of which no two are equal, those that are worth most first.
    fn of(mut all: Vec<Symbol>) -> Symbols {
        let mut long = boxed(ESCAPED);
        let mut kept = Vec::with_capacity(all.len());
        for symbol in all.drain(..) {
            if symbol.bytes > 2 {
                let place: &mut Coded = &mut long[place_of(symbol.word)];
                if *place != ESCAPED || kept.len() == SYMBOLS_MAX {
                    continue;
                }
                *place = Coded { code: kept.len() as u8, bytes: symbol.bytes };
            }
            if kept.len() < SYMBOLS_MAX {
                kept.push(symbol);
            }
        }
        let (mut short, mut single) = (boxed(ESCAPED), boxed(ESCAPED));
        for bytes in 1..=2 {
            for (code, symbol) in kept.iter().enumerate().filter(|(_, symbol)| symbol.bytes == bytes) {
                let coded = Coded { code: code as u8, bytes };
                match bytes {
                    1 => {
                        single[usize::from(symbol.first())] = coded;
                        (0..256)
                            .for_each(|next: usize| short[usize::from(symbol.first()) | next << 8] = coded);
                    }
                    _ => short[symbol.word as usize] = coded,
                }
            }
        }
        Symbols { all: kept, long, short, single }
    }

    /// Symbols for keys such as these: good ones, not the best.
    pub(super) fn train<'k>(sample: impl Iterator<Item = &'k [u8]> + Clone) -> Symbols {
        let mut symbols = Symbols::of(Vec::new());
        let mut seen = Vec::new();
        for _ in 0..PASSES {
            seen.clear();
            symbols.gather(sample.clone(), &mut seen);
            symbols = Symbols::of(best_of(&mut seen));
        }
        symbols
    }

    /// The symbols that keys are made of, and each that stands behind another joined with it.
    fn gather<'k>(&self, sample: impl Iterator<Item = &'k [u8]>, seen: &mut Vec<Symbol>) {
        let mut looked_at = 0;
        for key in sample {
            let mut last: Option<Symbol> = None;
            let mut at = 0;
            while at < key.len() && looked_at < SAMPLE_BYTES_MAX {
                let word = key[at..]
                    .first_chunk()
                    .map_or_else(|| last_word(key, key.len() - at), |chunk| u64::from_le_bytes(*chunk));
                let coded = self.at(word, key.len() - at);
                let symbol = match coded.code {
                    ESCAPE => Symbol::of_byte(key[at]),
                    code => self.all[usize::from(code)],
                };
                seen.push(symbol);
                seen.extend(last.and_then(|last| last.then(symbol)));
                // A byte of a longer symbol may begin one that is better.
                if symbol.bytes > 1 {
                    let byte = Symbol::of_byte(symbol.first());
                    seen.push(byte);
                    seen.extend(last.and_then(|last| last.then(byte)));
                }
                last = Some(symbol);
                at += usize::from(symbol.bytes);
                looked_at += usize::from(symbol.bytes);
            }
        }
    }

    /// A symbol that the first `left` bytes of `word`, 1 or more, begin with, behind which there are zeros: a long one before a short one.
    #[inline(always)]
    fn at(&self, word: u64, left: usize) -> Coded {
        let long = self.long[place_of(word)];
        if usize::from(long.bytes) <= left && long != ESCAPED && self.all[usize::from(long.code)].begins(word)
        {
            return long;
        }
        // What stands behind a last byte is not zero, but nothing.
        if left == 1 { self.single[usize::from(word as u8)] } else { self.short[word as usize & 0xffff] }
    }

    /// Appends what `key` is coded as: at most twice as long.
    #[inline]
    pub(super) fn encode(&self, key: &[u8], into: &mut Vec<u8>) {
        let begin = into.len();
        // Each byte is two at most.
        into.resize(begin.wrapping_add(key.len().wrapping_mul(2)), 0);
        let out = &mut into[begin..];
        let (mut rest, mut codes) = (key, 0usize);
        // Whether there is an escape is as good as random in some texts: its byte is written in any case.
        let mut put = |coded: Coded, word: u64| {
            // Those before have two bytes each at most, so two are left for the last one, too.
            out[codes..][..2].copy_from_slice(&[coded.code, word as u8]);
            codes = codes.wrapping_add(1).wrapping_add(usize::from(coded.code == ESCAPE));
        };
        while let Some(chunk) = rest.first_chunk() {
            let word = u64::from_le_bytes(*chunk);
            let coded = self.at(word, rest.len());
            put(coded, word);
            rest = &rest[usize::from(coded.bytes)..];
        }
        // The last ones fit a word.
        let (mut word, mut left) = (last_word(key, rest.len()), rest.len());
        while left > 0 {
            let coded = self.at(word, left);
            put(coded, word);
            word = word.wrapping_shr(8 * u32::from(coded.bytes));
            left = left.wrapping_sub(coded.bytes.into());
        }
        into.truncate(begin.wrapping_add(codes));
    }

    /// Appends the key that `coded` is of; `false` where it is of none.
    #[inline]
    pub(super) fn decode(&self, coded: &[u8], into: &mut Vec<u8>) -> bool {
        let mut codes = coded.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                let Some(&byte) = codes.next() else { return false };
                into.push(byte);
            } else {
                let Some(symbol) = self.all.get(usize::from(code)) else { return false };
                into.extend_from_slice(&symbol.word.to_le_bytes()[..usize::from(symbol.bytes)]);
            }
        }
        true
    }

    /// Bytes that all of `keys` are coded as.
    pub(super) fn coded_bytes<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> usize {
        let mut coded = Vec::new();
        keys.map(|key| {
            coded.clear();
            self.encode(key, &mut coded);
            coded.len()
        })
        .sum()
    }

    /// Bytes that it keeps.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Symbol>()
            + size_of_val(&*self.long)
            + size_of_val(&*self.short)
            + size_of_val(&*self.single)
    }
}

/// The last `count` bytes of a key, fewer than 8, and zeros behind them.
#[inline(always)]
fn last_word(key: &[u8], count: usize) -> u64 {
    match key.last_chunk() {
        // Two shifts, for a shift by 64 is none.
        Some(chunk) => u64::from_le_bytes(*chunk) >> 8 >> (56 - 8 * count),
        None => key[key.len() - count..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// The symbols that the leaves of some groups share.
#[derive(Debug)]
pub(super) struct SharedSymbols {
    is_on: bool,
    trained: Mutex<Trained>,
}

#[derive(Default, Debug)]
struct Trained {
    newest: Option<Arc<Symbols>>,
    times: u32,
    /// Bytes of the keys that they were trained on, and of their codes.
    raw_bytes: usize,
    coded_bytes: usize,
}

impl SharedSymbols {
    /// None yet; never any unless `is_on`.
    pub(super) fn new(is_on: bool) -> SharedSymbols {
        SharedSymbols { is_on, trained: Mutex::default() }
    }

    /// The newest symbols, if by them such keys take less than 7 of 8 parts of `own_bytes`, which they take now, or 5 of 8 where memory is
    /// plenty: to be coded, a row takes about as long as all else that is done with it. The first ones are trained on these keys, and
    /// others where these keys are far from those.
    pub(super) fn shorter_than<'k>(
        &self,
        sample: impl Iterator<Item = &'k [u8]> + Clone,
        own_bytes: usize,
        memory_is_plenty: bool,
    ) -> Option<Arc<Symbols>> {
        let keys = sample.clone().count();
        let raw_bytes: usize = sample.clone().map(<[u8]>::len).sum();
        if !self.is_on || raw_bytes < keys * KEY_BYTES_MIN {
            return None;
        }
        let mut trained = lock(&self.trained);
        let coded = trained.newest.as_ref().map(|symbols| symbols.coded_bytes(sample.clone()));
        let is_far =
            coded.is_none_or(|coded| coded * trained.raw_bytes * 4 > trained.coded_bytes * raw_bytes * 5);
        let coded = match coded {
            Some(coded) if !is_far || trained.times == TRAININGS_MAX => coded,
            _ => {
                let symbols = Symbols::train(sample.clone());
                let coded_bytes = symbols.coded_bytes(sample.clone());
                let times = trained.times + 1;
                *trained = Trained { newest: Some(Arc::new(symbols)), times, raw_bytes, coded_bytes };
                coded_bytes
            }
        };
        // Keys of one length need none beside them now.
        let mut lengths = sample.map(<[u8]>::len);
        let first = lengths.next();
        let lengths_bytes = if lengths.all(|length| Some(length) == first) { keys } else { 0 };
        let eighths = if memory_is_plenty { 5 } else { 7 };
        trained.newest.clone().filter(|_| (coded + lengths_bytes) * 8 < own_bytes * eighths)
    }

    /// Bytes that it keeps, and leaves that have symbols of before.
    pub(super) fn memory_bytes(&self) -> usize {
        let trained = lock(&self.trained);
        trained.newest.as_ref().map_or(0, |symbols| symbols.memory_bytes()) * trained.times as usize
    }
}

fn boxed<const N: usize>(coded: Coded) -> Box<[Coded; N]> {
    // Not on the stack first.
    match vec![coded; N].into_boxed_slice().try_into() {
        Ok(boxed) => boxed,
        Err(_) => unreachable!("it has as many as were asked for"),
    }
}

/// The symbols that are worth most, by how many bytes of what was seen are theirs.
fn best_of(seen: &mut [Symbol]) -> Vec<Symbol> {
    seen.sort_unstable();
    let mut worth: Vec<(u32, Symbol)> = seen
        .chunk_by(|a, b| a == b)
        .map(|alike| {
            let each = if alike[0].bytes == 1 { BYTE_WORTH } else { alike[0].bytes.into() };
            (alike.len() as u32 * each, alike[0])
        })
        .filter(|&(worth, symbol)| worth > symbol.bytes.into())
        .collect();
    worth.sort_unstable_by(|a, b| b.cmp(a));
    worth.into_iter().map(|(_, symbol)| symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trained(keys: &[Vec<u8>]) -> Symbols {
        Symbols::train(keys.iter().map(|key| &key[..]))
    }

    fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![Just(0u8), Just(b'a'), Just(b'b'), Just(255), any::<u8>()];
        prop::collection::vec(prop::collection::vec(byte, 0..40), 0..40)
    }

    proptest! {
        #[test]
        fn keys_come_back_and_are_equal_as_their_codes_are(sample in keys(), keys in keys()) {
            let symbols = trained(&sample);
            prop_assert!(symbols.all.len() <= SYMBOLS_MAX);
            let coded: Vec<Vec<u8>> = keys.iter().map(|key| {
                let mut coded = Vec::new();
                symbols.encode(key, &mut coded);
                coded
            }).collect();
            for (key, coded) in keys.iter().zip(&coded) {
                let mut back = Vec::new();
                prop_assert!(symbols.decode(coded, &mut back));
                prop_assert_eq!(&back, key);
                prop_assert!(coded.len() <= 2 * key.len());
            }
            for (i, key) in keys.iter().enumerate() {
                for (j, other) in keys.iter().enumerate() {
                    prop_assert_eq!(key == other, coded[i] == coded[j]);
                }
            }
        }

        #[test]
        fn codes_of_no_key_are_refused(sample in keys(), coded: Vec<u8>) {
            let symbols = trained(&sample);
            let mut key = Vec::new();
            let is_whole = symbols.decode(&coded, &mut key);
            let mut rest = coded.iter();
            let mut expected = true;
            while let Some(&code) = rest.next() {
                expected &= if code == ESCAPE { rest.next().is_some() } else { usize::from(code) < symbols.all.len() };
            }
            prop_assert_eq!(is_whole, expected);
        }
    }

    #[test]
    fn what_is_shorter_by_symbols_is_told_by_a_sample() {
        let addresses: Vec<String> =
            (0..300).map(|i| format!("https://www.example.com/{}", i * 7919)).collect();
        let numbers: Vec<[u8; 16]> = (0..300u128)
            .map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes())
            .collect();
        let addresses = || addresses.iter().map(String::as_bytes);
        let numbers = || numbers.iter().map(|number| &number[..]);
        let raw_bytes: usize = addresses().map(<[u8]>::len).sum();
        for plenty in [false, true] {
            let shared = SharedSymbols::new(true);
            assert!(shared.shorter_than(addresses(), raw_bytes, plenty).is_some());
            assert!(
                shared.shorter_than(numbers(), 300 * 16, plenty).is_none(),
                "what is random stays as it is"
            );
            assert!(SharedSymbols::new(false).shorter_than(addresses(), raw_bytes, plenty).is_none());
            assert!(
                shared.shorter_than(addresses().map(|key| &key[..7]), 300 * 7, plenty).is_none(),
                "short keys are left alone"
            );
        }
        // Where memory is plenty, they have to be worth more.
        let shared = SharedSymbols::new(true);
        let sizes: Vec<usize> = (0..raw_bytes).collect();
        let least =
            |plenty| sizes.partition_point(|&own| shared.shorter_than(addresses(), own, plenty).is_none());
        let (plenty, scarce) = (least(true), least(false));
        assert_eq!((plenty - 1) * 5 / 8, (scarce - 1) * 7 / 8, "{plenty} and {scarce}");
    }

    #[test]
    fn addresses_take_less_than_half_of_their_bytes() {
        let keys: Vec<Vec<u8>> = (0..2000u64)
            .map(|i| {
                let place = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                format!("https://www.example.com/articles/{}/page?id={place}", i % 37).into_bytes()
            })
            .collect();
        let raw: usize = keys.iter().map(Vec::len).sum();
        let coded = trained(&keys[..500]).coded_bytes(keys.iter().map(|key| &key[..]));
        assert!(coded * 10 < raw * 4, "{coded} of {raw} bytes");
    }
}
