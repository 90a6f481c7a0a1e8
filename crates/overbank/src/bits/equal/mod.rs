//! Which of sixteen bytes are a given one.
//!
//! One file per instruction set, of the same shape: `equal`.

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
mod scalar;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

#[cfg(any(not(target_arch = "x86_64"), miri))]
use scalar as isa;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86_64 as isa;

/// Bit `i` is whether byte `i` is `wanted`.
#[inline(always)]
pub(crate) fn equal(bytes: &[u8; 16], wanted: u8) -> u16 {
    isa::equal(bytes, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_finds_what_a_loop_finds(bytes in prop::array::uniform16(prop_oneof![0u8..3, any::<u8>()]), wanted: u8) {
            for wanted in [wanted, 0, 1, 127, 128, 255] {
                let found = (0..16).filter(|&i| bytes[i] == wanted).fold(0, |found, i| found | 1 << i);
                prop_assert_eq!(equal(&bytes, wanted), found);
                prop_assert_eq!(scalar::equal(&bytes, wanted), found);
            }
        }
    }
}
