//! Expected bits of a trie, from the distribution of its keys: figures 3 and 6.

use super::plain::{Codes, weights};

/// Bits of a trie of each number of keys up to `keys`, whose counts are coded by `width`: dense where a block has one item, and else the
/// average over all places at which the trie may begin in a block.
pub(super) fn bits(keys: u64, block_items: u64, width: impl Fn(u64, u64) -> f64) -> Vec<f64> {
    let blocks = block_items as usize;
    // By keys, then by place in a block of the first.
    let mut bits: Vec<Vec<f64>> = vec![vec![0.0; blocks]; 2];
    for count in 2..=keys {
        let weights = weights(count);
        let widths: Vec<f64> = (0..count).map(|left| width(count, left)).collect();
        let of_codes: f64 = weights.iter().zip(&widths).map(|(weight, width)| weight * width).sum();
        let row = (0..block_items).map(|first| {
            if first + count <= block_items {
                return 0.0;
            }
            let of_sides: f64 = (1..count)
                .map(|left| {
                    let behind = ((first + left) % block_items) as usize;
                    weights[left as usize]
                        * (bits[left as usize][first as usize] + bits[(count - left) as usize][behind])
                })
                .sum();
            // Where all keys are on one side, the same trie follows once more.
            (of_codes + of_sides) / (1.0 - weights[0])
        });
        let row = row.collect();
        bits.push(row);
    }
    bits.iter().map(|row| row.iter().sum::<f64>() / block_items as f64).collect()
}

/// The width of a code in these codes.
pub(super) fn of_codes(codes: &Codes) -> impl Fn(u64, u64) -> f64 {
    |keys, left| codes.width(keys, left).into()
}

/// The width that a symbol is worth.
pub(super) fn of_entropy(keys: u64, left: u64) -> f64 {
    -weights(keys)[left as usize].max(f64::MIN_POSITIVE).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_part_after_two_codes_of_a_bit() {
        let codes = Codes::new(64);
        let dense = bits(300, 1, of_codes(&codes));
        assert!((dense[2] - 2.0).abs() < 1e-9, "{} bits", dense[2]);
        assert!((2.3..2.55).contains(&(dense[256] / 256.0)), "{} bits a key", dense[256] / 256.0);
        assert!(bits(256, 1, of_entropy)[256] < dense[256]);
        let sparse = bits(256, 8, of_codes(&codes));
        assert!((1.1..1.2).contains(&(sparse[256] / 256.0)), "{} bits a key", sparse[256] / 256.0);
        assert_eq!(bits(8, 16, of_codes(&codes))[1], 0.0);
    }
}
