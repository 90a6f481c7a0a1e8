//! libFuzzer's entry to the target `elias_fano`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::elias_fano::TARGET.call(data);
});
