//! Which functions a long list of the API has, and the pieces in which it is made. Between two pieces the thread serves others.
//!
//! The status of ten thousand functions takes longer than a call may wait; a piece takes a fraction of a millisecond.
//! Between two pieces everything may change, so a list does not show a single moment:
//!
//! - Names are in order, each at most once: a piece goes on after the last name of the piece before.
//! - A function that exists all the time is in the list. A function that appears or disappears meanwhile may be
//!   missing.
//! - Each function is as it is when its piece is made. Sums over a list may differ from the numbers of the node.

use fnd_core::access::Permissions;
use fnd_core::api::FunctionStatus;
use fnd_core::run::{FunctionView, Supervisor};
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
