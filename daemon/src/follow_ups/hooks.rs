//! The calls of hooks after the end of an invocation.

use super::FollowUpCall;
use crate::ledger::LedgerCommand;
use crate::settings::NOT_OPERATED;
use fnd_core::records::cause::{Cause, DEPTH_MAX, HookCause};
use fnd_core::records::outcome::{RunState, Skip, Trigger};
use fnd_core::records::{InvocationRecord, Payload};
use fnd_core::report::FunctionNews;
use fnd_core::triggers::hooks::{due, payload::payload};
use fnd_manifest::function::Hooks;
use fnd_wire::ids::FunctionName;

/// The consequences of a final record.
#[derive(Default)]
pub(crate) struct AfterEnd {
    /// The marks of failed hooks, which are stored first.
    pub(crate) marks: Vec<LedgerCommand>,
    pub(crate) calls: Vec<FollowUpCall>,
    /// News about calls that the author of the function may not make.
    pub(crate) news: Vec<FunctionNews>,
}

/// Returns what follows a final record. `first` is the payload that led to the record, and `output` has the last lines that the
/// function printed. `hooks` is absent if the function does not serve or its hooks are off. `may_call` says whether the hooks may
/// call a certain function.
pub(crate) fn after_end(
    (record, first, output): (&InvocationRecord, &Payload, &str),
    hooks: Option<&Hooks>,
    may_call: impl Fn(&FunctionName) -> bool,
) -> AfterEnd {
    let mut after = AfterEnd::default();
    let cause = first.cause.as_deref();
    if record.state.is_failure() || record.state == RunState::Skipped {
        after
            .marks
            .extend(cause.and_then(Cause::marks).map(LedgerCommand::HookFailed));
    }
    let depth = cause.map_or(0, Cause::depth);
    let due = hooks.map_or_else(Vec::new, |hooks| due(hooks, record, depth));
    if due.is_empty() {
        return after;
    }
    let function = &record.function;
    let data = payload(record, output, first.data.as_ref());
    for due in due {
        // No record: that would be one of a function which is not the author's.
        if !may_call(&due.function) {
            let text = format!("its hook does not call `{}`: {NOT_OPERATED}", due.function);
            after.news.push(FunctionNews::Warning(text));
            after
                .marks
                .extend(due.marks.then_some(LedgerCommand::HookFailed(record.id)));
            continue;
        }
        let cause = HookCause {
            invocation: record.id,
            function: function.clone(),
            depth: due.depth,
            marks: due.marks,
        };
        let mut call = FollowUpCall::new(due.function, Trigger::Hook, data.clone(), Cause::Hook(cause));
        call.payload.trace.clone_from(&first.trace);
        if due.too_deep {
            let message = format!("the chain of hooks ends after {DEPTH_MAX} calls");
            call.skip = Some((Skip::Depth, message));
        }
        after.calls.push(call);
    }
    after
}
