//! libFuzzer's entry to the target `filter_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::filter_block::TARGET.call(data);
});
