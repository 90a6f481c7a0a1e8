//! libFuzzer's entry to the target `hash_rank`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::hash_rank::TARGET.call(data);
});
