//! The rules at the end of a storm, for each message that was confirmed to its publisher: one node has the final record that
//! counts; the function has done the work; no two attempts were there at once; each attempt is counted, so that none was repeated
//! silently; and where another node has gone on, the record names the one that had begun.

use super::ground::{Ground, NAMES, Node};
use crate::nats::journal::{Attempted, Journal};
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_tests::Fnd;
use std::collections::BTreeMap;

/// A record of a node.
struct Told {
    node: &'static str,
    view: InvocationView,
}

impl Told {
    /// Says whether one of its attempts was begun by this node and is known here as interrupted.
    fn names(&self, node: &str) -> bool {
        let beginnings = [
            format!("{node} had begun it at "),
            format!("{node} had taken it over at "),
        ];
        let mut attempts = self.view.attempt_records.iter();
        attempts.any(|attempt| beginnings.iter().any(|words| attempt.message.starts_with(words)))
    }

    /// Says whether it was taken over from a node that had begun nothing itself, and had taken it over from another one.
    fn is_second_hand(&self) -> bool {
        let mut attempts = self.view.attempt_records.iter();
        attempts.any(|attempt| attempt.message.contains(" had taken it over at "))
    }
}

/// The journals of the functions, and the records of the nodes.
pub(super) struct Oracle {
    journal: Journal,
    /// By the number of the message.
    told: BTreeMap<u64, Vec<Told>>,
}

impl Oracle {
    pub(super) fn read(ground: &Ground) -> Self {
        let mut told: BTreeMap<u64, Vec<Told>> = BTreeMap::new();
        for node in &ground.nodes {
            for (number, view) in records(node) {
                let node = node.name;
                told.entry(number).or_default().push(Told { node, view });
            }
        }
        Self {
            journal: Journal::read(ground.nodes.iter().map(|node| &node.fnd), "take"),
            told,
        }
    }

    /// Returns the messages with which another node has gone on, in words.
    pub(super) fn taken_over(&self) -> Vec<String> {
        let all = self.told.iter();
        let all = all.flat_map(|(number, told)| told.iter().map(move |told| (number, told)));
        let taken = all.filter_map(|(number, told)| {
            let mut attempts = told.view.attempt_records.iter();
            let before = attempts.find(|attempt| NAMES.iter().any(|name| attempt.message.starts_with(name)))?;
            Some(format!(
                "message {number}: {}; {} has gone on with it",
                before.message, told.node
            ))
        });
        taken.collect()
    }

    /// Checks the messages from 0 on. Returns how many were interrupted, and what does not hold.
    pub(super) fn check(&self, messages: u32, ground: &Ground) -> (usize, Vec<String>) {
        let mut findings = Vec::new();
        let mut interrupted = 0;
        for number in 0..u64::from(messages) {
            let attempts = self.journal.0.get(&number).map(Vec::as_slice).unwrap_or_default();
            let told = self.told.get(&number).map(Vec::as_slice).unwrap_or_default();
            interrupted += usize::from(attempts.len() > 1);
            let mut found = check_message(attempts, told);
            found.extend(overlap(attempts, ground));
            findings.extend(found.into_iter().map(|finding| {
                let records: Vec<_> = told.iter().map(shown).collect();
                format!("message {number}: {finding}: {attempts:?}; {records:?}")
            }));
        }
        (interrupted, findings)
    }
}

fn check_message(attempts: &[Attempted], told: &[Told]) -> Vec<String> {
    let mut findings = Vec::new();
    if !attempts.iter().any(Attempted::is_done) {
        findings.push("the work was not done".to_owned());
    }
    let counts: Vec<&Told> = told.iter().filter(|told| told.view.superseded_by.is_none()).collect();
    let [record] = counts[..] else {
        findings.push(format!("{} records count", counts.len()));
        return findings;
    };
    if record.view.state != RunState::Succeeded {
        findings.push(format!("its state is {:?}", record.view.state));
    }
    // An attempt that was claimed and did not begin counts as begun, so there may be fewer.
    if attempts.len() > record.view.attempts as usize {
        findings.push("it was repeated silently".to_owned());
    }
    for pair in attempts.windows(2) {
        let [before, after] = pair else { continue };
        let mut others = told.iter().filter(|told| told.node != before.node);
        let is_named = others.any(|told| told.names(&before.node) || told.is_second_hand());
        if before.node != after.node && !is_named {
            findings.push(format!("no record names {}", before.node));
        }
    }
    findings
}

/// Returns two attempts that were there at once.
fn overlap(attempts: &[Attempted], ground: &Ground) -> Option<String> {
    let over = |attempt: &Attempted| {
        let deaths = ground
            .deaths
            .iter()
            .filter(|(name, at)| *name == attempt.node && *at >= attempt.begun_ns);
        // Without a death its node has killed it, and it wrote nothing.
        deaths.map(|(_, at)| *at).min().unwrap_or(attempt.begun_ns)
    };
    attempts.windows(2).find_map(|pair| {
        let [before, after] = pair else { return None };
        let end = before.ended_ns.unwrap_or_else(|| over(before));
        (end > after.begun_ns).then(|| "two attempts were there at once".to_owned())
    })
}

fn shown(told: &Told) -> String {
    let Told { node, view } = told;
    let attempts: Vec<&str> = view
        .attempt_records
        .iter()
        .map(|attempt| attempt.message.as_str())
        .collect();
    format!(
        "{node}: {:?}, {} attempts, superseded by {:?}, {attempts:?}",
        view.state, view.attempts, view.superseded_by
    )
}

/// Returns the records of a node, each with the number of its message.
fn records(node: &Node) -> Vec<(u64, InvocationView)> {
    let all = list(&node.fnd).into_iter();
    let all = all.map(|run| node.fnd.invocation(run.id));
    let all = all.filter_map(|view| {
        let Some(Cause::Nats(cause)) = &view.cause else {
            return None;
        };
        let id = cause.headers.iter().find(|(name, _)| name == "Nats-Msg-Id");
        Some((id?.1.parse().ok()?, view))
    });
    all.collect()
}

/// Returns all invocations by messages.
fn list(fnd: &Fnd) -> Vec<InvocationView> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/v1/invocations?limit=1000&function=take{after}");
        let page: InvocationList = fnd.client().get(&path).json();
        all.extend(page.invocations);
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    all.retain(|run| run.trigger == Trigger::Nats);
    all
}
