//! Collects findings as text.

use fnd_core::api::InvocationView;
use std::fmt;

/// At most this many findings of a kind are shown.
const SHOWN: usize = 20;

/// Findings as text; all of them, not only the first.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) lost: Vec<String>,
    pub(crate) doubled: Vec<String>,
    pub(crate) wrong: Vec<String>,
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, list) in [("lost", &self.lost), ("doubled", &self.doubled), ("wrong", &self.wrong)] {
            for one in list.iter().take(SHOWN) {
                write!(f, "\n{what}: {one}")?;
            }
            if list.len() > SHOWN {
                write!(f, "\n{what}: and {} more", list.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

/// Returns what a finding says of an invocation.
pub(crate) fn short(view: &InvocationView) -> String {
    let attempts = view.attempt_records.iter().map(|attempt| {
        let (number, reason, message) = (attempt.attempt, attempt.reason, &attempt.message);
        format!(
            " [{number}: {reason} {message}, {} to {}]",
            attempt.started_at, attempt.ended_at
        )
    });
    let attempts: String = attempts.collect();
    let InvocationView {
        id,
        function,
        trigger,
        state,
        ..
    } = view;
    let (state, trigger) = (state.as_str(), trigger.as_str());
    format!(
        "{function} {id} {trigger} {state} since {}, attempts {}:{attempts}",
        view.accepted_at, view.attempts
    )
}

impl Findings {
    /// Returns how many there are.
    pub(crate) fn counts(&self) -> String {
        let (lost, doubled, wrong) = (self.lost.len(), self.doubled.len(), self.wrong.len());
        format!("lost {lost}, doubled {doubled}, otherwise wrong {wrong}")
    }

    pub(crate) fn none(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.wrong.is_empty()
    }
}
