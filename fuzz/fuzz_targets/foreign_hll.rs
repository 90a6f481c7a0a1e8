//! libFuzzer's entry to the target `foreign_hll`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::foreign_hll::TARGET.call(data);
});
