//! Gives `tests/fuzz` access to private code. Only a build for the fuzzer has this module.

pub use crate::ledger::fuzzing::{in_flight, slots};
pub use crate::takeover::fuzzing::adoption_record;
pub use crate::workers::output::fuzzing::spool;
