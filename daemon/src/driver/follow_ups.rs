//! Makes the calls that follow the end of an invocation: those of hooks and of alerts. The calls are stored in one
//! transaction with the record, so after a kill of fnd both are there or neither is.
//!
//! Core decides which functions are called and with which payload. An end is *late* if not all functions are known yet,
//! or if an earlier fnd was killed before it decided. The ledger remembers a late end until the first scan is over.

use super::Driver;
use crate::ledger::{LedgerCommand, Unfollowed};
use crate::settings::NOT_OPERATED;
use fnd_core::data::Data;
use fnd_core::records::cause::{Cause, DEPTH_MAX, HookCause};
use fnd_core::records::outcome::{Reason, RunState as InvocationState, Skip, Trigger};
use fnd_core::records::{InvocationRecord, Payload};
use fnd_core::report::ReportEvent;
use fnd_core::run::{Event, Rejection, skip_words};
use fnd_core::trace::Trace;
use fnd_core::triggers::hooks::{self, payload::payload};
use fnd_wire::ids::FunctionName;
use std::sync::Arc;

/// A call to make.
pub(super) struct FollowUpCall {
    pub(super) function: FunctionName,
    pub(super) trigger: Trigger,
    pub(super) data: Vec<u8>,
    pub(super) cause: Cause,
    pub(super) trace: Option<Trace>,
    /// Why the call is only recorded and does not run.
    pub(super) skip: Option<(Skip, String)>,
    /// Whether the call begins without waiting for the disk. Then a restart may repeat the call.
    pub(super) at_once: bool,
}

/// A call that was submitted.
#[derive(Default)]
pub(super) struct Called {
    /// The commands to store: the accepted invocation, or the record of a skipped one.
    pub(super) parts: Vec<LedgerCommand>,
    /// Why it was skipped.
    pub(super) refused: Option<String>,
}

impl Driver {
    /// Stores the record of an end together with [the calls that follow](Self::after_end).
    pub(super) fn store_end(&mut self, end: LedgerCommand, mut parts: Vec<LedgerCommand>) {
        if parts.is_empty() {
            return self.records.store(end);
        }
        // The end comes first: by the first part the ledger decides whether the transaction has to be synced at once.
        parts.insert(0, end);
        self.store_together(parts);
    }

    /// Stores commands in one transaction. If the ledger has no room for them, the calls among them do not begin: the end is
    /// stored without them, and the next fnd makes them.
    pub(super) fn store_together(&mut self, parts: Vec<LedgerCommand>) {
        let Err(LedgerCommand::Together(parts)) = self.records.ledger.submit(LedgerCommand::Together(parts)) else {
            return;
        };
        let mut kept = Vec::new();
        for part in parts {
            match part {
                LedgerCommand::Store(accepted) => {
                    tracing::error!(
                        "the call of `{}` waits for the next start of fnd: the ledger has no room for it",
                        accepted.function
                    );
                    self.turn.follow_up.push_back(Event::StoreFailed(accepted.id));
                }
                LedgerCommand::Record(_, ref record) | LedgerCommand::Update(ref record) => {
                    let id = record.id;
                    kept.extend([part, LedgerCommand::FollowLater(id)]);
                }
                // The state of alerts, and the removal of an id from `unfollowed`, are true only together with the calls:
                // without the calls they are dropped, and the next fnd decides again.
                _ => {}
            }
        }
        if !kept.is_empty() {
            self.records.store(LedgerCommand::Together(kept));
        }
    }

    /// Returns the commands to store with a record, if it is final. `output` has the last lines that the function
    /// printed.
    pub(super) fn after_end(&mut self, record: &InvocationRecord, output: &str) -> Vec<LedgerCommand> {
        if !record.state.is_final() {
            return Vec::new();
        }
        let payload = self.follow_ups.payloads.remove(&record.id);
        if self.supervisor.has_scanned() {
            return self.follow(record, payload.as_ref(), output);
        }
        // The functions to call may exist but not be installed yet.
        let end = Unfollowed {
            record: record.clone(),
            payload: payload.unwrap_or_default(),
        };
        self.follow_ups.late.push((end, output.to_owned()));
        vec![LedgerCommand::FollowLater(record.id)]
    }

    /// Makes the calls for the ends that came before all functions were known.
    pub(super) fn follow_late(&mut self) {
        for (Unfollowed { record, payload }, output) in std::mem::take(&mut self.follow_ups.late) {
            let mut parts = self.follow(&record, Some(&payload), &output);
            // One transaction has the calls and this removal: a kill of fnd neither repeats a call nor loses one.
            parts.push(LedgerCommand::Followed(record.id));
            self.store_together(parts);
        }
    }

