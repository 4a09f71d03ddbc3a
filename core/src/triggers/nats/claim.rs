//! The record of a claim: which node has a message and how far it has come; and the record of a node. Both are JSON in a bucket
//! of keys and values that all nodes share.
//!
//! ```text
//!  create ─▶ begun ─▶ done | interrupted
//!              │
//!              └─ another node takes it over ─▶ held ─▶ begun ─▶ ...
//! ```
//! Each arrow is a compare-and-set with the revision before it. An fnd of another version may write further fields: they are
//! ignored. A record that cannot be read is no reason to run anything.

use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::{FunctionName, InvocationId};
use serde::{Deserialize, Serialize};

words! {
    /// How far the holder of a claim has come.
    pub enum ClaimState {
        /// The holder has taken the message over and has begun no attempt itself.
        Held = "held",
        /// An attempt of the holder has begun, and no end of the work is written here.
        Begun = "begun",
        /// The holder has a final record of the work on its disk.
        Done = "done",
        /// The same; the work ended as `interrupted`.
        Interrupted = "interrupted",
    }
}

/// The condition under which another node may go on with a message whose holder does not end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimLimit {
    /// Another node may begin the work again: the holder ends its attempts before its node was silent for so many milliseconds.
    Silence(u64),
    /// No other node begins the work. At this time, Unix milliseconds, the holder's attempt has ended in any case.
    Until(u64),
    /// No other node begins the work, and its attempts have no limit of time: a person ends the claim.
    Person,
}

/// A claim: the value of its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The function that the message runs.
    #[serde(with = "text::id")]
    pub function: FunctionName,
    /// The name of the node that has the message.
    pub node: String,
    /// The number of its fnd process, as in [`NodeRecord`].
    pub process: u64,
    /// The invocation that the message has become on that node.
    #[serde(with = "text::id")]
    pub invocation: InvocationId,
    /// How far it has come.
    pub state: ClaimState,
    /// Attempts that have begun, on all nodes together.
    pub attempts: u32,
    /// Attempts whose end no node knows, because their node went down. An attempt that failed is none of them.
    pub lost: u32,
    /// When the state was written, Unix milliseconds by the clock of that node.
    pub at_ms: u64,
    /// The condition under which another node may go on with the message.
    pub limit: ClaimLimit,
    /// The stream that has the message.
    pub stream: String,
    /// The sequence of the message in the stream. A message with the same identity and another sequence is a duplicate.
    pub sequence: u64,
}

impl ClaimRecord {
    /// Reads the value of a key.
    ///
    /// # Errors
    /// Why it is no claim, for people.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("it is no claim of this version of fnd: {error}"))
    }

    /// Returns the value for its key.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Says whether a node has a final record of the work.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self.state {
            ClaimState::Done | ClaimState::Interrupted => true,
            ClaimState::Held | ClaimState::Begun => false,
        }
    }

    /// Returns the record with which the holder begins its next attempt.
    #[must_use]
    pub fn begins(&self, now_ms: u64, limit: ClaimLimit) -> Self {
        Self {
            state: ClaimState::Begun,
            attempts: self.attempts.saturating_add(1),
            at_ms: now_ms,
            limit,
            ..self.clone()
        }
    }

    /// Returns the record that the holder writes anew, where its attempt has this limit by now. An end that the record promises
    /// for an attempt comes no earlier.
    #[must_use]
    pub fn kept(&self, limit: ClaimLimit) -> Self {
        let limit = match (self.limit, limit) {
            // The limit is that of the node before, whose attempt is over, and the holder has begun none. So a person need not end it.
            (_, ClaimLimit::Silence(_) | ClaimLimit::Until(_)) if self.state == ClaimState::Held => limit,
            (ClaimLimit::Until(before), ClaimLimit::Until(limit)) => ClaimLimit::Until(before.max(limit)),
            (before, _) => before,
        };
        Self { limit, ..self.clone() }
    }

    /// Returns how many attempts are lost, if the holder does not come back.
    #[must_use]
    pub fn lost_with_holder(&self) -> u32 {
        self.lost.saturating_add(u32::from(self.state == ClaimState::Begun))
    }

    /// Returns the record with which another node takes the message over. The attempts that have begun stay counted.
    #[must_use]
    pub fn taken_over(&self, (node, process): (&str, u64), invocation: InvocationId, now_ms: u64) -> Self {
        Self {
            node: node.to_owned(),
            process,
            invocation,
            state: ClaimState::Held,
            lost: self.lost_with_holder(),
            at_ms: now_ms,
            ..self.clone()
        }
    }

    /// Returns the record of the end; `is_interrupted` says whether the final record says so.
    #[must_use]
    pub fn ended(&self, now_ms: u64, is_interrupted: bool) -> Self {
        Self {
            state: if is_interrupted {
                ClaimState::Interrupted
            } else {
                ClaimState::Done
            },
            at_ms: now_ms,
            ..self.clone()
        }
    }
}

