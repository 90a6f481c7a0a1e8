//! Fragments: what is encoded comes back, and nothing else is taken for it.

use super::super::fragment::{Compressor, Scratch};
use super::super::run::Run;
use super::*;
use proptest::prelude::*;

fn compressors() -> Vec<Compressor> {
    let mut all = Vec::new();
    for codes_columns in [false, true] {
        all.push(Compressor { codec: None, codes_columns });
        #[cfg(feature = "lz4")]
        all.push(Compressor { codec: Some(Box::new(Lz4Codec)), codes_columns });
        #[cfg(feature = "zstd")]
        all.push(Compressor { codec: Some(Box::<ZstdCodec>::default()), codes_columns });
    }
    all
}

fn run(mut hashes: Vec<u32>, sizes: &[usize]) -> Run {
    hashes.sort_unstable();
    let mut run = Run::default();
    for (i, hash) in hashes.into_iter().enumerate() {
        let object: Vec<u8> = (0..sizes[i % sizes.len()]).map(|j| (i * j % 11) as u8).collect();
        run.push(hash, &object).unwrap();
    }
    run
}

fn columns(run: &Run) -> (Vec<u32>, Vec<u32>, Vec<u8>) {
    (run.hashes.clone(), run.ends.clone(), run.payload.clone())
}

fn runs() -> impl Strategy<Value = Run> {
    let hashes = prop_oneof![
        prop::collection::vec(any::<u32>(), 1..600),
        prop::collection::vec(0u32..50, 1..300),
        prop::collection::vec(prop::sample::select(&[0, u32::MAX]), 1..300),
    ];
    (hashes, prop::collection::vec(0usize..40, 1..8)).prop_map(|(hashes, sizes)| run(hashes, &sizes))
}

proptest! {
    #[test]
    fn runs_come_back(run in runs(), cut in 0f64..1.0) {
        let mut scratch = Scratch::default();
        let cut = (run.len() as f64 * cut) as usize;
        for compressor in compressors() {
            let mut back = Run::default();
            for part in [0..cut, cut..run.len()] {
                if !part.is_empty() {
                    let fragment = compressor.encode(&run, part.clone(), &mut scratch);
                    prop_assert_eq!(fragment.raw_bytes, run.raw_bytes(&part));
                    prop_assert_eq!((fragment.first_hash, fragment.last_hash), (run.hashes[part.start], run.hashes[part.end - 1]));
                    compressor.decode(&fragment.bytes, &mut back, &mut scratch).unwrap();
                }
            }
            prop_assert_eq!(columns(&back), columns(&run));
        }
    }

    #[test]
    fn a_changed_byte_is_an_error(run in runs(), at: prop::sample::Index, flip in 1u8..) {
        let mut scratch = Scratch::default();
        for compressor in compressors() {
            let mut bytes = compressor.encode(&run, 0..run.len(), &mut scratch).bytes.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(compressor.decode(&bytes, &mut Run::default(), &mut scratch).is_err());
            prop_assert!(compressor.decode(&bytes[..at], &mut Run::default(), &mut scratch).is_err());
        }
    }

    /// Bytes with a right checksum: refused, or some run.
    #[test]
    fn forged_bytes_are_refused_or_a_run(
        run in runs(),
        form in 0u8..5,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        numbers in prop::collection::vec(prop::option::weighted(0.2, 0u32..70_000), 4),
    ) {
        let mut scratch = Scratch::default();
        for compressor in compressors() {
            let mut bytes = compressor.encode(&run, 0..run.len(), &mut scratch).bytes.to_vec();
            for (at, byte) in &flips {
                let at = 24 + at.index(bytes.len() - 23);
                if let Some(place) = bytes.get_mut(at) {
                    *place = *byte;
                }
            }
            if form < 4 {
                bytes[4] = form;
            }
            for (i, number) in numbers.iter().enumerate() {
                if let Some(number) = number {
                    bytes[8 + 4 * i..12 + 4 * i].copy_from_slice(&number.to_le_bytes());
                }
            }
            let checksum = crc32c::crc32c(&bytes[4..]);
            bytes[..4].copy_from_slice(&checksum.to_le_bytes());
            let mut back = self::run(vec![3], &[5]);
            if compressor.decode(&bytes, &mut back, &mut scratch).is_ok() {
                prop_assert_eq!(back.hashes.len(), back.ends.len());
                prop_assert_eq!(back.ends.last().map(|&end| end as usize), Some(back.payload.len()));
                prop_assert!(back.hashes[1..].is_sorted() && back.ends.is_sorted());
            }
        }
    }
}

/// The bytes of a fragment, so that a change of the form is seen.
#[test]
fn the_form_is_this_one() {
    let run = run(vec![5, 5, 9, 1 << 31], &[2, 2, 0, 3]);
    let compressor = Compressor { codec: None, codes_columns: true };
    let fragment = compressor.encode(&run, 0..4, &mut Scratch::default());
    let hex: String = fragment.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let columns = ["050004f7ffffff07", "020200010301", "00000001000306"].concat();
    assert_eq!(hex, format!("cf14f53a0100000004000000080000000600000007000000{columns}"));
    assert_eq!((fragment.objects, fragment.raw_bytes), (4, 4 * 8 + 7));
}
