//! Gathers the problems of the node from every part.

use super::View;
use crate::ledger::WriterHealth;
use crate::report::problems::{ReportedProblem, of_forgetting};
use crate::settings::NodeInfo;
use crate::workers::silence::start_problems;
use fnd_core::api::NodeProblemView;
use fnd_core::instant;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::calls::node_to_nobody;
use fnd_manifest::warning::Warning;
use fnd_wire::ids::FunctionName;

impl View<'_> {
    /// Returns the problems of the configuration, the directories, the disk and fnd's other parts.
    pub(crate) fn problems(&self) -> Vec<ReportedProblem> {
        let health = self.ledger.health();
        let mut problems = of_settings(self.node);
        let in_directories = self.functions.name_problems.iter().chain(&self.functions.projects);
        problems.extend(in_directories.map(|diagnostic| of_diagnostic("functions-directory", diagnostic)));
        problems.extend(self.functions.unread.problems());
        // Before the first scan is over, the functions to call may not be known.
        if self.supervisor.has_scanned() {
            let node = self.node.settings.settings.alert.call.as_ref();
            problems.extend(self.call_problems(node));
            problems.extend(self.refused_call_problems());
        }
        problems.extend(health.failing.as_deref().map(of_failing));
        problems.extend(self.reporter.exposed.problems());
        let buffers = self.callers.buffers.problem();
        problems.extend(buffers.map(|text| ReportedProblem::new("buffers-full", text)));
        let connections = self.callers.connections.problem();
        problems.extend(connections.map(|text| ReportedProblem::new("connections", text)));
        let of_listener = self.listener.problems().into_iter();
        problems.extend(of_listener.map(|text| ReportedProblem::about("http-listener", text.clone(), text)));
        problems.extend(self.secrets.problems().map(of_secret));
        let set_aside = self.lifecycle.registry.homes_set_aside();
        problems.extend(set_aside.flat_map(|(name, function)| of_homes(name, &function.findings.diagnostics)));
        problems.extend(self.watchers.problems().map(|(function, problem)| {
            let text = format!("`{function}`: {problem}");
            ReportedProblem::about("files", text.clone(), text)
        }));
        problems.extend(self.nats.problems(self.now.mono).into_iter().map(of_nats));
        problems.extend(start_problems(self.supervisor));
        problems.extend(of_history(health));
        let audit = self.audit.problem();
        problems.extend(audit.map(|text| ReportedProblem::new("audit-failing", text)));
        let state = self.state.problems();
        problems.extend(state.map(|(code, text)| ReportedProblem::new(code, text)));
        problems
    }

    /// Returns the problems, each with since when.
    pub(crate) fn problem_views(&self) -> Vec<NodeProblemView> {
        let view = |problem: ReportedProblem| {
            let reported = self.reporter.problems.since_ms(&problem);
            // An alert outlives a restart, after which fnd finds the problem anew.
            let alerted = self.node_health.since_ms(problem.code);
            NodeProblemView {
                since: reported.into_iter().chain(alerted).min().map(instant::text),
                text: problem.text,
            }
        };
        self.problems().into_iter().map(view).collect()
    }

    /// Returns the problems of calls that reach nobody. `node` is the function that `[alert]` of fnd.toml calls.
    fn call_problems(&self, node: Option<&FunctionName>) -> impl Iterator<Item = ReportedProblem> {
        let missing = node.filter(|name| self.lifecycle.registry.get(name).is_none());
        let of_node = missing.map(|name| (String::new(), node_to_nobody(name)));
        let each = self.lifecycle.all_calls_to_nobody();
        let each = each.map(|(name, warning)| (name.to_string(), warning.clone()));
        of_node.into_iter().chain(each).filter_map(|(about, warning)| {
            let code = warning.kind()?.as_str();
            let about = format!("{about} {}", warning.message);
            Some(ReportedProblem::about(code, about, warning.text()))
        })
    }
}

fn of_diagnostic(code: &'static str, diagnostic: &Diagnostic) -> ReportedProblem {
    let text = if diagnostic.is_error() {
        diagnostic.text()
    } else {
        diagnostic.line()
    };
    ReportedProblem::about(code, text.clone(), text)
}

