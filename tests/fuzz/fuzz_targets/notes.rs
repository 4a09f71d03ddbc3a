//! Any bytes as the adoption record of a worker: the worker is adopted or killed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fnd_daemon::fuzzing::adoption_record(bytes));
