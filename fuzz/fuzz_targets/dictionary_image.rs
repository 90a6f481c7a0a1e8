//! libFuzzer's entry to the target `dictionary_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::dictionary_image::TARGET.call(data);
});
