//! Which functions need a person, and why.

use super::View;
use fnd_core::api::{Attention, AttentionView};
use fnd_core::instant;
use fnd_core::records::AttemptRecord;
use fnd_core::records::cause::AlertCondition;
use fnd_core::run::{FunctionState, FunctionView};

impl View<'_> {
    /// Returns why a function needs a person. A function that somebody has disabled needs none.
    pub(crate) fn attention(&self, view: &FunctionView<'_>) -> Option<Attention> {
        match view.state {
            FunctionState::Disabled => return None,
            FunctionState::Invalid => return Some(Attention::Invalid),
            FunctionState::CrashLooping => return Some(Attention::CrashLooping),
            FunctionState::Building | FunctionState::Ready | FunctionState::Running => {}
        }
        if self.error(view).is_some() {
            return Some(Attention::NotServing);
        }
        if failed(view).is_some() {
            return Some(Attention::Failed);
        }
        self.waits_for_approval(view).then_some(Attention::Canary)
    }

    /// Returns the function with the reason, since when, and the last words about it.
    pub(crate) fn attention_view(&self, view: &FunctionView<'_>, why: Attention) -> AttentionView {
        let last = view.last.map(|last| &last.attempt);
        let last_words = || last.map(|last| last.message.clone()).unwrap_or_default();
        let (message, since_ms) = match why {
            Attention::Failed => (last_words(), view.last.and_then(|last| last.failing_since_ms)),
            Attention::CrashLooping => (self.error(view).unwrap_or_else(last_words), view.bad_since_ms),
            Attention::Invalid | Attention::NotServing => (self.error(view).unwrap_or_default(), view.bad_since_ms),
            Attention::Canary => self.canary_words(view),
        };
        // The state of alerts outlives a restart, after which fnd finds the mistake anew.
        let known = condition(why).and_then(|condition| self.alerts.bad_since(view.name, condition));
        AttentionView {
            function: view.name.clone(),
            why,
            since: since_ms.into_iter().chain(known).min().map(instant::text),
            message,
            invocation: failed(view)
                .filter(|_| why == Attention::Failed)
                .map(|last| last.invocation),
        }
    }

    /// Returns why the newest content of a function does not serve.
    pub(super) fn error(&self, view: &FunctionView<'_>) -> Option<String> {
        let known = self.lifecycle.registry.get(view.name);
        let of_file = known.and_then(|function| function.findings.error.clone());
        of_file.or_else(|| view.error.as_deref().map(str::to_owned))
    }

    fn waits_for_approval(&self, view: &FunctionView<'_>) -> bool {
        // Few functions have a canary.
        view.canary.is_some()
            && self
                .lifecycle
                .releases
                .get(view.name)
                .and_then(|releases| releases.canary())
                .is_some_and(|canary| canary.promote_at_ms().is_none())
    }

    fn canary_words(&self, view: &FunctionView<'_>) -> (String, Option<u64>) {
        let counts = view.canary.map_or((0, 0), |counts| (counts.attempts, counts.failures));
        let releases = self.lifecycle.releases.get(view.name);
        let since_ms = releases.and_then(|releases| releases.canary()?.since_ms);
        (format!("{} attempts, {} failed", counts.0, counts.1), since_ms)
    }
}

/// Returns the last attempt if it failed.
fn failed<'a>(view: &FunctionView<'a>) -> Option<&'a AttemptRecord> {
    let last = view.last.map(|last| &last.attempt);
    last.filter(|attempt| attempt.is_failure())
}

/// Returns the condition of which an alert tells where a function needs a person for this reason.
fn condition(why: Attention) -> Option<AlertCondition> {
    match why {
        Attention::Failed => Some(AlertCondition::Failed),
        Attention::CrashLooping => Some(AlertCondition::CrashLooping),
        Attention::Invalid | Attention::NotServing => Some(AlertCondition::Invalid),
        Attention::Canary => None,
    }
}
