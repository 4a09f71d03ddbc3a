//! For how long another node was silent, as this node has seen it.
//!
//! A node renews its key in the bucket; each renewal gives the key another revision. This node hears of renewals, and asks for
//! the key before it takes anything over. Both prove only what was true at an instant of *this* node's clock:
//!
//! ```text
//!            revision 9 is heard of          asked for the key    the answer: revision 9
//!  ─────────────────┼────────────────────────────────┼─────────────────────┼──────▶ own clock
//!                   └── silent for at least so long ─┘
//! ```
//! The renewal with revision 9 was sent before this node heard of it, and no later one had reached the server when this node
//! asked. So the other node has had no answer to a renewal that it sent in between, and has ended its attempts. Clocks of two
//! nodes are never compared; they must only run at about the same speed.

use std::collections::BTreeMap;
use std::time::Duration;

/// The revision of a key that does not exist. Revisions of the server begin with 1.
const ABSENT: u64 = 0;

/// The renewals that this node has seen of one other node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sighting {
    revision: u64,
    /// When this node first heard of the revision.
    since: Duration,
    /// When the last question was sent that was answered with the revision.
    confirmed: Duration,
}

/// The renewals that this node has seen of all other nodes.
#[derive(Debug, Default)]
pub struct NodeWitness {
    nodes: BTreeMap<String, Sighting>,
}

/// Whether a node was silent for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilenceProof {
    /// It was silent for at least that time, and for so long in all.
    Given(Duration),
    /// The proof needs so much more time, and a question after that.
    Wants(Duration),
}

impl NodeWitness {
    /// Takes a renewal that this node hears of at `now`. It may be old news, and later ones may be on their way: it confirms no
    /// revision that is known already.
    pub fn heard(&mut self, node: &str, revision: u64, now: Duration) {
        self.sighted(node, revision, (Duration::ZERO, now));
    }

    /// Takes the answer to a question for the key of a node, which was sent at `asked`. Absent: there is no such key.
    pub fn answered(&mut self, node: &str, revision: Option<u64>, (asked, now): (Duration, Duration)) {
        self.sighted(node, revision.unwrap_or(ABSENT), (asked, now));
    }

    fn sighted(&mut self, node: &str, revision: u64, (asked, now): (Duration, Duration)) {
        let fresh = Sighting {
            revision,
            since: now,
            confirmed: now,
        };
        match self.nodes.get_mut(node) {
            Some(known) if known.revision == revision => known.confirmed = known.confirmed.max(asked),
            #[cfg(feature = "simulate")]
            Some(known) if crate::mutants::Mutant::RenewalUnseen.is_on() => {
                (known.revision, known.confirmed) = (revision, known.confirmed.max(asked));
            }
            // News on two ways can overtake each other. A key that was deleted has no revision; one that is made after that has
            // a greater one than all before.
            Some(known) if revision != ABSENT && revision < known.revision => {}
            Some(known) => *known = fresh,
            None => {
                self.nodes.insert(node.to_owned(), fresh);
            }
        }
    }

    /// Forgets everything: the connection was lost, and renewals may have been missed; or the bucket was made anew, and counts
    /// from 1 again.
    pub fn disconnected(&mut self) {
        self.nodes.clear();
    }