/// Returns the problems of the configuration and of the runtimes.
fn of_settings(node: &NodeInfo) -> Vec<ReportedProblem> {
    let diagnostics = node.settings.diagnostics.iter();
    let mut problems: Vec<_> = diagnostics
        .map(|diagnostic| of_diagnostic("configuration", diagnostic))
        .collect();
    if node.settings.refused {
        let text =
            "the configuration is refused and the last good one is in force: correct the file, then `fndctl reload`";
        problems.push(ReportedProblem::new("configuration-refused", text));
    }
    if node.settings.runtimes.is_empty() {
        let searched = node.places.runtimes.join("`, `");
        let text = format!(
            "no runtimes were found in `{searched}`, so no function can run: reinstall fnd, or name their directory with --runtimes"
        );
        problems.push(ReportedProblem::new("no-runtimes", text));
    }
    problems
}

fn of_failing(error: &str) -> ReportedProblem {
    let follows =
        "new durable work is refused, queued work does not begin, and records of ended work are kept in memory";
    let text = format!("the history cannot be written: {error}; {follows}");
    ReportedProblem::new("history-failing", text)
}

/// Returns the problem of a secret or of a file of `[http] tls`, made of its code, its name and the reason why the file is not
/// read.
fn of_secret((code, name, why): (&'static str, &str, &str)) -> ReportedProblem {
    let follows = match code {
        "tls" => "TLS serves with the last good pair, if there was one",
        _ => "routes admit nobody with it",
    };
    let text = format!("the {code} `{name}` is not read: {why}; {follows}; then `fndctl reload`");
    ReportedProblem::about(code, name, text)
}

/// Returns a problem of NATS. Its text ends with what explains it: the words of a server are often not enough.
fn of_nats(ReportedProblem { code, about, text }: ReportedProblem) -> ReportedProblem {
    ReportedProblem::about(code, about, format!("{text} (`fndctl explain {code}`)"))
}

/// Returns the problems of a function whose old home was set aside.
fn of_homes(name: &FunctionName, diagnostics: &[Diagnostic]) -> impl Iterator<Item = ReportedProblem> {
    let aside = diagnostics
        .iter()
        .filter(|warning| warning.kind() == Some(Warning::HomeSetAside));
    aside.map(move |warning| {
        let text = format!("`{name}`: {}", warning.line());
        ReportedProblem::about("home-set-aside", text.clone(), text)
    })
}

/// Returns the problems of the history, except for the problem of [`of_failing`].
fn of_history(health: WriterHealth) -> impl Iterator<Item = ReportedProblem> {
    let lost = (health.lost > 0).then(|| {
        let text = format!(
            "{} records of the history were lost: the disk was full or too slow",
            health.lost
        );
        ReportedProblem::new("history-lost", text)
    });
    let hold = health.hold.map(|why| {
        let text = format!("durable work is refused: {why}");
        ReportedProblem::new("history-incomplete", text)
    });
    let aside = health
        .set_aside
        .map(|note| ReportedProblem::new("history-set-aside", &*note));
    lost.into_iter()
        .chain(hold)
        .chain(aside)
        .chain(of_forgetting(health.forgetting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_has_a_problem_for_each_thing_that_is_wrong() {
        let codes = |health| of_history(health).map(|problem| problem.code).collect::<Vec<_>>();
        assert_eq!(codes(WriterHealth::default()), [""; 0]);
        let health = WriterHealth {
            lost: 2,
            hold: Some("it is being repaired".into()),
            set_aside: Some("the old history is `history.1`".into()),
            ..WriterHealth::default()
        };
        assert_eq!(
            codes(health),
            ["history-lost", "history-incomplete", "history-set-aside"]
        );
    }

    #[test]
    fn a_problem_of_nats_ends_with_what_explains_it() {
        let problem = of_nats(ReportedProblem {
            code: "nats-stream",
            about: "orders".to_owned(),
            text: "`orders`: there is no stream ORDERS".to_owned(),
        });
        assert_eq!((problem.code, &*problem.about), ("nats-stream", "orders"));
        assert!(
            problem
                .text
                .ends_with("no stream ORDERS (`fndctl explain nats-stream`)")
        );
        assert!(fnd_core::node_problems::node_problem(problem.code).is_some());
    }

    #[test]
    fn a_file_of_tls_and_a_secret_fail_in_different_ways() {
        for (code, follows) in [("tls", "the last good pair"), ("secret", "admit nobody")] {
            let problem = of_secret((code, "one", "it is empty"));
            assert_eq!((problem.code, &*problem.about), (code, "one"));
            assert!(problem.text.contains(follows), "{}", problem.text);
        }
    }
}
