//! libFuzzer's entry to the target `hyperloglog`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::hyperloglog::TARGET.call(data);
});
