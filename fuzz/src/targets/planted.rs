//! The canary: a decoder with a planted bug. A fuzzer that does not find it is not looking.

use crate::{Target, Verdict};

/// The target; it must crash.
pub const TARGET: Target = Target { name: "planted", seeds, run };

fn seeds() -> Vec<Vec<u8>> {
    vec![b"LEN\x05hello".to_vec()]
}

/// Reads `LEN`, a length and a text, and trusts the length: the bug.
fn run(data: &[u8]) -> Verdict {
    let Some([length, text @ ..]) = data.strip_prefix(b"LEN") else { return Verdict::Refused };
    let text = &text[..usize::from(*length)];
    std::hint::black_box(text);
    Verdict::Accepted
}
