//! Any bytes as what an earlier fnd left with the spawner about a worker: it is taken over, or killed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fnd_daemon::fuzzing::adoption_record(bytes));
