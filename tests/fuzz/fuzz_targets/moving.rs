//! Any text as a file that `fndctl import` reads, its first letter the kind of file: what is made of it can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| fndctl::fuzzing::import(text));
