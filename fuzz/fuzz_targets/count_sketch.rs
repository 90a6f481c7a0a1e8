//! libFuzzer's entry to the target `count_sketch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::count_sketch::TARGET.call(data);
});
