//! libFuzzer's entry to the target `quotient_filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::quotient_filter::TARGET.call(data);
});
