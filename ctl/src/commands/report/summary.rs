//! The sums of a report. It asks nobody.

use fnd_core::api::{InvocationView, NodeStatus};
use fnd_core::records::outcome::RunState;
use fnd_core::run::FunctionState;
use fnd_wire::units::counted;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A report, in the form of `-o json`. Another version of fndctl may have written it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    pub(super) node: String,
    pub(super) since: String,
    pub(super) until: String,
    /// The most important thing in one line.
    pub(super) verdict: String,
    pub(super) runs: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) skipped: u64,
    /// Runs that have not ended.
    pub(super) unfinished: u64,
    /// Whether there were more runs than a report reads; then these are the newest ones.
    pub(super) is_cut: bool,
    /// Functions that ran; those that took most time come first.
    pub(super) functions: Vec<FunctionSummary>,
    /// Failures by function and reason; the most frequent come first.
    pub(super) failures: Vec<RunGroup>,
    /// Skipped runs by function and reason.
    pub(super) skips: Vec<RunGroup>,
    /// Functions that do not run as they should, with the reason.
    pub(super) stopped: Vec<Stopped>,
    /// Functions that could run and had no run.
    pub(super) idle: Vec<String>,
    /// Dead letters that wait for somebody.
    pub(super) dead_letters: u64,
    /// Problems of the node.
    pub(super) problems: Vec<String>,
}

/// The runs of a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FunctionSummary {
    pub(super) function: String,
    pub(super) runs: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    /// How long its runs took together.
    pub(super) duration_ms: f64,
    /// CPU time of its runs; null if it cannot be separated from that of others.
    pub(super) cpu_ms: Option<f64>,
    /// The highest peak of memory.
    pub(super) memory_peak_bytes: Option<u64>,
}

/// Runs of a function that ended alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RunGroup {
    pub(super) function: String,
    pub(super) reason: String,
    pub(super) count: u64,
    /// The newest of them.
    pub(super) id: String,
    pub(super) at: String,
    pub(super) message: String,
}

/// A function that does not run as it should.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stopped {
    pub(super) function: String,
    pub(super) state: FunctionState,
    pub(super) why: String,
}

impl Report {
    /// Adds up runs, which are sorted newest first.
    pub(super) fn of(node: &NodeStatus, runs: &[InvocationView], since: &str, until: &str) -> Self {
        let count = |wanted: &[RunState]| runs.iter().filter(|run| wanted.contains(&run.state)).count() as u64;
        let functions = functions(runs);
        let could_run = |state| matches!(state, FunctionState::Ready | FunctionState::Running);
        let has_run = |name: &str| functions.iter().any(|function| function.function == name);
        // A service has no runs: it is up, or it is crash-looping.
        let idle = node.functions.iter();
        let idle = idle.filter(|one| could_run(one.state) && one.up_since.is_none());
        let idle = idle.map(|one| one.function.to_string());
        let mut report = Self {
            node: node.node.clone(),
            since: since.to_owned(),
            until: until.to_owned(),
            verdict: String::new(),
            runs: runs.len() as u64,
            succeeded: count(&[RunState::Succeeded]),
            failed: count(&[RunState::Failed, RunState::Interrupted]),
            cancelled: count(&[RunState::Cancelled]),
            skipped: count(&[RunState::Skipped]),
            unfinished: runs.iter().filter(|run| !run.state.is_final()).count() as u64,
            is_cut: false,
            idle: idle.filter(|name| !has_run(name)).collect(),
            functions,
            failures: groups(runs, &[RunState::Failed, RunState::Interrupted]),
            skips: groups(runs, &[RunState::Skipped]),
            stopped: stopped(node),
            dead_letters: node.dead_letters,
            problems: node.problems.clone(),
        };
        report.verdict = report.verdict();
        report
    }

