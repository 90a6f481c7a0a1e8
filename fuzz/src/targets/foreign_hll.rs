//! HyperLogLog images of DataSketches and Redis: hostile bytes are refused, accepted ones answer, merge, and are written and read again.

use crate::{Target, Verdict};
use overbank::sketch::hyperloglog::foreign::{ForeignHyperLogLog, RegisterBits};

/// The target.
pub const TARGET: Target = Target { name: "foreign_hll", seeds, run };

const ALL_BITS: [RegisterBits; 3] = [RegisterBits::Four, RegisterBits::Six, RegisterBits::Eight];
/// A list of three coupons for 2^8 registers.
const LIST: &[u8] = b"\x02\x01\x07\x08\x03\x08\x03\x08\xcb\xd7\xc2\x04\x2b\xf2\xfb\x06\x86\x2f\xf9\x0d";
/// The same as a set that has four free places.
const SET: &[u8] = b"\x03\x01\x07\x08\x02\x00\x00\x05\x03\x00\x00\x00\xcb\xd7\xc2\x04\x2b\xf2\xfb\x06\x86\x2f\xf9\x0d\0\0\0\0";
/// Runs: 16,000 empty registers, three of rank 7, and the rest empty.
const SPARSE: &[u8] = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7e\x7f\x9a\x41\x7c";

fn seeds() -> Vec<Vec<u8>> {
    let list = ForeignHyperLogLog::from_datasketches(LIST).expect("a good image");
    let dense = ALL_BITS.map(|bits| list.to_datasketches(bits).expect("of this system"));
    let mut seeds = vec![LIST.to_vec(), SET.to_vec(), SPARSE.to_vec()];
    seeds.extend(dense);
    seeds
}

fn run(data: &[u8]) -> Verdict {
    let datasketches = ForeignHyperLogLog::from_datasketches(data).map(|sketch| {
        for bits in ALL_BITS {
            let image = sketch.to_datasketches(bits).expect("of this system");
            // Where all registers are beyond what 4 bits and any rank make, there is no such image.
            if let Ok(read) = ForeignHyperLogLog::from_datasketches(&image) {
                assert_eq!(read, sketch, "{bits:?}");
            } else {
                assert_eq!(bits, RegisterBits::Four, "what was written is not read");
            }
        }
        sketch
    });
    let redis = ForeignHyperLogLog::from_redis(data).inspect(|sketch| {
        let string = sketch.to_redis().expect("of this system");
        assert_eq!(&ForeignHyperLogLog::from_redis(&string).expect("its own string"), sketch);
    });
    let Ok(mut sketch) = datasketches.or(redis) else { return Verdict::Refused };
    let estimate = sketch.estimate();
    assert!(estimate >= 0.0, "{estimate}");
    let other = sketch.clone();
    sketch.merge(&other).expect("one system");
    assert_eq!(sketch, other, "a merge with itself changed it");
    Verdict::Accepted
}
