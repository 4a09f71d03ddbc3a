//! Requests about the state, the values that functions share.

use super::Control;
use crate::control::backend::{Failure, Pending, StateBackend};
use fnd_core::kv::{KvRefusal, KvRequest, KvResponse};

impl StateBackend for Control {
    fn state(&self, ask: KvRequest) -> Pending<Result<Result<KvResponse, KvRefusal>, Failure>> {
        let asked = self.state.ask(ask);
        Box::pin(async move { asked.await.map_err(Failure) })
    }
}