/// The value of a node's key. The node writes it anew to show that it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// A number that only one state directory has. A second fnd with the name of this node finds another number than its
    /// own and takes no messages.
    pub instance: u64,
    /// A number that only one fnd process has. A machine that is a copy of this one has the same instance, and another process.
    pub process: u64,
    /// The version of fnd, for people.
    pub version: String,
    /// When the node wrote it, Unix milliseconds; no decision uses it.
    pub at_ms: u64,
}

impl NodeRecord {
    /// Reads the value of a key; nothing if it is none.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the value for the key.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a claim of the node `vm1`, which has begun its first attempt of message 7.
    pub(crate) fn claim(limit: ClaimLimit) -> ClaimRecord {
        ClaimRecord {
            function: FunctionName::new("f").unwrap(),
            node: "vm1".to_owned(),
            process: 3,
            invocation: InvocationId(1),
            state: ClaimState::Begun,
            attempts: 1,
            lost: 0,
            at_ms: 1_795_248_000_123,
            limit,
            stream: "ORDERS".to_owned(),
            sequence: 7,
        }
    }

    #[test]
    fn a_claim_survives_its_bytes_whatever_its_limit() {
        for limit in [ClaimLimit::Silence(30_000), ClaimLimit::Until(5), ClaimLimit::Person] {
            let claim = claim(limit);
            assert_eq!(ClaimRecord::read(&claim.bytes()), Ok(claim));
        }
    }

    #[test]
    fn further_fields_are_ignored_and_unknown_words_refused() {
        let text = String::from_utf8(claim(ClaimLimit::Person).bytes()).unwrap();
        let more = text.replacen('{', r#"{"region":"eu","#, 1);
        assert_eq!(ClaimRecord::read(more.as_bytes()), Ok(claim(ClaimLimit::Person)));
        let unknown = text.replacen("begun", "paused", 1);
        let error = ClaimRecord::read(unknown.as_bytes()).unwrap_err();
        assert!(error.starts_with("it is no claim of this version of fnd: "), "{error}");
        assert!(ClaimRecord::read(b"").is_err());
    }

    #[test]
    fn a_takeover_keeps_the_count_of_attempts_and_the_next_attempt_adds_one() {
        let taken = claim(ClaimLimit::Silence(30_000)).taken_over(("vm2", 4), InvocationId(2), 9);
        assert_eq!((taken.state, taken.attempts, taken.lost), (ClaimState::Held, 1, 1));
        assert_eq!((taken.node.as_str(), taken.process), ("vm2", 4));
        // A node that has begun nothing loses no attempt.
        assert_eq!(taken.taken_over(("vm3", 5), InvocationId(3), 10).lost, 1);
        let begun = taken.begins(10, ClaimLimit::Silence(30_000));
        assert_eq!((begun.state, begun.attempts, begun.lost), (ClaimState::Begun, 2, 1));
        assert!(!begun.is_final());
        assert_eq!(begun.ended(11, false).state, ClaimState::Done);
        assert!(begun.ended(11, true).is_final());
    }

    #[test]
    fn a_record_that_is_kept_promises_no_earlier_end() {
        let kept = |before, limit| claim(before).kept(limit).limit;
        let until = ClaimLimit::Until;
        assert_eq!(kept(until(5), until(7)), until(7));
        assert_eq!(kept(until(7), until(5)), until(7));
        assert_eq!(kept(ClaimLimit::Silence(9), until(7)), ClaimLimit::Silence(9));
        let held = ClaimRecord {
            state: ClaimState::Held,
            ..claim(until(5))
        };
        assert_eq!(held.kept(ClaimLimit::Silence(9)).limit, ClaimLimit::Silence(9));
        assert_eq!(held.kept(ClaimLimit::Person).limit, until(5));
    }

    #[test]
    fn the_record_of_a_node_survives_its_bytes() {
        let node = NodeRecord {
            instance: u64::MAX,
            process: 3,
            version: "0.2.0".to_owned(),
            at_ms: 1,
        };
        assert_eq!(NodeRecord::read(&node.bytes()), Some(node));
        assert_eq!(NodeRecord::read(b"vm1"), None);
    }
}
