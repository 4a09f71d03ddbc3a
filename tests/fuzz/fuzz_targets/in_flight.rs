//! Any bytes as the table `in-flight`, and any slots with a right checksum: the readable slots go into the history,
//! twice with the same result.
#![no_main]

use fnd_daemon::fuzzing;
use fnd_fuzz::parts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::in_flight(bytes);
    let slots: Vec<&[u8]> = parts(bytes).collect();
    fuzzing::in_flight(&fuzzing::slots(&slots));
});
