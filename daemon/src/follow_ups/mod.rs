//! Decides what follows the end of an invocation, and a change of the health of a function or of the node: which calls of
//! hooks and alerts are made, and which commands are stored with them. It submits and stores nothing: the driver does, in
//! one transaction.
//!
//! Core decides which functions are called and with which payload. An end is *late* if not all functions are known yet,
//! if the release of its function could not be installed since fnd started, or if an earlier fnd was killed before it decided. The
//! ledger remembers a late end until its hooks are known.
//!
//! Files:
//! - `alerts`: the changes of health, each with its call
//! - `hooks`: the calls that a manifest asks for after an end

mod alerts;
pub(crate) mod hooks;

#[cfg(test)]
mod tests;

pub(crate) use alerts::HealthChange;

use crate::ledger::{LedgerCommand, Unfollowed};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Reason, RunState, Skip, Trigger};
use fnd_core::records::{Accepted, InvocationRecord, Payload};
use fnd_core::run::{Rejection, Submit, skip_words};
use fnd_core::triggers::alerts::{Alerts, NodeHealth};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Facts about ends that are about to be recorded, and the health of functions.
#[derive(Debug, Default)]
pub(crate) struct FollowUps {
    /// Payloads of invocations whose final record comes next. Without one, the function has no hooks.
    pub(crate) payloads: BTreeMap<InvocationId, Payload>,
    /// The last lines of workers that have ended, until their ends are recorded.
    pub(crate) outputs: BTreeMap<WorkerId, String>,
    /// Ends whose follow-up calls are not decided yet, each with the last lines of its output. Those of an earlier fnd have
    /// no lines.
    pub(crate) late: Vec<(Unfollowed, String)>,
    pub(crate) alerts: Alerts,
    pub(crate) node: NodeHealth,
}

/// A call to make.
#[derive(Debug)]
pub(crate) struct FollowUpCall {
    pub(crate) function: FunctionName,
    pub(crate) trigger: Trigger,
    pub(crate) payload: Payload,
    /// Why the call is only recorded and does not run.
    pub(crate) skip: Option<(Skip, String)>,
    /// Whether the call begins without waiting for the disk. Then a restart may repeat the call.
    pub(crate) at_once: bool,
}

impl FollowUpCall {
    /// Returns a call that runs; `data` is JSON.
    fn new(function: FunctionName, trigger: Trigger, data: Vec<u8>, cause: Cause) -> Self {
        let payload = Payload {
            data: Some(data.into()),
            content_type: Some("application/json".into()),
            cause: Some(Arc::new(cause)),
            ..Payload::default()
        };
        Self {
            function,
            trigger,
            payload,
            skip: None,
            at_once: false,
        }
    }
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

    /// Keeps an end until all functions are known: those to call may exist but not be installed yet. Returns the command to
    /// store with the record.
    pub(crate) fn follow_later(
        &mut self,
        record: &InvocationRecord,
        payload: Option<Payload>,
        output: &str,
    ) -> LedgerCommand {
        let end = Unfollowed {
            record: record.clone(),
            payload: payload.unwrap_or_default(),
        };
        self.late.push((end, output.to_owned()));
        LedgerCommand::FollowLater(record.id)
    }
}

/// Returns why a function cannot be called: the reason for the skipped record, and the message.
pub(crate) fn words(function: &FunctionName, rejection: Rejection) -> (Skip, String) {
    match rejection {
        Rejection::NoSuchFunction => (Skip::Unknown, format!("there is no function `{function}`")),
        Rejection::Service => (
            Skip::Invalid,
            format!("`{function}` is a service, which runs by itself and takes no calls"),
        ),
        Rejection::Invalid { error } => (Skip::Invalid, format!("`{function}` cannot run: {error}")),
        Rejection::Unavailable { reason } => (Skip::Unknown, format!("`{function}` cannot be called: {reason}")),
        Rejection::Quota { .. } => (Skip::Quota, rejection.words(function)),
        Rejection::Skipped { skip, .. } => (skip, skip_words(skip, function)),
        // A call that fnd itself makes has no idempotency key. A run with an invalid payload is recorded, and not refused.
        Rejection::KeyReused | Rejection::Input(_) => (Skip::Invalid, rejection.words(function)),
        // Only calls of functions have such a chain.
        Rejection::Chain(refusal) => (Skip::Depth, refusal.words(function)),
    }
}

/// Returns the record of a refused call, and the command that marks the invocation which the call should have followed. The
/// supervisor does not make this record: it belongs to the transaction of the end.
pub(crate) fn refused(
    submit: Submit,
    now_ms: u64,
    (skip, message): (Skip, String),
) -> (Box<InvocationRecord>, Option<LedgerCommand>) {
    let mark = submit.payload.cause.as_deref().and_then(Cause::marks);
    let accepted = Accepted::new(submit.id, submit.function, submit.trigger, now_ms);
    let record = InvocationRecord {
        state: RunState::Skipped,
        ended_ms: Some(now_ms),
        reason: Some(Reason::Skipped(skip)),
        message,
        ..InvocationRecord::of(&accepted)
    };
    (Box::new(record), mark.map(LedgerCommand::HookFailed))
}

/// Parts the commands of a transaction for which the ledger has no room. Returns the ends, which are stored without the calls
/// that follow them, and these calls, which wait for the next start of fnd.
pub(crate) fn without_room(parts: Vec<LedgerCommand>) -> (Vec<LedgerCommand>, Vec<Accepted>) {
    let (mut kept, mut calls) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            LedgerCommand::Store(accepted) => calls.push(*accepted),
            LedgerCommand::Record(_, ref record) | LedgerCommand::Update(ref record) => {
                let id = record.id;
                kept.extend([part, LedgerCommand::FollowLater(id)]);
            }
            // The state of alerts, and the removal of an id from `unfollowed`, are true only together with the calls:
            // without the calls they are dropped, and the next fnd decides again.
            _ => {}
        }
    }
    (kept, calls)
}
