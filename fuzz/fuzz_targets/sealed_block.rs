//! libFuzzer's entry to the target `sealed_block`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::sealed_block::TARGET.call(data);
});
