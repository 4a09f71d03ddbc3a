//! Requests about the state, the values that functions share.

use super::Control;
use crate::control::backend::{Failure, Pending, StateBackend};
use fnd_core::state::{Ask, Refused, Told};

impl StateBackend for Control {
    fn state(&self, ask: Ask) -> Pending<Result<Result<Told, Refused>, Failure>> {
        let asked = self.state.ask(ask);
        Box::pin(async move { asked.await.map_err(Failure) })
    }
}
