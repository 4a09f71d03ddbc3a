//! Doors for `tests/fuzz` to what is private. Only a build for the fuzzer has them.

pub use crate::commands::restore::fuzzing::restore;
