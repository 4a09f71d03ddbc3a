//! Requests about the state, the values that functions share.

use super::{Backend, Failure};
use fnd_core::kv::{KvRefusal, KvRequest, KvResponse};

impl Backend {
    /// Answers a request about the state; a change is answered after it is on the disk.
    pub(crate) async fn state(&self, ask: KvRequest) -> Result<Result<KvResponse, KvRefusal>, Failure> {
        self.state.ask(ask).await.map_err(Failure)
    }
}
