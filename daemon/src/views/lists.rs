//! Which functions a long list of the API has, and the pieces in which it is made. Between two pieces the thread serves others.
//!
//! The status of ten thousand functions takes longer than a call may wait; a piece takes a fraction of a millisecond.
//! Between two pieces everything may change, so a list does not show a single moment:
//!
//! - Names are in order, each at most once: a piece goes on after the last name of the piece before.
//! - A function that exists all the time is in the list. A function that appears or disappears meanwhile may be
//!   missing.
//! - Each function is as it is when its piece is made. Sums over a list may differ from the numbers of the node.

use super::View;
use fnd_core::access::Permissions;
use fnd_core::api::FunctionStatus;
use fnd_core::run::{FunctionState, FunctionView, Supervisor};
use fnd_wire::ids::FunctionName;

/// Which functions to list or watch. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FunctionFilter {
    pub(crate) function: Option<FunctionName>,
    /// Only functions with all of these labels, key and value.
    pub(crate) labels: Vec<(String, String)>,
    /// Only functions that the caller may view.
    pub(crate) reach: Permissions,
}

impl FunctionFilter {
    /// Returns whether a function matches. The labels of a function that is gone are unknown, so only its name counts.
    #[must_use]
    pub(crate) fn takes(&self, name: &FunctionName, now: Option<&FunctionStatus>) -> bool {
        let named = self.function.as_ref().is_none_or(|function| function == name);
        let labelled = |now: &FunctionStatus| {
            self.labels
                .iter()
                .all(|(key, value)| now.labels.get(key) == Some(value))
        };
        named && self.reach.views(name) && now.is_none_or(labelled)
    }
}

/// The word for functions that need a person, beside the words of [`FunctionState`].
pub(crate) const ATTENTION: &str = "attention";

/// The state that functions of a list have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListedState {
    Is(FunctionState),
    NeedsPerson,
}

impl ListedState {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            ATTENTION => Some(Self::NeedsPerson),
            word => FunctionState::parse(word).map(Self::Is),
        }
    }
}

/// Which of the functions that a filter takes a list has. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ListPart {
    /// Only functions whose names come after this one.
    pub(crate) after: Option<FunctionName>,
    /// Most functions.
    pub(crate) limit: Option<usize>,
    pub(crate) state: Option<ListedState>,
    /// Only functions with this text, in small letters, in their name, their runtime or a label.
    pub(crate) text: Option<String>,
}

impl ListPart {
    /// Returns whether a function has the state. No status of it is needed.
    pub(crate) fn has_state(&self, parts: &View<'_>, view: &FunctionView<'_>) -> bool {
        match self.state {
            None => true,
            Some(ListedState::Is(state)) => view.state == state,
            Some(ListedState::NeedsPerson) => parts.attention(view).is_some(),
        }
    }

    /// Returns whether a function has the text.
    #[must_use]
    pub(crate) fn has_text(&self, now: &FunctionStatus) -> bool {
        let Some(text) = &self.text else { return true };
        let has = |part: &str| part.to_lowercase().contains(text.as_str());
        let mut labels = now.labels.iter();
        has(now.function.as_str()) || has(&now.runtime) || labels.any(|(key, value)| has(&format!("{key}={value}")))
    }
}

/// Most functions in a piece. The status of a function takes about 6 us, or up to 20 us with the kernel's counters of it.
pub(crate) const PIECE: usize = 64;

/// Calls `each` with the functions of the piece that begins after a name. Returns the name after which the next piece
/// begins; absent if the list is over.
pub(crate) fn piece(
    supervisor: &Supervisor,
    after: Option<&FunctionName>,
    mut each: impl FnMut(&FunctionView<'_>),
) -> Option<FunctionName> {
    let mut views = supervisor.functions_after(after);
    let mut last = None;
    for view in views.by_ref().take(PIECE) {
        each(&view);
        last = Some(view.name);
    }
    // This looks for a next function already now. So on most nodes, which have fewer functions than one piece, no second piece
    // is made.
    views.next().and(last).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_found_in_names_runtimes_and_labels() {
        let status: FunctionStatus = serde_json::from_value(json!({
            "status": "pending", "message": "", "timestamp": "2026-11-21T08:00:00.000Z", "function": "web/a", "state": "ready",
            "trigger": null, "attempt": null, "poll": null, "reason": null, "exit_code": null, "invocation": null,
            "started_at": null, "duration_ms": null, "cpu_ms": null, "memory_peak_bytes": null, "next_attempt_at": null,
            "next_run_at": null, "result": null, "runs": 0, "failures": 0, "error": null,
            "runtime": "bash", "labels": {"Team": "web"},
        }))
        .unwrap();
        for (text, expected) in [
            (Some("eb/"), true),
            (Some("bash"), true),
            (Some("team=web"), true),
            (Some("python"), false),
            (None, true),
        ] {
            let part = ListPart {
                text: text.map(str::to_owned),
                ..ListPart::default()
            };
            assert_eq!(part.has_text(&status), expected, "{text:?}");
        }
    }

    #[test]
    fn a_state_is_a_word_of_functions_or_the_one_for_those_that_need_a_person() {
        for (word, expected) in [
            ("crash-looping", Some(ListedState::Is(FunctionState::CrashLooping))),
            ("attention", Some(ListedState::NeedsPerson)),
            ("odd", None),
        ] {
            assert_eq!(ListedState::parse(word), expected, "{word}");
        }
    }

    #[test]
    fn a_filter_takes_a_name_that_the_caller_asks_for_and_may_see() {
        let name = |text: &str| FunctionName::new(text).unwrap();
        let filter = |function: Option<&str>, reach| FunctionFilter {
            function: function.map(name),
            labels: vec![("team".to_owned(), "web".to_owned())],
            reach,
        };
        for (function, reach, expected) in [
            (None, Permissions::own(), true),
            (Some("a"), Permissions::own(), true),
            (Some("b"), Permissions::own(), false),
            (None, Permissions::default(), false),
        ] {
            assert_eq!(
                filter(function, reach).takes(&name("a"), None),
                expected,
                "{function:?}"
            );
        }
    }
}
