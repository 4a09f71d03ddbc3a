//! The problems of the node: gathered from every part, shown by `status`, counted by `/metrics`, and reported once when
//! one begins and once when it is over (stream, journal). A problem of one function is not here: it is in that
//! function's state.
//!
//! No part is polled. A part whose problems changed signals it ([`State::problems_changed`], or
//! [`Message::ProblemsChanged`] from another thread). The main loop then compares all problems with those reported
//! last.
//!
//! [`Message::ProblemsChanged`]: crate::driver::Message::ProblemsChanged

use crate::driver::State;
use crate::ledger::Forgetting;
use fnd_core::instant;
use fnd_core::report::ReportEvent;
use std::collections::BTreeMap;

/// Every code, each described in `docs/metrics.md`.
pub const CODES: &[&str] = &[
    "buffers-full",
    "clock-ahead",
    "configuration",
    "configuration-refused",
    "connections",
    "directory-away",
    "functions-directory",
    "functions-unread",
    "history-failing",
    "history-forgotten",
    "history-incomplete",
    "history-lost",
    "history-set-aside",
    "metrics",
    "node-cannot-start",
    "spawner-silent",
];

/// A problem of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem: one of [`CODES`], and the label of `fnd_problems`.
    pub code: &'static str,
    /// Which one of its kind, for example a path; empty where there can be only one.
    pub about: String,
    /// What happened, where, and what to do. It may change while the problem lasts, for example with a count.
    pub text: String,
}

impl Problem {
    /// Returns a problem of a kind that occurs at most once.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self::about(code, "", text)
    }

    /// Returns a problem of a kind that may occur several times, distinguished by `about`.
    pub fn about(code: &'static str, about: impl Into<String>, text: impl Into<String>) -> Self {
        debug_assert!(CODES.contains(&code), "`{code}` is not among the codes");
        Self {
            code,
            about: about.into(),
            text: text.into(),
        }
    }
}

/// The problems that were reported last.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// The text, by code and `about`.
    last: BTreeMap<(&'static str, String), String>,
    /// Whether the problems may have changed since.
    due: bool,
}

impl Reported {
    /// Compares with all problems that exist now. Returns those that began and those that are over.
    fn update(&mut self, now: Vec<Problem>) -> (Vec<Problem>, Vec<Problem>) {
        let mut last = std::mem::take(&mut self.last);
        let mut began = Vec::new();
        for problem in now {
            let key = (problem.code, problem.about.clone());
            if last.remove(&key).is_none() && !self.last.contains_key(&key) {
                began.push(problem.clone());
            }
            self.last.insert(key, problem.text);
        }
        let over = last
            .into_iter()
            .map(|((code, about), text)| Problem { code, about, text });
        (began, over.collect())
    }
}

impl State {
    /// Has the main loop compare the problems with those reported last.
    pub(crate) fn problems_changed(&mut self) {
        self.reported_problems.due = true;
        if let Some(daemon) = self.daemon.upgrade() {
            daemon.changed.notify_one();
        }
    }

