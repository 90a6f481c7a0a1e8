//! libFuzzer's entry to the target `store_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::store_image::TARGET.call(data);
});
