//! Bytes from nowhere, as `tiffany_sim::fuzzing::request` takes them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tiffany_sim::fuzzing::request(bytes));
