//! The lines that a function writes about each of its attempts, on every node, and the rules for all nodes together. The
//! nodes of a test are on one machine, so their lines have one clock.

use super::lines;
use fnd_tests::Fnd;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the code of a function that writes when it begins and when it ends. Between the two it runs `work`.
pub(super) fn code(node: &str, work: &str) -> String {
    format!(
        "say() {{ printf '%s %s {node} %s\\n' \"$FND_NATS_SEQUENCE\" \"$1\" \"$(date +%s%N)\" >>\"$STATE_DIRECTORY/journal\"; }}\n\
         say begin\n{work}\nsay end\n"
    )
}

/// The same for messages whose payload is a number, which stands for their sequence. An attempt that its node ends writes `fenced` as
/// its end.
pub(super) fn numbered_code(node: &str, work: &str) -> String {
    format!(
        "N=$(cat)\n\
         say() {{ printf '%s %s {node} %s\\n' \"$N\" \"$1\" \"$(date +%s%N)\" >>\"$STATE_DIRECTORY/journal\"; }}\n\
         trap 'say fenced; exit 1' TERM\nsay begin\n{work}\nsay end\n"
    )
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempted {
    pub(super) begun_ns: u64,
    /// Absent: it has no end of its own.
    pub(super) ended_ns: Option<u64>,
    /// Whether its node has ended it.
    pub(super) is_fenced: bool,
    pub(super) node: String,
}

impl Attempted {
    /// Says whether it has done its work.
    pub(super) fn is_done(&self) -> bool {
        self.ended_ns.is_some() && !self.is_fenced
    }
}

/// The attempts of each message, in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Journal(pub(super) BTreeMap<u64, Vec<Attempted>>);

impl Journal {
    /// Reads what a function has written on these nodes.
    pub(super) fn read<'a>(nodes: impl IntoIterator<Item = &'a Fnd>, function: &str) -> Self {
        let mut journal = Self::default();
        for fnd in nodes {
            let mut open: BTreeMap<u64, Attempted> = BTreeMap::new();
            let mut add = |sequence: u64, attempt| journal.0.entry(sequence).or_default().push(attempt);
            for line in lines(fnd, function, "journal") {
                let words: Vec<&str> = line.split(' ').collect();
                // A line that a kill has cut off says nothing.
                let [sequence, what, node, at] = words[..] else {
                    continue;
                };
                let (Ok(sequence), Ok(at)) = (sequence.parse(), at.parse()) else {
                    continue;
                };
                if what == "begin" {
                    let begun = Attempted {
                        begun_ns: at,
                        ended_ns: None,
                        is_fenced: false,
                        node: node.to_owned(),
                    };
                    // The attempt before it on this node had no end.
                    if let Some(before) = open.insert(sequence, begun) {
                        add(sequence, before);
                    }
                } else if let Some(begun) = open.remove(&sequence) {
                    let (ended_ns, is_fenced) = (Some(at), what == "fenced");
                    let ended = Attempted {
                        ended_ns,
                        is_fenced,
                        ..begun
                    };
                    add(sequence, ended);
                }
            }
            for (sequence, begun) in open {
                add(sequence, begun);
            }
        }
        journal.0.values_mut().for_each(|attempts| attempts.sort());
        journal
    }

    /// Returns the messages with an attempt that has ended.
    pub(super) fn ended(&self) -> BTreeSet<u64> {
        let has_ended = |attempts: &Vec<Attempted>| attempts.iter().any(Attempted::is_done);
        let ended = self.0.iter().filter(|(_, attempts)| has_ended(attempts));
        ended.map(|(sequence, _)| *sequence).collect()
    }

    /// Checks that no two attempts of a message were there at the same time. `over` says when an attempt without an end
    /// was over at the latest: when its node was killed, or its processes were.
    ///
    /// # Panics
    /// If two were.
    #[track_caller]
    pub(super) fn check_one_at_a_time(&self, over: impl Fn(&Attempted) -> u64) {
        for (sequence, attempts) in &self.0 {
            for pair in attempts.windows(2) {
                let [before, after] = pair else { continue };
                let end = before.ended_ns.unwrap_or_else(|| over(before));
                assert!(
                    end <= after.begun_ns,
                    "message {sequence}: {before:?} is not over before {after:?}"
                );
            }
        }
    }

    /// Checks that each message has exactly one attempt with an end, and that only messages with an attempt without one
    /// have another one.
    ///
    /// # Panics
    /// If one has not.
    #[track_caller]
    pub(super) fn check_each_ended_once(&self, messages: u64) {
        for sequence in 1..=messages {
            let attempts = self.0.get(&sequence).map(Vec::as_slice).unwrap_or_default();
            let ended = attempts.iter().filter(|attempt| attempt.is_done()).count();
            assert_eq!(ended, 1, "message {sequence}: {attempts:?}");
        }
    }
}

/// Returns the wall clock in nanoseconds, as `date` shows it.
pub(super) fn now_ns() -> u64 {
    fnd_tests::wait::unix_ms() * 1_000_000
}
