//! Where metrics are to be had beside the control socket, as the configuration in force says.

use super::{listen, textfile};
use crate::driver::State;
use fnd_core::settings;
use std::collections::BTreeMap;
use tokio::task::JoinHandle;

/// The places, and what is wrong with each.
#[derive(Debug, Default)]
pub(crate) struct Exposed {
    wanted: settings::Metrics,
    tasks: Vec<JoinHandle<()>>,
    problems: BTreeMap<&'static str, String>,
}

impl Exposed {
    /// Takes note of what is wrong with a place, or that nothing is; says it once.
    pub(super) fn report(&mut self, place: &'static str, problem: Option<String>) {
        match problem {
            None => drop(self.problems.remove(place)),
            Some(problem) => {
                if self.problems.get(place) != Some(&problem) {
                    tracing::error!("{problem}, trying again");
                }
                self.problems.insert(place, problem);
            }
        }
    }

    /// Returns what is wrong, for `status`.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.problems.values().cloned()
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

impl State {
    /// Serves metrics where the configuration wants them.
    pub(crate) fn expose_metrics(&mut self) {
        let wanted = &self.settings.settings.metrics;
        let Some(daemon) = self.daemon.upgrade().filter(|_| self.exposed.wanted != *wanted) else {
            return;
        };
        self.exposed.stop();
        self.exposed.wanted = wanted.clone();
        let tasks = &mut self.exposed.tasks;
        tasks.extend(wanted.listen.map(|address| {
            let daemon = std::rc::Rc::clone(&daemon);
            tokio::task::spawn_local(listen::serve(daemon, address))
        }));
        tasks.extend(wanted.textfile.as_ref().map(|path| {
            let daemon = std::rc::Rc::clone(&daemon);
            tokio::task::spawn_local(textfile::keep(daemon, path.into()))
        }));
    }
}
