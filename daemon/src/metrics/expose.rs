//! Exposes metrics beside the control socket, in the places that the configuration in force names.

use super::{listen, textfile};
use crate::driver::Daemon;
use crate::driver::tasks::TaskOwner;
use crate::report::problems::ReportedProblem;
use fnd_manifest::settings;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::task::AbortHandle;

/// The places, and the problems of each.
#[derive(Debug, Default)]
pub(crate) struct Exposed {
    wanted: settings::MetricsSettings,
    tasks: Vec<AbortHandle>,
    problems: BTreeMap<&'static str, String>,
}

impl Exposed {
    /// Returns the problems of the places.
    pub(crate) fn problems(&self) -> impl Iterator<Item = ReportedProblem> {
        let problem =
            |(place, text): (&&'static str, &String)| ReportedProblem::about("metrics", *place, text.as_str());
        self.problems.iter().map(problem)
    }

    /// Stores the problem of a place, or that it has none. Returns whether that is new: a failing place is retried all
    /// the time.
    pub(crate) fn set_problem(&mut self, place: &'static str, problem: Option<String>) -> bool {
        if self.problems.get(place) == problem.as_ref() {
            return false;
        }
        match problem {
            Some(problem) => self.problems.insert(place, problem),
            None => self.problems.remove(place),
        };
        true
    }

    /// Serves metrics in these places and no others.
    pub(crate) fn serve(&mut self, wanted: &settings::MetricsSettings, daemon: &Rc<Daemon>) {
        // A reload that changes nothing here must not end the scrapes that are under way.
        if self.wanted == *wanted {
            return;
        }
        self.stop();
        self.wanted = wanted.clone();
        if let Some(address) = wanted.listen {
            let task = listen::serve(Rc::clone(daemon), address);
            self.tasks
                .push(daemon.inbox.spawn(TaskOwner::Fnd("metrics.listen"), task));
        }
        if let Some(path) = &wanted.textfile {
            let task = textfile::keep(Rc::clone(daemon), path.into());
            self.tasks
                .push(daemon.inbox.spawn(TaskOwner::Fnd("metrics.textfile"), task));
        }
    }

    fn stop(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        self.problems.clear();
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        self.stop();
    }
}
