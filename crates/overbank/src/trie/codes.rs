//! The codes of a left side's size, given the size of the trie.

use std::sync::OnceLock;

/// The most keys of a trie whose counts can be Huffman coded.
pub(crate) const HUFFMAN_KEYS_MAX: u32 = 128;

/// Bits that one look into a table of symbols decodes; 98 of 100 symbols of a trie of 64 keys are not longer.
const SYMBOL_BITS: u32 = 7;
const SYMBOLS: usize = 1 << SYMBOL_BITS;

/// Tries of so many keys at most are passed over by one look into a table, where they take no more than so many bits: nine in ten.
const SKIPPED_KEYS_MAX: u32 = 6;
const SKIPPED_BITS: u32 = 11;

/// A code, first bit lowest.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Code {
    pub(super) bits: u64,
    pub(super) width: u32,
}

/// All codes for tries up to `huffman_keys_max`, and the tables that decode them.
///
/// Symbol 0 stands for all keys on one side, symbol `s` for `s` keys on the left.
pub(super) struct Codes {
    huffman_keys_max: u32,
    contexts: Vec<Context>,
    /// For each size and each start of a code: symbol, and width in the upper byte; 0 where the code is longer.
    symbols: Vec<u16>,
    /// For each size up to [`SKIPPED_KEYS_MAX`] and each start of a trie: its bits, 0 where it goes on.
    skips: Vec<u8>,
}

/// The code for tries of one size.
struct Context {
    codes: Vec<Code>,
    /// The symbols, by code width and then by number.
    ordered: Vec<u16>,
    /// For each width: the first code, highest bit first; where its symbol stands in `ordered`; how many there are.
    widths: Vec<(u64, u32, u32)>,
}

impl Codes {
    /// The codes for Huffman codes up to `huffman_keys_max` keys, 1 (none) to [`HUFFMAN_KEYS_MAX`]; made once in a process.
    pub(super) fn of(huffman_keys_max: u32) -> &'static Self {
        static MADE: [OnceLock<Codes>; HUFFMAN_KEYS_MAX as usize + 1] =
            [const { OnceLock::new() }; HUFFMAN_KEYS_MAX as usize + 1];
        MADE[huffman_keys_max as usize].get_or_init(|| Self::new(huffman_keys_max))
    }

    fn new(huffman_keys_max: u32) -> Self {
        let contexts: Vec<Context> =
            (0..=huffman_keys_max).map(|keys| Context::new(&weights(keys))).collect();
        let symbols = contexts.iter().flat_map(Context::table).collect();
        let mut codes = Self { huffman_keys_max, contexts, symbols, skips: Vec::new() };
        codes.skips = (0..=SKIPPED_KEYS_MAX)
            .flat_map(|keys| (0..1u64 << SKIPPED_BITS).map(move |start| (keys, start)))
            .map(|(keys, start)| codes.whole(keys, start, SKIPPED_BITS).map_or(0, |bits| bits as u8))
            .collect();
        codes
    }

    /// The code of `left` keys on the left of `keys`, in two parts: keys are on both sides, or `left` is 0.
    #[inline]
    pub(super) fn encode(&self, keys: u32, left: u32) -> (Code, Code) {
        if keys <= self.huffman_keys_max {
            return (self.contexts[keys as usize].codes[left as usize], Code::default());
        }
        // Elias-gamma: as many zeros as bits follow the first one.
        let number = super::zigzag(i64::from(left) - i64::from(keys / 2)) + 1;
        let width = number.ilog2();
        (Code { bits: 1 << width, width: width + 1 }, Code { bits: number & ((1 << width) - 1), width })
    }

    /// The symbol that `bits` begin with in a trie of `keys` keys, at least 2, and the width of its code. The symbol is below `keys` where
    /// the bits are a trie's.
    #[inline(always)]
    pub(super) fn decode(&self, keys: u32, bits: u64) -> (u32, u32) {
        if keys <= self.huffman_keys_max {
            let entry = self.symbols[keys as usize * SYMBOLS + (bits as usize & (SYMBOLS - 1))];
            if entry != 0 {
                return (u32::from(entry & 0xff), u32::from(entry >> 8));
            }
            return self.contexts[keys as usize].decode_wide(bits);
        }
        let width = bits.trailing_zeros();
        if width >= 28 {
            // No count of 32 bits is so far from the half that fits the bits that were read; `check` refuses this.
            return (u32::MAX, 2 * width + 1);
        }
        let number = bits >> (width + 1) & ((1 << width) - 1) | 1 << width;
        let left = super::unzigzag(number - 1) + i64::from(keys / 2);
        (u32::try_from(left).unwrap_or(u32::MAX), 2 * width + 1)
    }

    /// How many bits a whole trie of `keys` keys takes that `bits` begin with, if a table knows.
    #[inline(always)]
    pub(super) fn skip(&self, keys: u32, bits: u64) -> Option<u32> {
        if keys > SKIPPED_KEYS_MAX {
            return None;
        }
        let start = bits as usize & ((1 << SKIPPED_BITS) - 1);
        match self.skips[(keys as usize) << SKIPPED_BITS | start] {
            0 => None,
            width => Some(u32::from(width)),
        }
    }

    /// The bits of a trie that lies within the first `width` of `bits`.
    fn whole(&self, keys: u32, bits: u64, width: u32) -> Option<u32> {
        if keys < 2 {
            return Some(0);
        }
        // Beyond the Huffman codes nothing is so short that a table would help.
        if keys > self.huffman_keys_max {
            return None;
        }
        let (left, code) = self.decode(keys, bits);
        let mut taken = code;
        for keys in if left == 0 { [keys, 0] } else { [left, keys - left] } {
            let rest = width.checked_sub(taken)?;
            taken += self.whole(keys, bits >> taken, rest)?;
        }
        (taken <= width).then_some(taken)
    }
}

