//! libFuzzer's entry to the target `aggregate_tail`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::aggregate_tail::TARGET.call(data);
});
