//! Compares the history with what callers were told and what functions wrote.

use super::findings::{Findings, short};
use super::functions::{FUNCTIONS, Function, Journal, function};
use super::load::Replies;
use fnd_core::api::{DeadLetterList, InvocationList, InvocationView};
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_tests::Fnd;
use fnd_wire::ids::InvocationId;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Returns all elements of a list of the API, page by page.
pub(super) fn pages<P: DeserializeOwned, T>(
    fnd: &Fnd,
    path: &str,
    of: impl Fn(P) -> (Vec<T>, Option<String>),
) -> Vec<T> {
    let mut all = Vec::new();
    let mut after = String::new();
    let mark = if path.contains('?') { '&' } else { '?' };
    loop {
        let page = fnd.client().get(&format!("{path}{mark}limit=1000{after}"));
        let (some, next) = of(page.json());
        all.extend(some);
        match next {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

type Views = BTreeMap<InvocationId, InvocationView>;

/// Everything to compare, of one fnd that has finished all work.
pub(crate) struct Check<'a> {
    pub(crate) fnd: &'a Fnd,
    pub(crate) replies: &'a Replies,
    pub(crate) journal: &'a Journal,
    /// Whether a spawner was killed; the processes that it had started were killed with it.
    pub(crate) spawner_killed: bool,
    /// Whether disk space or descriptors had run out for a while; then fnd drops output.
    pub(crate) shortage: bool,
}

impl Check<'_> {
    /// Returns the number of invocations, and the findings.
    pub(crate) fn run(&self) -> (usize, Findings) {
        let mut found = Findings::default();
        let ids = pages(self.fnd, "/v1/invocations", |page: InvocationList| {
            (page.invocations, page.next)
        });
        let known = ids
            .iter()
            .filter(|view| FUNCTIONS.iter().any(|function| function.name == view.function.as_str()));
        let views: Views = known.map(|view| (view.id, self.fnd.invocation(view.id))).collect();
        for view in views.values() {
            self.record(view, &mut found);
        }
        self.callers(&views, &mut found);
        self.doubles(&views, &mut found);
        self.dead_letters(&views, &mut found);
        self.functions(&views, &mut found);
        (views.len(), found)
    }

    /// Compares one record with the journal of its function.
    fn record(&self, view: &InvocationView, found: &mut Findings) {
        let (id, function) = (view.id, function(view.function.as_str()));
        let numbers: Vec<u32> = view.attempt_records.iter().map(|attempt| attempt.attempt).collect();
        let was_cancelled = self.replies.cancelled.contains(&id);
        let mut wrong = |what: &str| found.wrong.push(format!("{what}: {}", short(view)));
        let mut ran = Vec::new();
        if !view.state.is_final() || view.ended_at.is_none() {
            wrong("it has no end");
        }
        if view.state == RunState::Cancelled && !was_cancelled && self.replies.accepted.contains_key(&id) {
            wrong("nobody cancelled it");
        }
        if view.attempts > 1 && !function.again {
            wrong("it was tried again without a policy");
        }
        if numbers != (1..=view.attempts).collect::<Vec<_>>() {
            wrong("its attempts are not its attempts");
        }
        for attempt in &view.attempt_records {
            let key = (id, attempt.attempt);
            let (begun, ended) = (self.journal.begun.contains_key(&key), self.journal.ended.contains(&key));
            let reason = attempt.reason.to_string();
            let may_end = if attempt.attempt == 1 { function.first } else { "ok" };
            match reason.as_str() {
                "cancelled" if was_cancelled => {}
                // Scripts survive the end of fnd, so an interrupted one never began.
                "interrupted" if function.script && begun && !self.spawner_killed => {
                    wrong("a script that ran is called interrupted");
                }
                "interrupted" => {}
                reason if reason == may_end && ended => {}
                reason if reason == may_end => wrong("it is said to have run, and did not"),
                _ => wrong("it cannot have ended so"),
            }
            // The last output of processes that were killed with the spawner is lost. Such an attempt has no exit status. It
            // is called cancelled if its cancel was requested before the spawner died.
            let exited = attempt.exit_code.is_some() || attempt.signal.is_some();
            let died_with_spawner =
                reason == "interrupted" || (reason == "cancelled" && self.spawner_killed && !exited);
            if function.script && ended && !died_with_spawner && !self.shortage {
                ran.push(attempt.attempt);
            }
        }
        for attempt in ran {
            self.output(view, attempt, found);
        }
    }

    /// Checks that each line that a script printed is kept once and in order.
    fn output(&self, view: &InvocationView, attempt: u32, found: &mut Findings) {
        let id = view.id;
        let lines = self.fnd.logs(id);
        let printed: Vec<&str> = lines
            .iter()
            .filter(|line| line.attempt == attempt && line.stream.as_str() == "stdout")
            .map(|line| line.text.as_str())
            .collect();
        let words = ["one", "two", "three"].map(|word| format!("{word} {id} {attempt}"));
        let padding: Vec<String> = (1..=20).map(|n| format!("padding {n:0900}")).collect();
        let [one, two, three] = &words;
        let whole: Vec<&str> = [one, two]
            .into_iter()
            .chain(&padding)
            .chain([three])
            .map(String::as_str)
            .collect();
        if printed != words && printed != whole {
            let shown: Vec<&str> = printed.iter().map(|line| line.get(..60).unwrap_or(line)).collect();
            found.wrong.push(format!(
                "its output is not what it printed: {shown:?} of {}",
                short(view)
            ));
        }
    }

    fn callers(&self, views: &Views, found: &mut Findings) {
        for (id, function) in &self.replies.accepted {
            match views.get(id) {
                None => found
                    .lost
                    .push(format!("{function} {id} was accepted and is not in the history")),
                Some(view) if view.state == RunState::Skipped => {
                    found.lost.push(format!("it was accepted and skipped: {}", short(view)));
                }
                Some(_) => {}
            }
        }
        for id in &self.replies.answered {
            match views.get(id) {
                None => found
                    .lost
                    .push(format!("the caller of {id} was answered, and it is not in the history")),
                Some(view) if view.state == RunState::Succeeded => {}
                Some(view) => found
                    .wrong
                    .push(format!("its caller was told it went well: {}", short(view))),
            }
        }
        for (id, attempt) in self.journal.begun.keys() {
            if views.get(id).is_none_or(|view| view.attempts < *attempt) {
                found
                    .lost
                    .push(format!("attempt {attempt} of {id} ran and is not in the history"));
            }
        }
    }

    fn doubles(&self, views: &Views, found: &mut Findings) {
        for ((id, attempt), count) in &self.journal.begun {
            if *count > 1 {
                found
                    .doubled
                    .push(format!("attempt {attempt} of {id} ran {count} times"));
            }
        }
        for (tag, ids) in &self.journal.by_tag {
            let is_redriven = |id: &InvocationId| views.get(id).is_some_and(|view| view.replay_of.is_some());
            let first: Vec<_> = ids.iter().filter(|id| !is_redriven(id)).collect();
            if first.len() > 1 {
                found.doubled.push(format!("one request ({tag}) ran as {first:?}"));
            }
        }
        for (key, ids) in &self.replies.keys {
            if ids.len() > 1 {
                found.doubled.push(format!("one key ({key}) was accepted as {ids:?}"));
            }
            let ran = self.journal.by_tag.get(key).into_iter().flatten();
            for id in ran.filter(|id| !ids.is_empty() && !ids.contains(id)) {
                if views.get(id).is_some_and(|view| view.replay_of.is_none()) {
                    found
                        .doubled
                        .push(format!("one key ({key}) was accepted as {ids:?} and ran as {id}"));
                }
            }
        }
        if views.len() as u64 > self.replies.requests {
            let (count, requests) = (views.len(), self.replies.requests);
            found
                .doubled
                .push(format!("{count} invocations came of {requests} requests"));
        }
    }

    /// Checks that each run that failed for good is either a dead letter, or was redriven, or was dropped.
    fn dead_letters(&self, views: &Views, found: &mut Findings) {
        let letters = pages(self.fnd, "/v1/dead-letters", |page: DeadLetterList| {
            (page.dead_letters, page.next)
        });
        let listed: BTreeSet<_> = letters.iter().map(|letter| letter.invocation.id).collect();
        let mut again: BTreeMap<InvocationId, Vec<InvocationId>> = BTreeMap::new();
        for view in views.values().filter(|view| view.trigger == Trigger::Redrive) {
            again
                .entry(view.replay_of.expect("what it repeats"))
                .or_default()
                .push(view.id);
        }
        for (id, by) in &again {
            if by.len() > 1 {
                found
                    .doubled
                    .push(format!("the dead letter {id} was redriven as {by:?}"));
            }
            if !self.replies.redriven.contains_key(id) {
                let said = self.replies.not_redriven.get(id);
                found.wrong.push(format!(
                    "nobody redrove the dead letter {id}; a caller was told {said:?}"
                ));
            }
        }
        let failed = |view: &&InvocationView| matches!(view.state, RunState::Failed | RunState::Interrupted);
        for view in views.values().filter(failed) {
            let id = view.id;
            let is_redriven = again.contains_key(&id);
            let dropped = self.replies.dropped.get(&id);
            let is_async = self.replies.accepted.contains_key(&id);
            match (listed.contains(&id), is_redriven, dropped) {
                (true, true, _) => found
                    .doubled
                    .push(format!("redriven and still a dead letter: {}", short(view))),
                (true, false, Some(true)) => found
                    .wrong
                    .push(format!("dropped and still a dead letter: {}", short(view))),
                (false, false, None) if is_async => found.lost.push(format!("no dead letter: {}", short(view))),
                _ => {}
            }
        }
        for (id, new) in &self.replies.redriven {
            let by = again.get(id).map_or(&[][..], Vec::as_slice);
            if let Some(new) = new
                && by != [*new]
            {
                found.lost.push(format!(
                    "the dead letter {id} was redriven as {new}, and runs as {by:?}"
                ));
            }
        }
    }

    /// Checks counts and status files.
    fn functions(&self, views: &Views, found: &mut Findings) {
        for Function { name, .. } in &FUNCTIONS {
            let of = views.values().filter(|view| view.function.as_str() == *name);
            let ran = of.filter(|view| view.state.is_final() && view.attempts > 0).count();
            let status = self.fnd.function(name).expect("it is still there");
            let file = self.fnd.status_file(name).expect("it has a status file");
            if status.runs != ran as u64 {
                let runs = status.runs;
                found
                    .wrong
                    .push(format!("{name} has {ran} runs that are over and says {runs}"));
            }
            if file["runs"] != status.runs || file["failures"] != status.failures {
                found
                    .wrong
                    .push(format!("the status file of {name} is behind: {file}, not {status:?}"));
            }
        }
    }
}
