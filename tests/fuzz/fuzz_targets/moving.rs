//! Any bytes as a file that `fndctl import` reads, the first one the kind of file: what is made of it can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fnd_import::fuzzing::import(bytes));