    fn verdict(&self) -> String {
        let runs = counted(self.runs, "run", "runs");
        let mut parts = vec![match (self.runs, self.failed) {
            (0, _) => "nothing ran".to_owned(),
            (_, 0) => format!("{runs}, none failed"),
            (_, failed) => format!("{failed} of {runs} failed"),
        }];
        // Somebody has disabled the other functions on purpose.
        let broken = self.stopped.iter().filter(|one| one.state != FunctionState::Disabled);
        let broken = broken.count();
        if broken > 0 {
            parts.push(counted(broken, "function does not work", "functions do not work"));
        }
        if self.dead_letters > 0 {
            parts.push(counted(self.dead_letters, "dead letter", "dead letters"));
        }
        if !self.problems.is_empty() {
            parts.push(counted(self.problems.len(), "problem", "problems"));
        }
        parts.join(", ")
    }
}

/// Returns the functions that ran.
fn functions(runs: &[InvocationView]) -> Vec<FunctionSummary> {
    let mut sums: BTreeMap<&str, FunctionSummary> = BTreeMap::new();
    for run in runs {
        let sum = sums.entry(run.function.as_str()).or_default();
        sum.runs += 1;
        sum.failed += u64::from(matches!(run.state, RunState::Failed | RunState::Interrupted));
        sum.skipped += u64::from(run.state == RunState::Skipped);
        sum.duration_ms += lasted(run).unwrap_or(0.0);
        sum.cpu_ms = match (sum.cpu_ms, run.cpu_ms) {
            (sum, None) => sum,
            (sum, Some(ms)) => Some(sum.unwrap_or(0.0) + ms),
        };
        sum.memory_peak_bytes = sum.memory_peak_bytes.max(run.memory_peak_bytes);
    }
    let named = |(name, sum): (&str, FunctionSummary)| FunctionSummary {
        function: name.to_owned(),
        ..sum
    };
    let mut functions: Vec<FunctionSummary> = sums.into_iter().map(named).collect();
    functions.sort_by(|a, b| b.duration_ms.total_cmp(&a.duration_ms));
    functions
}

/// Returns how long an ended run took.
fn lasted(run: &InvocationView) -> Option<f64> {
    let instant = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    let span = instant(&run.ended_at)?.duration_since(instant(&run.started_at)?);
    // The clock may have been set back between the two instants.
    Some((span.as_secs_f64() * 1000.0).max(0.0))
}

/// Returns the runs in some states by function and reason.
fn groups(runs: &[InvocationView], states: &[RunState]) -> Vec<RunGroup> {
    let mut groups: BTreeMap<(String, String), RunGroup> = BTreeMap::new();
    for run in runs.iter().filter(|run| states.contains(&run.state)) {
        let reason = run.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let function = run.function.to_string();
        // The first one is the newest.
        let group = groups.entry((function.clone(), reason.clone()));
        let group = group.or_insert_with(|| RunGroup {
            function,
            reason,
            count: 0,
            id: run.id.to_string(),
            at: run.accepted_at.clone(),
            message: run.message.clone(),
        });
        group.count += 1;
    }
    let mut groups: Vec<RunGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.count));
    groups
}

