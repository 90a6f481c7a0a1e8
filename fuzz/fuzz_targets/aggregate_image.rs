//! libFuzzer's entry to the target `aggregate_image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::aggregate_image::TARGET.call(data);
});