    /// Says at `now` whether a node was silent for `time`. Only a question counts that was sent at `since_read` or later, when
    /// this node had read the claim: the holder may have come back and begun an attempt before the claim was read. A node of
    /// which nothing was seen counts as seen now.
    #[must_use]
    pub fn silence(&self, node: &str, time: Duration, (since_read, now): (Duration, Duration)) -> SilenceProof {
        let Some(known) = self.nodes.get(node) else {
            return SilenceProof::Wants(time);
        };
        let silent = known.confirmed.saturating_sub(known.since);
        if silent >= time && known.confirmed >= since_read {
            return SilenceProof::Given(silent);
        }
        // A question that is sent then has the time behind it, if the revision is still the same.
        SilenceProof::Wants(known.since.saturating_add(time).saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::SilenceProof::{Given, Wants};
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns whether `vm1` was silent for [`WAIT`]; the claim was read at `since_read`.
    fn proof(witness: &NodeWitness, since_read: u64, now: u64) -> SilenceProof {
        witness.silence("vm1", WAIT, (at(since_read), at(now)))
    }

    #[test]
    fn silence_is_proven_by_a_question_that_was_sent_after_the_time() {
        let mut witness = NodeWitness::default();
        assert_eq!(proof(&witness, 0, 5), Wants(WAIT));
        witness.heard("vm1", 9, at(5));
        assert_eq!(proof(&witness, 0, 15), Wants(at(0)), "nobody has asked");
        witness.answered("vm1", Some(9), (at(14), at(16)));
        assert_eq!(proof(&witness, 0, 16), Wants(at(0)), "asked too early");
        witness.answered("vm1", Some(9), (at(15), at(16)));
        assert_eq!(proof(&witness, 0, 16), Given(at(10)));
    }

    #[test]
    fn a_renewal_begins_the_time_anew() {
        let mut witness = NodeWitness::default();
        witness.heard("vm1", 9, at(5));
        witness.answered("vm1", Some(10), (at(15), at(16)));
        assert_eq!(proof(&witness, 0, 16), Wants(WAIT));
        assert_eq!(proof(&witness, 0, 20), Wants(at(6)));
    }

    #[test]
    fn an_older_revision_says_nothing() {
        let mut witness = NodeWitness::default();
        witness.heard("vm1", 10, at(5));
        witness.answered("vm1", Some(9), (at(6), at(7)));
        witness.answered("vm1", Some(9), (at(20), at(20)));
        assert_eq!(proof(&witness, 0, 20), Wants(at(0)));
        witness.answered("vm1", Some(10), (at(20), at(21)));
        assert_eq!(proof(&witness, 0, 21), Given(at(15)));
    }

    /// The answer to a question has overtaken the news of the same renewal.
    #[test]
    fn news_that_comes_late_proves_nothing() {
        let mut witness = NodeWitness::default();
        witness.answered("vm1", Some(9), (at(5), at(5)));
        witness.heard("vm1", 9, at(16));
        assert_eq!(proof(&witness, 0, 16), Wants(at(0)));
    }

    #[test]
    fn an_answer_that_comes_late_proves_only_what_was_true_when_it_was_asked_for() {
        let mut witness = NodeWitness::default();
        witness.answered("vm1", Some(9), (at(5), at(60)));
        assert_eq!(proof(&witness, 0, 60), Wants(WAIT));
    }

    #[test]
    fn nothing_is_known_of_the_time_without_a_connection() {
        let mut witness = NodeWitness::default();
        witness.heard("vm1", 9, at(5));
        witness.disconnected();
        witness.answered("vm1", Some(9), (at(60), at(60)));
        assert_eq!(proof(&witness, 0, 60), Wants(WAIT));
        witness.answered("vm1", Some(9), (at(70), at(70)));
        assert_eq!(proof(&witness, 0, 70), Given(WAIT));
    }

    #[test]
    fn a_question_before_the_claim_was_read_proves_nothing() {
        let mut witness = NodeWitness::default();
        witness.heard("vm1", 9, at(5));
        witness.answered("vm1", Some(9), (at(15), at(15)));
        assert_eq!(proof(&witness, 15, 18), Given(WAIT));
        assert_eq!(proof(&witness, 17, 18), Wants(at(0)));
        witness.answered("vm1", Some(9), (at(17), at(18)));
        assert_eq!(proof(&witness, 17, 18), Given(at(12)));
    }

    #[test]
    fn a_node_without_a_key_is_silent_and_nodes_are_told_apart() {
        let mut witness = NodeWitness::default();
        witness.answered("vm1", None, (at(0), at(0)));
        witness.answered("vm2", Some(1), (at(0), at(0)));
        witness.answered("vm1", None, (at(10), at(10)));
        assert_eq!(proof(&witness, 0, 10), Given(WAIT));
        assert_eq!(witness.silence("vm2", WAIT, (at(0), at(10))), Wants(at(0)));
    }
}
