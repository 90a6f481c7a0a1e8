//! libFuzzer's entry to the target `memory_device`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    overbank_fuzz::targets::memory_device::TARGET.call(data);
});
