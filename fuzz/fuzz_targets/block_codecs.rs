//! libFuzzer's entry to the target `block_codecs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::block_codecs::TARGET.call(data);
});
