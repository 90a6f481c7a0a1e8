//! What a process held before does not count as grown. A test alone in its process: the peak is the process's, and is forgotten.

use overbank_bench::Holdings;

#[test]
fn what_was_held_before_does_not_count_as_grown() {
    let before = std::hint::black_box(vec![1u8; 64 << 20]);
    let holdings = Holdings::now();
    let touched = std::hint::black_box(vec![1u8; 16 << 20]);
    let grown = holdings.grown_bytes();
    assert!(grown >= 16 << 20, "{grown} bytes");
    drop((before, touched));
}