    /// Returns the commands that follow from a final record. If there is no payload, the function has no hooks.
    fn follow(&mut self, record: &InvocationRecord, payload: Option<&Payload>, output: &str) -> Vec<LedgerCommand> {
        let mut parts = Vec::new();
        if let Some(payload) = payload {
            let is_bad = record.state.is_failure() || record.state == InvocationState::Skipped;
            let marked = payload.cause.as_ref().and_then(|cause| cause.marks());
            parts.extend(marked.filter(|_| is_bad).map(LedgerCommand::HookFailed));
            parts.extend(self.call_hooks(record, payload, output));
        }
        parts.extend(self.after_end_alerts(record, output));
        parts
    }

    fn call_hooks(&mut self, record: &InvocationRecord, first: &Payload, output: &str) -> Vec<LedgerCommand> {
        let function = &record.function;
        let Some(manifest) = self
            .serving(function)
            .map(|serving| Arc::new(serving.manifest.hooks.clone()))
        else {
            return Vec::new();
        };
        if manifest.is_empty() || self.lifecycle.are_hooks_off(function) {
            return Vec::new();
        }
        let depth = first.cause.as_ref().map_or(0, |cause| cause.depth());
        let due = hooks::due(&manifest, record, depth);
        if due.is_empty() {
            return Vec::new();
        }
        let data = payload(record, output, first.data.as_ref());
        let (due, refused): (Vec<_>, Vec<_>) = due.into_iter().partition(|due| self.may_call(function, &due.function));
        // No record: that would be one of a function which is not the author's.
        let refused = refused.into_iter().filter_map(|due| {
            tracing::warn!("{function}  its hook does not call `{}`: {NOT_OPERATED}", due.function);
            due.marks.then_some(LedgerCommand::HookFailed(record.id))
        });
        let refused: Vec<LedgerCommand> = refused.collect();
        let calls = due.into_iter().map(|due| {
            let too_deep = || {
                let message = format!("the chain of hooks ends after {DEPTH_MAX} calls");
                (Skip::Depth, message)
            };
            FollowUpCall {
                function: due.function,
                trigger: Trigger::Hook,
                data: data.clone(),
                cause: Cause::Hook(HookCause {
                    invocation: record.id,
                    function: function.clone(),
                    depth: due.depth,
                    marks: due.marks,
                }),
                trace: first.trace.clone(),
                skip: due.too_deep.then(too_deep),
                at_once: false,
            }
        });
        let calls = calls
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|call| self.call(call).parts);
        refused.into_iter().chain(calls).collect()
    }

    pub(super) fn may_call(&self, function: &FunctionName, called: &FunctionName) -> bool {
        self.node.settings.may_call(&self.lifecycle, function, called)
    }

    pub(super) fn call(&mut self, call: FollowUpCall) -> Called {
        let mut submit = self.new_submit(call.function, call.trigger);
        let now = self.clock.now();
        let marks = call.cause.marks();
        // An invocation with a waiting caller is not durable, so it begins without the disk.
        submit.wait = call.at_once;
        submit.payload = Payload {
            data: Some(self.callers.buffers.hold(&Data::from(call.data))),
            content_type: Some("application/json".to_owned()),
            trace: call.trace,
            cause: Some(Arc::new(call.cause)),
            ..Payload::default()
        };
        let refused = call
            .skip
            .or_else(|| Some(words(&submit.function, self.supervisor.refusal(now, &submit)?)));
        // The record of a refused call is made here and not by the supervisor: it belongs to the transaction of the
        // end.
        if let Some((skip, message)) = refused {
            if skip == Skip::Quota {
                self.quota_refused(&submit.function);
            }
            let record = InvocationRecord {
                id: submit.id,
                function: submit.function,
                trigger: submit.trigger,
                durable: true,
                state: InvocationState::Skipped,
                accepted_ms: now.unix_ms,
                started_ms: None,
                ended_ms: Some(now.unix_ms),
                attempts: 0,
                polls: 0,
                reason: Some(Reason::Skipped(skip)),
                message,
                exhausted: None,
                next_attempt_ms: None,
                version: None,
                result: None,
            };
            self.report(ReportEvent::EndedWaiting(&record));
            self.report(ReportEvent::InvocationEnded(&record));
            let refused = Some(record.message.clone());
            let marked = marks.map(LedgerCommand::HookFailed);
            let parts = std::iter::once(LedgerCommand::Update(Box::new(record)));
            return Called {
                parts: parts.chain(marked).collect(),
                refused,
            };
        }
        Called {
            parts: self.submit_together(submit),
            refused: None,
        }
    }
}

/// Returns why a function cannot be called: the reason for the skipped record, and the message.
fn words(function: &FunctionName, rejection: Rejection) -> (Skip, String) {
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
        // A call that fnd itself makes has no idempotency key.
        Rejection::KeyReused => (Skip::Invalid, rejection.words(function)),
        // Only calls of functions have such a chain.
        Rejection::Chain(refusal) => (Skip::Depth, refusal.words(function)),
    }
}
