//! Any text as a request for the page: path, query, form and cookie are read without a panic, and open no session.
//!
//! The input is the path, a line end, the query, a line end, and the form.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fnd_web::fuzzing::request(&String::from_utf8_lossy(bytes));
});
