//! Gathers the problems of the node from every part.

use super::Driver;
use crate::report::problems::{ReportedProblem, of_forgetting};
use crate::workers::silence::start_problems;
use fnd_core::report::ReportEvent;
use fnd_manifest::warning::Warning;

impl Driver {
    /// Returns an error if fnd cannot run functions.
    pub(crate) fn health(&self) -> Result<(), String> {
        match &self.workers.connection {
            Some(_) => start_problems(&self.supervisor)
                .next()
                .map_or(Ok(()), |problem| Err(problem.text)),
            None => Err("no connection to fnd-spawner".into()),
        }
    }

    /// Has the main loop compare the problems with those reported last.
    pub(crate) fn problems_changed(&mut self) {
        self.reporter.problems.due = true;
        self.changed.notify_one();
    }

    /// Returns the problems of the configuration, the directories, the disk and fnd's other parts.
    pub(crate) fn problems(&self) -> Vec<ReportedProblem> {
        let health = self.records.ledger.health();
        let refused = |code: &'static str| {
            move |diagnostic: &fnd_manifest::diagnostic::Diagnostic| {
                let text = if diagnostic.is_error() {
                    diagnostic.text()
                } else {
                    diagnostic.line()
                };
                ReportedProblem::about(code, text.clone(), text)
            }
        };
        let mut problems: Vec<_> = self
            .node
            .settings
            .diagnostics
            .iter()
            .map(refused("configuration"))
            .collect();
        if self.node.settings.refused {
            let text = "the configuration is refused and the last good one is in force: correct the file, then `fndctl reload`";
            problems.push(ReportedProblem::new("configuration-refused", text));
        }
        if self.node.settings.runtimes.is_empty() {
            let searched = self.node.places.runtimes.join("`, `");
            let text = format!(
                "no runtimes were found in `{searched}`, so no function can run: reinstall fnd, or name their directory with --runtimes"
            );
            problems.push(ReportedProblem::new("no-runtimes", text));
        }
        let in_directories = self.functions.name_problems.iter().chain(&self.functions.projects);
        problems.extend(in_directories.map(refused("functions-directory")));
        problems.extend(self.functions.unread.problems());
        // Before the first scan is over, the functions to call may not be known.
        if self.supervisor.has_scanned() {
            let node = self.node.settings.settings.alert.call.as_ref();
            problems.extend(self.functions.call_problems(node));
            problems.extend(self.refused_call_problems());
        }
        problems.extend(health.failing.map(|error| {
            let follows =
                "new durable work is refused, queued work does not begin, and records of ended work are kept in memory";
            let text = format!("the history cannot be written: {error}; {follows}");
            ReportedProblem::new("history-failing", text)
        }));
        problems.extend(self.reporter.exposed.problems());
        problems.extend(
            self.callers
                .buffers
                .problem()
                .map(|text| ReportedProblem::new("buffers-full", text)),
        );
        problems.extend(
            self.callers
                .connections
                .problem()
                .map(|text| ReportedProblem::new("connections", text)),
        );
        let of_listener = self.listener.problems().into_iter();
        problems.extend(of_listener.map(|text| ReportedProblem::about("http-listener", text.clone(), text)));
        problems.extend(self.secrets.problems().map(|(code, name, why)| {
            let follows = match code {
                "tls" => "TLS serves with the last good pair, if there was one",
                _ => "routes admit nobody with it",
            };
            let text = format!("the {code} `{name}` is not read: {why}; {follows}; then `fndctl reload`");
            ReportedProblem::about(code, name, text)
        }));
        let installed = self.functions.registry.iter();
        problems.extend(installed.flat_map(|(name, function)| {
            let aside = function
                .findings
                .diagnostics
                .iter()
                .filter(|warning| warning.kind() == Some(Warning::HomeSetAside));
            aside.map(move |warning| {
                let text = format!("`{name}`: {}", warning.line());
                ReportedProblem::about("home-set-aside", text.clone(), text)
            })
        }));
        problems.extend(self.watchers.problems().map(|(function, problem)| {
            let text = format!("`{function}`: {problem}");
            ReportedProblem::about("files", text.clone(), text)
        }));
        problems.extend(start_problems(&self.supervisor));
        if health.lost > 0 {
            let text = format!(
                "{} records of the history were lost: the disk was full or too slow",
                health.lost
            );
            problems.push(ReportedProblem::new("history-lost", text));
        }
        problems.extend(health.hold.map(|why| {
            let text = format!("durable work is refused: {why}");
            ReportedProblem::new("history-incomplete", text)
        }));
        problems.extend(
            health
                .set_aside
                .map(|note| ReportedProblem::new("history-set-aside", &*note)),
        );
        problems.extend(
            self.audit
                .problem()
                .map(|text| ReportedProblem::new("audit-failing", text)),
        );
        problems.extend(
            self.state
                .problems()
                .map(|(code, text)| ReportedProblem::new(code, text)),
        );
        problems.extend(of_forgetting(health.forgetting));
        problems
    }

    /// Reports which problems began and which are over, if they may have changed.
    pub(crate) fn report_problems(&mut self) {
        if !std::mem::take(&mut self.reporter.problems.due) {
            return;
        }
        let now = self.problems();
        // Alerts compare for themselves: they also know what an earlier fnd has told, which was never reported by this
        // one.
        self.check_problems(&now);
        let (began, over) = self.reporter.problems.update(now);
        for ReportedProblem { code, text, .. } in &over {
            self.report(ReportEvent::Problem {
                code,
                text,
                lasts: false,
            });
        }
        for ReportedProblem { code, text, .. } in &began {
            self.report(ReportEvent::Problem {
                code,
                text,
                lasts: true,
            });
        }
        self.catch_up();
    }
}
