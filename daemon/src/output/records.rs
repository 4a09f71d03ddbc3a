//! Sends records to the ledger, and keeps the records of calls whose output is not counted yet.
//!
//! A call that has printed something is recorded when the output thread has counted its output. Later records of the
//! invocation wait for that; the caller does not.

use crate::ledger::{LedgerCommand, LedgerWriter};
use crate::output::{AttemptKey, Captured};
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_core::run::{Action, Answer};
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::oneshot;

/// The record of an ended attempt, and of its invocation.
pub(crate) type EndedRecords = (Box<AttemptRecord>, Box<InvocationRecord>);

/// The ledger, and the records that wait.
pub(crate) struct Records {
    pub(crate) ledger: LedgerWriter,
    /// Calls that have ended and whose output is not counted yet, with their records, once there are any.
    calls: BTreeMap<AttemptKey, Option<EndedRecords>>,
    /// Those who wait until the output of some of them is counted.
    waiting: Vec<(BTreeSet<AttemptKey>, oneshot::Sender<()>)>,
}

impl Records {
    pub(crate) fn new(ledger: LedgerWriter) -> Self {
        Self {
            ledger,
            calls: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Stores something. The ledger counts a command without room and reports it in `status`.
    pub(crate) fn store(&self, command: LedgerCommand) {
        let _ = self.ledger.submit(command);
    }

    /// Keeps the ends among the actions of an event where a kill of fnd does not lose them, before anyone is told of them.
    /// The spawner also keeps a script's end, but can die together with fnd.
    pub(crate) fn keep_ends(&self, actions: &[Action]) {
        let mut rest = actions;
        while let Some((action, next)) = rest.split_first() {
            match action {
                Action::Record(attempt, record) => {
                    // If fnd is killed now, the next fnd says in the record that the last output is missing.
                    let printed = self.calls.contains_key(&(attempt.invocation, attempt.attempt));
                    self.ledger.ends(attempt, record, printed);
                }
                // Durable work is in the ledger, and the next fnd decides about it. There may be very much of it, so an end
                // gets a slot only if a caller is told of it: the next fnd may run the work, for example because the file of
                // a deleted function is back.
                Action::Update(record) if record.state.is_final() && (!record.durable || is_told(record, next)) => {
                    self.ledger.ends_waiting(record);
                }
                // No other action is an end.
                _ => {}
            }
            rest = next;
        }
    }

    /// Notes that the output of a call that has ended is still to be counted.
    pub(crate) fn await_output(&mut self, key: AttemptKey) {
        self.calls.insert(key, None);
    }

    /// Keeps the record of a call until its output is counted. Returns it where there is nothing to wait for.
    pub(crate) fn keep(&mut self, ended: EndedRecords) -> Option<EndedRecords> {
        match self.calls.get_mut(&(ended.0.invocation, ended.0.attempt)) {
            // A call without an entry has nothing to wait for. One that has a record already is not overwritten.
            Some(kept @ None) => {
                *kept = Some(ended);
                None
            }
            _ => Some(ended),
        }
    }

    /// The output of a call is counted. Returns its record, which is complete now.
    pub(crate) fn output_counted(&mut self, key: AttemptKey, captured: &Captured) -> Option<EndedRecords> {
        let ended = self.counted(key, captured)?;
        // The slot is written again: the output is complete from now on, and a record made of the slot must not say
        // that it is missing.
        self.ledger.ends(&ended.0, &ended.1, false);
        Some(ended)
    }

    /// Returns how many calls have ended whose output is not counted yet.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn awaited(&self) -> usize {
        self.calls.len()
    }

    /// Returns a receiver for the moment in which the records of all answered calls are on their way to the ledger; nothing
    /// if they are.
    pub(crate) fn wait_for_output(&mut self) -> Option<oneshot::Receiver<()>> {
        let keys: BTreeSet<AttemptKey> = self.calls.keys().copied().collect();
        if keys.is_empty() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push((keys, sender));
        Some(receiver)
    }

    /// Returns the records that wait for their output, because a newer record of the invocation follows, or (without an
    /// invocation) because fnd ends.
    pub(crate) fn due(&mut self, invocation: Option<InvocationId>) -> Vec<EndedRecords> {
        // This is asked for every record, and most functions print nothing during their calls.
        if self.calls.is_empty() {
            return Vec::new();
        }
        let of = |(id, _): &AttemptKey| invocation.is_none_or(|invocation| invocation == *id);
        let due: Vec<_> = self.calls.extract_if(.., |key, _| of(key)).collect();
        due.iter().for_each(|(key, _)| self.is_over(*key));
        due.into_iter().filter_map(|(_, ended)| ended).collect()
    }

    fn counted(&mut self, key: AttemptKey, captured: &Captured) -> Option<EndedRecords> {
        let found = self.calls.remove(&key)?;
        // The wait for this call is over even if its record has not come: from now on the record waits for nothing.
        self.is_over(key);
        let mut ended = found?;
        let usage = &mut ended.0.usage;
        usage.stdout_bytes = captured.stdout_bytes;
        usage.stderr_bytes = captured.stderr_bytes;
        usage.dropped_bytes = captured.dropped_bytes;
        Some(ended)
    }

    /// Tells those who waited for this call alone.
    fn is_over(&mut self, key: AttemptKey) {
        for (keys, _) in &mut self.waiting {
            keys.remove(&key);
        }
        for (_, sender) in self.waiting.extract_if(.., |(keys, _)| keys.is_empty()) {
            let _ = sender.send(()); // an error: the caller has left
        }
    }
}

/// Returns whether a caller is told of this end: the answers come right after the record.
fn is_told(record: &InvocationRecord, next: &[Action]) -> bool {
    matches!(next.first(), Some(Action::Reply(_, Answer::Finished(told))) if told.id == record.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{OpenedLedger, Retention, Site};
    use crate::metrics::tests::attempt;
    use crate::report::examples;
    use fnd_core::records::outcome::{Reason, RunState, Skip};
    use fnd_core::run::ReplyTo;
    use fnd_manifest::settings::OnDamage;
    use fnd_wire::ids::Attempt;
    use std::path::Path;

    fn ended(id: u128, number: u32) -> EndedRecords {
        let mut attempt = attempt("hello", Reason::Ok);
        (attempt.invocation, attempt.attempt) = (InvocationId(id), Attempt(number));
        (Box::new(attempt), Box::new(examples::ended(Reason::Ok)))
    }

    fn keys(ended: &[EndedRecords]) -> Vec<AttemptKey> {
        ended
            .iter()
            .map(|ended| (ended.0.invocation, ended.0.attempt))
            .collect()
    }

    fn open(directory: &Path) -> OpenedLedger {
        let site = Site {
            state: directory,
            run: directory,
            on_damage: OnDamage::SetAside,
        };
        crate::ledger::open(site, Retention::default(), &[], |_| {}).unwrap()
    }

    /// Returns records with a ledger that gets none of them.
    fn records() -> (tempfile::TempDir, Records) {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(open(directory.path()).writer);
        records.ledger.stop();
        (directory, records)
    }

    /// A call is cancelled while it waits for its retry, and fnd is killed before the end is stored.
    #[test]
    fn a_call_that_ended_between_two_attempts_has_ended_for_the_next_fnd() {
        let directory = tempfile::tempdir().unwrap();
        let (attempt, mut record) = ended(1, 1);
        record.durable = false;
        let mut waiting = record.clone();
        (waiting.state, waiting.ended_ms) = (RunState::Waiting, None);
        (record.state, record.reason) = (RunState::Cancelled, Some(Reason::Cancelled));
        let records = Records::new(open(directory.path()).writer);
        records.keep_ends(&[Action::Record(attempt, waiting), Action::Update(record)]);
        records.ledger.stop();
        let next = open(directory.path());
        assert_eq!(next.restored.unfinished, []);
        next.writer.stop();
    }

    /// A caller waits for the end of the first run, which has an idempotency key; nobody waits for the end of the second run. Their
    /// function is deleted while the disk is full, and fnd is killed.
    #[test]
    fn durable_work_whose_end_was_told_has_ended_for_the_next_fnd() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(open(directory.path()).writer);
        let end = |id| InvocationRecord {
            id: InvocationId(id),
            attempts: 0,
            ..examples::ended(Reason::Skipped(Skip::Deleted))
        };
        for id in [1, 2] {
            let queued = InvocationRecord {
                state: RunState::Queued,
                ended_ms: None,
                reason: None,
                ..end(id)
            };
            records.store(LedgerCommand::Update(Box::new(queued)));
        }
        let answer = Answer::Finished(Box::new(end(1)));
        records.keep_ends(&[
            Action::Update(Box::new(end(1))),
            Action::Reply(ReplyTo(1), answer),
            Action::Update(Box::new(end(2))),
        ]);
        records.ledger.stop();
        let next = open(directory.path());
        let unfinished = next.restored.unfinished.iter().map(|found| found.record.id);
        assert_eq!(unfinished.collect::<Vec<_>>(), [InvocationId(2)]);
        next.writer.stop();
    }

    #[test]
    fn a_record_waits_for_its_output_and_for_no_other() {
        let (_directory, mut awaited) = records();
        let (first, second) = ((InvocationId(1), Attempt(1)), (InvocationId(1), Attempt(2)));
        assert!(awaited.keep(ended(1, 1)).is_some(), "nothing was printed");
        awaited.calls.insert(first, None);
        assert!(awaited.keep(ended(1, 1)).is_none());
        assert!(awaited.keep(ended(1, 2)).is_some());
        let captured = Captured {
            stdout_bytes: 7,
            ..Captured::default()
        };
        assert!(awaited.counted(second, &captured).is_none());
        assert_eq!(awaited.counted(first, &captured).unwrap().0.usage.stdout_bytes, 7);
        assert!(awaited.counted(first, &captured).is_none(), "once");
    }

    #[test]
    fn a_backup_waits_for_the_calls_that_were_answered_before_it() {
        let (_directory, mut awaited) = records();
        assert!(awaited.wait_for_output().is_none());
        let (first, second) = ((InvocationId(1), Attempt(1)), (InvocationId(2), Attempt(1)));
        awaited.calls.insert(first, None);
        awaited.calls.insert(second, None);
        let mut waits = awaited.wait_for_output().unwrap();
        awaited.calls.insert((InvocationId(3), Attempt(1)), None);
        awaited.counted(first, &Captured::default());
        assert!(waits.try_recv().is_err());
        awaited.due(Some(second.0));
        assert!(waits.try_recv().is_ok());
    }

    #[test]
    fn what_a_newer_record_follows_waits_no_longer() {
        let (_directory, mut awaited) = records();
        for (id, number) in [(1, 1), (2, 1), (3, 1)] {
            awaited.calls.insert((InvocationId(id), Attempt(number)), None);
        }
        assert!(awaited.keep(ended(1, 1)).is_none() && awaited.keep(ended(2, 1)).is_none());
        assert_eq!(
            keys(&awaited.due(Some(InvocationId(1)))),
            [(InvocationId(1), Attempt(1))]
        );
        // The third has ended, but its record has not come yet.
        assert_eq!(keys(&awaited.due(None)), [(InvocationId(2), Attempt(1))]);
        assert!(awaited.due(None).is_empty());
    }

    #[test]
    fn records_that_no_longer_wait_are_in_the_order_of_their_invocations() {
        let (_directory, mut awaited) = records();
        for id in (1..=8).rev() {
            awaited.calls.insert((InvocationId(id), Attempt(1)), None);
            assert!(awaited.keep(ended(id, 1)).is_none());
        }
        let sorted = (1..=8).map(|id| (InvocationId(id), Attempt(1)));
        assert!(keys(&awaited.due(None)).into_iter().eq(sorted));
    }
}
