//! Doors for `tests/fuzz` to what is private. Only a build for the fuzzer has them.

pub use crate::ledger::fuzzing::{in_flight, slots};
pub use crate::takeover::fuzzing::note;
pub use crate::workers::output::fuzzing::spool;