impl Context {
    fn new(weights: &[u64]) -> Self {
        let lengths = code_widths(weights);
        let widest = lengths.iter().copied().max().unwrap_or(0);
        let mut ordered: Vec<u16> = (0..lengths.len() as u16).collect();
        ordered.sort_by_key(|symbol| (lengths[usize::from(*symbol)], *symbol));
        let mut codes = vec![Code::default(); lengths.len()];
        let mut widths = vec![(0, 0, 0); widest as usize + 1];
        let (mut next, mut last) = (0u64, 0);
        for (place, symbol) in ordered.iter().enumerate() {
            let width = lengths[usize::from(*symbol)];
            if width != last {
                next <<= width - last;
                widths[width as usize] = (next, place as u32, 0);
                last = width;
            }
            widths[width as usize].2 += 1;
            codes[usize::from(*symbol)] = Code { bits: next.reverse_bits() >> (64 - width), width };
            next += 1;
        }
        Self { codes, ordered, widths }
    }

    /// What the first [`SYMBOL_BITS`] bits say.
    fn table(&self) -> Vec<u16> {
        let mut table = vec![0; SYMBOLS];
        for (symbol, code) in self.codes.iter().enumerate().filter(|(_, code)| code.width <= SYMBOL_BITS) {
            for entry in table.iter_mut().skip(code.bits as usize).step_by(1 << code.width) {
                *entry = symbol as u16 | (code.width as u16) << 8;
            }
        }
        table
    }

    /// A symbol whose code the table has not. Huffman codes are complete, so one is always found.
    #[cold]
    #[inline(never)]
    fn decode_wide(&self, bits: u64) -> (u32, u32) {
        let highest_first = bits.reverse_bits();
        for (width, (first, place, count)) in (0..).zip(&self.widths).skip(SYMBOL_BITS as usize + 1) {
            let code = highest_first >> (64 - width);
            if code >= *first && code - first < u64::from(*count) {
                return (u32::from(self.ordered[*place as usize + (code - first) as usize]), width);
            }
        }
        (0, self.widths.len() as u32)
    }
}

/// How often each count is on the left of `keys` keys, of 2^30 or, of fewer than 30 keys, of `2^keys`; at least once.
pub(super) fn weights(keys: u32) -> Vec<u64> {
    let shift = keys.saturating_sub(30);
    let mut binomial = 1u128;
    let mut weights = Vec::with_capacity(keys as usize);
    // Sizes 0 and 1 have no code; that of 2 keeps the tables' places.
    for left in 0..keys.max(2) {
        // None on the left, and all: one symbol.
        let weight = if left == 0 { 2 } else { binomial };
        weights.push(((weight >> shift) as u64).max(1));
        // Divided first: the product may be more than 128 bits hold.
        let (factor, divisor) = (u128::from(keys.max(2) - left), u128::from(left + 1));
        binomial = binomial / divisor * factor + binomial % divisor * factor / divisor;
    }
    weights
}

/// The widths of a Huffman code; of equal weights the lower symbol is joined first, and a symbol before a joined pair.
fn code_widths(weights: &[u64]) -> Vec<u32> {
    let symbols = weights.len();
    let mut ordered: Vec<usize> = (0..symbols).collect();
    ordered.sort_by_key(|symbol| (weights[*symbol], *symbol));
    let mut nodes: Vec<u64> = ordered.iter().map(|symbol| weights[*symbol]).collect();
    let mut parents = vec![0; 2 * symbols - 1];
    let (mut next_symbol, mut next_pair) = (0, symbols);
    while nodes.len() < 2 * symbols - 1 {
        let pair = nodes.len();
        let mut weight = 0;
        for _ in 0..2 {
            let is_symbol =
                next_symbol < symbols && (next_pair == pair || nodes[next_symbol] <= nodes[next_pair]);
            let least = if is_symbol { &mut next_symbol } else { &mut next_pair };
            parents[*least] = pair;
            weight += nodes[*least];
            *least += 1;
        }
        nodes.push(weight);
    }
    let mut depths = vec![0; nodes.len()];
    for node in (0..nodes.len() - 1).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    let mut widths = vec![0; symbols];
    for (place, symbol) in ordered.into_iter().enumerate() {
        widths[symbol] = depths[place];
    }
    widths
}
