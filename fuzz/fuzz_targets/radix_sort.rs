//! libFuzzer's entry to the target `radix_sort`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::radix_sort::TARGET.call(data);
});
