//! libFuzzer's entry to the target `ddsketch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::ddsketch::TARGET.call(data);
});
