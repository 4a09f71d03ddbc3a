//! The books about what follows the end of an invocation.

use crate::ledger::Unfollowed;
use fnd_core::records::Payload;
use fnd_core::triggers::alerts::{Alerts, NodeHealth};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::collections::HashMap;

/// Facts about ends that are about to be recorded, and the health of functions.
#[derive(Debug, Default)]
pub(crate) struct FollowUps {
    /// Payloads of invocations whose final record comes next.
    pub(crate) payloads: HashMap<InvocationId, Payload>,
    /// The last lines of workers that have ended, until their ends are recorded.
    pub(crate) outputs: HashMap<WorkerId, String>,
    /// Ends whose follow-up calls are not decided yet, each with the last lines of its output. Those of an earlier fnd have
    /// no lines.
    pub(crate) late: Vec<(Unfollowed, String)>,
    pub(crate) alerts: Alerts,
    pub(crate) node: NodeHealth,
}

impl FollowUps {
    /// Returns the state that an earlier fnd stored.
    pub(crate) fn new(late: Vec<Unfollowed>, alerts: Vec<(String, String)>, now_ms: u64) -> Self {
        let mut follow_ups = Self {
            late: late.into_iter().map(|end| (end, String::new())).collect(),
            ..Self::default()
        };
        for (about, health) in alerts {
            // A state that cannot be read is left out. The worst result is a second call about the same change.
            if about.is_empty() {
                follow_ups.node = serde_json::from_str(&health).unwrap_or_default();
                follow_ups.node.restored(now_ms);
            } else if let (Ok(function), Ok(health)) = (FunctionName::new(&about), serde_json::from_str(&health)) {
                follow_ups.alerts.restore(function, health);
            }
        }
        follow_ups
    }

    /// Keeps the payload of an invocation whose final record comes next.
    pub(crate) fn expect(&mut self, id: InvocationId, payload: Payload) {
        self.payloads.insert(id, payload);
    }
}
