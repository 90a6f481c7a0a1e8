//! libFuzzer's entry to the target `frequency_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::frequency_image::TARGET.call(data);
});
