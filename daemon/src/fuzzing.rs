//! Gives `tests/fuzz` access to private code. Only a build for the fuzzer has this module.

pub use crate::ledger::fuzzing::{in_flight, slots};
pub use crate::output::fuzzing::spool;
pub use crate::start::fuzzing::control_socket;
pub use crate::workers::adoption::fuzzing::adoption_record;
