//! The problems of the node: gathered from every part, shown by `status`, counted by `/metrics`, and reported once when
//! one begins and once when it is over (stream, journal). A problem of one function is not here: it is in that
//! function's state.
//!
//! No part is polled. A part whose problems changed signals it (`problems_changed` of the driver, or [`DriverMessage::ProblemsChanged`]
//! from another thread). The main loop then compares all problems with those reported
//! last.
//!
//! [`DriverMessage::ProblemsChanged`]: crate::driver::DriverMessage::ProblemsChanged

use crate::ledger::Forgetting;
use fnd_core::instant;
use fnd_core::node_problems::NODE_PROBLEMS;
use std::collections::BTreeMap;

pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    NODE_PROBLEMS.iter().map(|(code, _)| *code)
}

/// A problem of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedProblem {
    /// The kind of problem: one of [`NODE_PROBLEMS`], and the label of `fnd_problems`.
    pub(crate) code: &'static str,
    /// Which one of its kind, for example a path; empty where there can be only one.
    pub(crate) about: String,
    /// The problem, its place, and what to do. The text may change while the problem lasts, for example with a count.
    pub(crate) text: String,
}

impl ReportedProblem {
    /// Returns a problem of a kind that occurs at most once.
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self::about(code, "", text)
    }

    /// Returns a problem of a kind that may occur several times, distinguished by `about`.
    pub(crate) fn about(code: &'static str, about: impl Into<String>, text: impl Into<String>) -> Self {
        debug_assert!(codes().any(|known| known == code), "`{code}` is not among the codes");
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
    /// The text, and when the problem began, by code and `about`.
    last: BTreeMap<(&'static str, String), (String, u64)>,
    /// Whether the problems may have changed since.
    pub(crate) due: bool,
}

impl Reported {
    /// Compares with all problems that exist now. Returns those that began and those that are over.
    pub(crate) fn update(
        &mut self,
        now_ms: u64,
        now: Vec<ReportedProblem>,
    ) -> (Vec<ReportedProblem>, Vec<ReportedProblem>) {
        let mut last = std::mem::take(&mut self.last);
        let mut began = Vec::new();
        for problem in now {
            let key = (problem.code, problem.about.clone());
            // Two parts may report a problem with one key, which begins once.
            let known = last.remove(&key).or_else(|| self.last.remove(&key));
            if known.is_none() {
                began.push(problem.clone());
            }
            let since_ms = known.map_or(now_ms, |(_, since_ms)| since_ms);
            self.last.insert(key, (problem.text, since_ms));
        }
        let over = last
            .into_iter()
            .map(|((code, about), (text, _))| ReportedProblem { code, about, text });
        (began, over.collect())
    }

    /// Returns when a problem began; nothing if it is not reported yet.
    pub(crate) fn since_ms(&self, problem: &ReportedProblem) -> Option<u64> {
        let known = self.last.get(&(problem.code, problem.about.clone()));
        known.map(|(_, since_ms)| *since_ms)
    }
}

/// Returns the problems of records forgotten early, and of a clock that keeps records from being forgotten.
pub(crate) fn of_forgetting(forgetting: Forgetting) -> impl Iterator<Item = ReportedProblem> {
    let forgotten = (forgetting.for_room > 0).then(|| {
        let text = format!(
            "{} records of the history were forgotten before their time since fnd started: the disk is nearly full; make \
             room on it, or keep less (`[history] keep_bytes`)",
            forgetting.for_room
        );
        ReportedProblem::new("history-forgotten", text)
    });
    let ahead = forgetting.clock_ahead_of.map(|known_ms| {
        let text = format!(
            "the clock is more than a day ahead of the newest time in the history ({}): nothing is forgotten for its age \
             until the clock has been so for a day; if the clock is wrong, set it (`timedatectl`)",
            instant::text(known_ms)
        );
        ReportedProblem::new("clock-ahead", text)
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
        let lost = |count: u32| ReportedProblem::new("history-lost", format!("{count} records were lost"));
        let away = |path: &str| ReportedProblem::about("functions-directory", path, format!("`{path}` cannot be read"));
        assert_eq!(reported.update(1, vec![]), (vec![], vec![]));
        assert_eq!(
            reported.update(2, vec![lost(1), away("/a")]),
            (vec![lost(1), away("/a")], vec![])
        );
        assert_eq!(
            reported.update(3, vec![lost(2), away("/a"), away("/b")]),
            (vec![away("/b")], vec![])
        );
        let since_ms = [lost(9), away("/b"), away("/c")].map(|problem| reported.since_ms(&problem));
        assert_eq!(since_ms, [Some(2), Some(3), None]);
        assert_eq!(
            reported.update(4, vec![away("/b")]),
            (vec![], vec![away("/a"), lost(2)])
        );
        assert_eq!(reported.update(5, vec![lost(3)]), (vec![lost(3)], vec![away("/b")]));
        assert_eq!(reported.since_ms(&lost(3)), Some(5));
    }

    #[test]
    fn the_same_problem_given_twice_is_one() {
        let mut reported = Reported::default();
        let twice = vec![
            ReportedProblem::new("metrics", "x"),
            ReportedProblem::new("metrics", "x"),
        ];
        assert_eq!(reported.update(1, twice.clone()).0.len(), 1);
        assert_eq!(reported.update(2, twice.clone()), (vec![], vec![]));
        assert_eq!(reported.since_ms(&twice[0]), Some(1));
    }
}
