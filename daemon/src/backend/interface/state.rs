//! Requests about the state, the values that functions share.

use crate::backend::{Failure, Pending};
use fnd_core::kv::{KvRefusal, KvRequest, KvResponse};

pub trait StateBackend {
    /// Answers a request about the state; a change is answered after it is on the disk.
    fn state(&self, ask: KvRequest) -> Pending<Result<Result<KvResponse, KvRefusal>, Failure>>;
}
