//! libFuzzer's entry to the target `coco`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::coco::TARGET.call(data);
});
