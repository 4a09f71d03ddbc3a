//! Gives `tests/fuzz` access to private code. Only a build for the fuzzer has this module.

pub use crate::commands::restore::fuzzing::restore;