/// Returns the functions that do not run as they should.
fn stopped(node: &NodeStatus) -> Vec<Stopped> {
    let stopped = node.functions.iter().filter_map(|one| {
        let why = match one.state {
            // A function that works has an error if its newest content does not serve.
            FunctionState::Ready | FunctionState::Running | FunctionState::Building => one.error.clone()?,
            FunctionState::Disabled => String::new(),
            FunctionState::Invalid | FunctionState::CrashLooping => {
                one.error.clone().unwrap_or_else(|| one.message.clone())
            }
        };
        Some(Stopped {
            function: one.function.to_string(),
            state: one.state,
            why,
        })
    });
    stopped.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    fn run(number: u32, function: &str, state: &str, reason: Option<&str>, message: &str) -> InvocationView {
        serde_json::from_value(json!({
            "id": format!("01934567-89ab-7def-8123-{number:012}"), "function": function, "trigger": "manual",
            "state": state, "reason": reason, "message": message, "exhausted": null,
            "accepted_at": format!("2026-11-21T08:00:{:02}Z", 60 - number), "next_attempt_at": null,
            "started_at": "2026-11-21T08:00:00Z", "ended_at": "2026-11-21T08:00:01.500Z",
            "attempts": 1, "polls": 0, "cpu_ms": 100.0, "memory_peak_bytes": number << 20,
        }))
        .unwrap()
    }

    fn status(name: &str, state: &str, error: Option<&str>, up_since: Option<&str>) -> serde_json::Value {
        json!({
            "status": "pending", "message": "", "timestamp": "2026-11-21T08:00:00Z", "function": name, "state": state,
            "trigger": null, "attempt": null, "poll": null, "reason": null, "exit_code": null, "started_at": null,
            "duration_ms": null, "cpu_ms": null, "memory_peak_bytes": null, "next_attempt_at": null,
            "next_run_at": null, "result": null, "runs": 0, "failures": 0, "error": error, "up_since": up_since,
        })
    }

    /// Returns a report with something in each part.
    pub(in crate::commands::report) fn report() -> Report {
        let node: NodeStatus = serde_json::from_value(json!({
            "version": "0", "spawner_version": "0", "state": "running", "started_at": "2026-11-21T08:00:00Z",
            "node": "vm1", "cgroups": "v2", "containment": "cgroup", "not_enforced": {}, "memory_bytes": 0,
            "running": 0, "queued": 0, "functions_by_state": {}, "problems": [], "dead_letters": 2,
            "functions": [
                status("mail", "ready", None, None), status("old", "disabled", None, None),
                status("bad", "invalid", Some("unknown runtime `pyhton`"), None),
                status("never", "ready", None, None), status("disk", "running", None, Some("2026-11-21T07:00:00Z")),
            ],
        }))
        .unwrap();
        let runs = [
            run(1, "mail", "failed", Some("timeout"), "no answer in 180s"),
            run(2, "mail", "failed", Some("timeout"), "an older message"),
            run(3, "mail", "failed", Some("exit-1"), "no such host\u{1b}[2J"),
            run(4, "mail", "succeeded", Some("ok"), ""),
            run(
                5,
                "hello",
                "skipped",
                Some("skipped-overlap"),
                "another one was running",
            ),
            run(6, "hello", "running", None, ""),
        ];
        Report::of(&node, &runs, "2026-11-20T08:01:00Z", "2026-11-21T08:01:00Z")
    }

    #[test]
    fn runs_are_counted_grouped_and_added_up() {
        let report = report();
        assert_eq!(
            report.verdict,
            "3 of 6 runs failed, 1 function does not work, 2 dead letters"
        );
        assert_eq!(
            (report.succeeded, report.failed, report.skipped, report.unfinished),
            (1, 3, 1, 1)
        );
        let failures: Vec<_> = report
            .failures
            .iter()
            .map(|g| (g.reason.as_str(), g.count, g.message.as_str()))
            .collect();
        assert_eq!(failures[0], ("timeout", 2, "no answer in 180s"), "the newest message");
        assert_eq!((failures.len(), failures[1].0), (2, "exit-1"));
        assert_eq!(report.skips[0].reason, "skipped-overlap");
        let stopped: Vec<_> = report.stopped.iter().map(|one| one.function.as_str()).collect();
        assert_eq!(
            (stopped, report.idle.as_slice()),
            (vec!["old", "bad"], &["never".to_owned()][..])
        );
        let mail = &report.functions[0];
        assert_eq!((mail.runs, mail.duration_ms, mail.cpu_ms), (4, 6000.0, Some(400.0)));
        assert_eq!(mail.memory_peak_bytes, Some(4 << 20));
    }
}
