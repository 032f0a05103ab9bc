//! Bytes from nowhere, as `tiffany_daemon::fuzzing::config` takes them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tiffany_daemon::fuzzing::config(bytes));
