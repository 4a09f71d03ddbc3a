//! Which fnd has the name of this node: this process, one before it, or a machine that is a copy of this one.

use super::fact::FoundKey;
use fnd_core::triggers::nats::claim::NodeRecord;
use fnd_core::triggers::nats::witness::SilenceProof;
use std::time::Duration;

/// The facts by which this process decides whether the name of this node is its own.
#[derive(Debug, Default)]
pub(super) struct NameBook {
    /// A number that no other process has.
    process: u64,
    /// The process of this node that had the key before this one, if there was one; absent before the key was read.
    before: Option<Option<u64>>,
    /// Since when the key is this process's.
    since: Option<Duration>,
}

impl NameBook {
    /// Begins, if this process has no number yet.
    pub(super) fn begins(&mut self) {
        if self.process == 0 {
            self.process = fastrand::u64(1..);
        }
    }

    /// The node gets another name or bucket, or none.
    pub(super) fn is_given_up(&mut self) {
        (self.before, self.since) = (None, None);
    }

    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// Takes the record of the key. Returns whether it is this node's. A machine that is a copy of this one has written it if its
    /// process is neither this one nor the one that was there before.
    pub(super) fn is_own(&mut self, found: Option<&FoundKey>, instance: u64) -> bool {
        let record = found.and_then(|found| NodeRecord::read(&found.value));
        let process = record
            .filter(|record| record.instance == instance)
            .map(|record| record.process);
        let before = *self.before.get_or_insert(process);
        let is_this = process == Some(self.process);
        if !is_this {
            self.since = None;
        }
        is_this || (process.is_some() && process == before)
    }

    /// The key was written at `now`, at the latest.
    pub(super) fn is_written(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Says whether all others with this name were silent for `time`: none of them renews its lease since this process has it.
    pub(super) fn silence(&self, time: Duration, now: Duration) -> SilenceProof {
        let silent = self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        match time.checked_sub(silent) {
            Some(rest) if !rest.is_zero() => SilenceProof::Wants(rest),
            _ => SilenceProof::Given(silent),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::at;
    use super::*;

    /// Returns the key of a node as one with this instance and this process has written it.
    pub(crate) fn written_by(instance: u64, process: u64, revision: u64) -> FoundKey {
        let record = NodeRecord {
            instance,
            process,
            version: "0.2.0".to_owned(),
            at_ms: 1,
        };
        FoundKey {
            value: record.bytes().into(),
            revision,
            stamp: revision,
        }
    }

    #[test]
    fn an_fnd_with_the_name_of_this_one_is_silent_since_this_one_has_it() {
        let mut name = NameBook::default();
        let ten = Duration::from_secs(10);
        assert_eq!(name.silence(ten, at(99).mono), SilenceProof::Wants(ten));
        name.is_written(at(100).mono);
        name.is_written(at(105).mono);
        let second = Duration::from_secs(1);
        assert_eq!(name.silence(ten, at(109).mono), SilenceProof::Wants(second));
        assert_eq!(name.silence(ten, at(110).mono), SilenceProof::Given(ten));
        let key = |process| written_by(7, process, 9);
        assert!(name.is_own(Some(&key(0)), 7));
        assert_eq!(name.silence(ten, at(110).mono), SilenceProof::Given(ten));
        assert!(!name.is_own(Some(&key(6)), 7), "a copy has had it");
        assert_eq!(name.silence(ten, at(110).mono), SilenceProof::Wants(ten));
    }
}
