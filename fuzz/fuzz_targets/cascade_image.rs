//! libFuzzer's entry to the target `cascade_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::cascade_image::TARGET.call(data);
});