    /// Returns the problems of the configuration, the directories, the disk and fnd's other parts.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let health = self.ledger.health();
        let refused = |code: &'static str| {
            move |diagnostic: &fnd_core::diagnostic::Diagnostic| {
                Problem::about(code, diagnostic.line(), diagnostic.line())
            }
        };
        let mut problems: Vec<_> = self.settings.diagnostics.iter().map(refused("configuration")).collect();
        if self.settings.refused {
            let text = "the configuration is refused and the last good one is in force: correct the file, then `fndctl reload`";
            problems.push(Problem::new("configuration-refused", text));
        }
        problems.extend(self.name_problems.iter().map(refused("functions-directory")));
        problems.extend(self.unread.problems());
        problems.extend(health.failing.map(|error| {
            let follows =
                "new durable work is refused, queued work does not begin, and records of ended work are kept in memory";
            let text = format!("the history cannot be written: {error}; {follows}");
            Problem::new("history-failing", text)
        }));
        problems.extend(self.exposed.problems());
        problems.extend(self.buffers.problem().map(|text| Problem::new("buffers-full", text)));
        problems.extend(self.connections.problem().map(|text| Problem::new("connections", text)));
        problems.extend(self.start_problems());
        if health.lost > 0 {
            let text = format!(
                "{} records of the history were lost: the disk was full or too slow",
                health.lost
            );
            problems.push(Problem::new("history-lost", text));
        }
        problems.extend(health.hold.map(|why| {
            let text = format!("durable work is refused: {why}");
            Problem::new("history-incomplete", text)
        }));
        problems.extend(health.set_aside.map(|note| Problem::new("history-set-aside", &*note)));
        problems.extend(of_forgetting(health.forgetting));
        problems
    }

    /// Reports which problems began and which are over, if they may have changed.
    pub(crate) fn report_problems(&mut self) {
        if !std::mem::take(&mut self.reported_problems.due) {
            return;
        }
        let now = self.problems();
        let (began, over) = self.reported_problems.update(now);
        for Problem { code, text, .. } in &over {
            self.report(ReportEvent::Problem {
                code,
                text,
                lasts: false,
            });
        }
        for Problem { code, text, .. } in &began {
            self.report(ReportEvent::Problem {
                code,
                text,
                lasts: true,
            });
        }
    }
}

/// Returns the problems of records forgotten early, and of a clock that keeps records from being forgotten.
fn of_forgetting(forgetting: Forgetting) -> impl Iterator<Item = Problem> {
    let forgotten = (forgetting.for_room > 0).then(|| {
        let text = format!(
            "{} records of the history were forgotten before their time since fnd started: the disk is nearly full; make \
             room on it, or keep less (`[history] keep_bytes`)",
            forgetting.for_room
        );
        Problem::new("history-forgotten", text)
    });
    let ahead = forgetting.clock_ahead_of.map(|known_ms| {
        let text = format!(
            "the clock is more than a day ahead of the newest time in the history ({}): nothing is forgotten for its age \
             until the clock has been so for a day; if the clock is wrong, set it (`timedatectl`)",
            instant::text(known_ms)
        );
        Problem::new("clock-ahead", text)
    });
    forgotten.into_iter().chain(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_for_room_and_a_clock_that_is_ahead_are_reported() {
        let codes = |for_room, clock_ahead_of| {
            let forgetting = Forgetting {
                for_room,
                clock_ahead_of,
            };
            let problems = of_forgetting(forgetting);
            problems.map(|problem| (problem.code, problem.text)).collect::<Vec<_>>()
        };
        assert_eq!(codes(0, None), []);
        let [(forgotten, records), (ahead, time)] = &codes(330, Some(1_795_248_000_000))[..] else {
            panic!("both are told");
        };
        assert_eq!((*forgotten, *ahead), ("history-forgotten", "clock-ahead"));
        assert!(
            records.starts_with("330 records") && time.contains("2026-11-21T"),
            "{records} {time}"
        );
    }

    #[test]
    fn each_is_reported_once_when_it_begins_and_once_when_it_is_over() {
        let mut reported = Reported::default();
        let lost = |count: u32| Problem::new("history-lost", format!("{count} records were lost"));
        let away = |path: &str| Problem::about("functions-directory", path, format!("`{path}` cannot be read"));
        assert_eq!(reported.update(vec![]), (vec![], vec![]));
        assert_eq!(
            reported.update(vec![lost(1), away("/a")]),
            (vec![lost(1), away("/a")], vec![])
        );
        assert_eq!(
            reported.update(vec![lost(2), away("/a"), away("/b")]),
            (vec![away("/b")], vec![])
        );
        assert_eq!(reported.update(vec![away("/b")]), (vec![], vec![away("/a"), lost(2)]));
        assert_eq!(reported.update(vec![lost(3)]), (vec![lost(3)], vec![away("/b")]));
    }

    #[test]
    fn the_same_problem_given_twice_is_one() {
        let mut reported = Reported::default();
        let twice = vec![Problem::new("metrics", "x"), Problem::new("metrics", "x")];
        assert_eq!(reported.update(twice.clone()).0.len(), 1);
        assert_eq!(reported.update(twice), (vec![], vec![]));
    }
}
