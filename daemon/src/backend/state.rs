//! Requests about the state, the values that functions share.

use super::StateBackend;
use super::{DaemonBackend, Failure, Pending};
use fnd_core::kv::{KvRefusal, KvRequest, KvResponse};

impl StateBackend for DaemonBackend {
    fn state(&self, ask: KvRequest) -> Pending<Result<Result<KvResponse, KvRefusal>, Failure>> {
        let asked = self.state.ask(ask);
        Box::pin(async move { asked.await.map_err(Failure) })
    }
}
