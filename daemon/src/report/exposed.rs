//! Where metrics are exposed beside the control socket: the places that the configuration in force names, and the problem of
//! each. `crate::exposition` serves them.

use super::problems::ReportedProblem;
use fnd_manifest::settings::MetricsSettings;
use std::cell::RefCell;
use std::collections::BTreeMap;
use tokio::sync::Notify;

/// The places, and the problems of each.
#[derive(Debug, Default)]
pub(crate) struct Exposed {
    pub(crate) wanted: RefCell<MetricsSettings>,
    pub(crate) changed: Notify,
    problems: RefCell<BTreeMap<&'static str, String>>,
}

impl Exposed {
    /// Returns the problems of the places.
    pub(crate) fn problems(&self) -> Vec<ReportedProblem> {
        let problems = self.problems.borrow();
        let problem =
            |(place, text): (&&'static str, &String)| ReportedProblem::about("metrics", *place, text.as_str());
        problems.iter().map(problem).collect()
    }

    /// Stores the problem of a place, or that it has none. Returns whether that is new: a failing place is retried all
    /// the time.
    pub(crate) fn set_problem(&self, place: &'static str, problem: Option<String>) -> bool {
        let mut problems = self.problems.borrow_mut();
        if problems.get(place) == problem.as_ref() {
            return false;
        }
        match problem {
            Some(problem) => problems.insert(place, problem),
            None => problems.remove(place),
        };
        true
    }

    /// Names the places; their servers begin anew only if that changes something: a reload must not end the scrapes that
    /// are under way.
    pub(crate) fn serve(&self, wanted: &MetricsSettings) {
        if *self.wanted.borrow() != *wanted {
            self.wanted.replace(wanted.clone());
            self.problems.borrow_mut().clear();
            self.changed.notify_one();
        }
    }
}
