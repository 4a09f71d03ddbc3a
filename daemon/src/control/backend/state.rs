//! Requests about the state, the values that functions share.

use super::{Failure, Pending};
use fnd_core::state::{Ask, Refused, Told};

pub trait StateBackend {
    /// Answers a request about the state; a change is answered after it is on the disk.
    fn state(&self, ask: Ask) -> Pending<Result<Result<Told, Refused>, Failure>>;
}
