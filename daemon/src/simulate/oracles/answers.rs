//! O2, O3, O4: an answer to a person is true, and stays true. Accepted work has a row in the ledger when its caller gets the
//! answer, and one end that never changes. A caller who is told an end is told this one.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Death, Fact};
use crate::simulate::people::{ActAnswer, AnsweredAct};
use crate::simulate::rows::{InvocationRow, LedgerRows};
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::{Reason, RunState};
use fnd_core::run::{Answer, Now};
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the end of a call may wait after its answer until it goes to the ledger: fnd gathers records for 50 ms, and the
/// output of the call may have to be read first.
const STORED_WITHIN: Duration = Duration::from_secs(1);

/// The answers that people have got about invocations.
#[derive(Debug, Default)]
pub(super) struct AnswersOracle {
    promised: BTreeMap<InvocationId, AnswerPromise>,
    /// The invocations whose newest attempt is that of a script: the spawner keeps its result until the ledger has it.
    of_scripts: BTreeSet<InvocationId>,
    /// The ends that were in the ledger at a death. A power cut clears them.
    ended: BTreeMap<InvocationId, (RunState, Option<Reason>, u32)>,
    /// The last time at which a commit was done that a power cut cannot undo, and nothing waited to be stored after it.
    synced_at: Duration,
    now: Duration,
}

#[derive(Debug)]
struct AnswerPromise {
    /// Whether the invocation was on disk before its caller heard of it.
    durable: bool,
    told_at: Duration,
    /// The end that was told.
    end: Option<Box<InvocationRecord>>,
}

/// O4: when a person is told that work is queued, the ledger has it already.
pub(super) fn is_stored(fact: &Fact, has_row: impl Fn(InvocationId) -> bool) -> PromiseCheck {
    if let Fact::Answered(told) = fact {
        let missing = accepted(told).into_iter().find(|id| !has_row(*id));
        if let Some(id) = missing {
            return Err(format!("O4: {id} was accepted, and the ledger does not have it"));
        }
    }
    Ok(())
}

/// Returns the durable invocations that an answer names.
fn accepted(told: &AnsweredAct) -> Vec<InvocationId> {
    match &told.heard {
        ActAnswer::Answer(Answer::Queued(id)) => vec![*id],
        ActAnswer::Published(Ok(delivered)) => {
            let taken = delivered.iter().flat_map(|delivered| &delivered.invocations);
            taken.map(|taken| taken.id).collect()
        }
        _ => Vec::new(),
    }
}

impl Oracle for AnswersOracle {
    fn see(&mut self, now: Now, fact: &Fact) -> PromiseCheck {
        self.now = now.mono;
        match fact {
            Fact::Answered(told) => self.told(told),
            // A function may be a script in one attempt and a handler in the next one.
            Fact::Began(began) if began.is_call => drop(self.of_scripts.remove(&began.invocation)),
            Fact::Began(began) => drop(self.of_scripts.insert(began.invocation)),
            // The results that the spawner kept are gone, also if fnd is killed before it learns of that.
            Fact::SpawnerEnded => self.of_scripts.clear(),
            Fact::Committed(commit) if commit.is_done && commit.is_complete && commit.is_synced => {
                self.synced_at = self.now;
            }
            // No other fact makes a promise, or ends one.
            _ => {}
        }
        Ok(())
    }

    fn at_death(&mut self, death: Death, rows: &LedgerRows) -> PromiseCheck {
        let has_power = death != Death::PowerCut;
        let synced_at = self.synced_at;
        self.promised.retain(|id, promise| {
            let is_stored = promise.end.is_some() && promise.told_at + STORED_WITHIN < synced_at;
            let is_ended = rows.invocations.get(id).is_some_and(|row| row.state.is_final());
            // Until an end that was told is stored, it is in its slot, which only a power cut loses.
            let has_end = has_power || is_stored || is_ended;
            if !has_power && !has_end {
                // Its acceptance lasts, and the next fnd ends it.
                promise.end = None;
            }
            promise.durable || has_end
        });
        if matches!(death, Death::Both | Death::PowerCut) {
            // The results that the spawner kept are gone, and so are those of calls.
            self.of_scripts.clear();
        }
        if !has_power {
            // The log may have lost ends that no person has heard of.
            self.ended.clear();
            // The monotonic clock of the machine begins anew.
            self.synced_at = Duration::ZERO;
        }
        self.compare(rows)?;
        for (id, promise) in &self.promised {
            let lasts = |row: &InvocationRow| row.durable || row.state.is_final();
            if promise.durable && !rows.invocations.get(id).is_some_and(lasts) {
                return Err(format!("O2: {id} was accepted, and the ledger has lost it"));
            }
        }
        Ok(())
    }

    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        self.compare(rows)?;
        for (id, promise) in &self.promised {
            let Some(row) = rows.invocations.get(id) else {
                return Err(format!("O2: people know of {id}, and the ledger does not"));
            };
            if let Some(end) = promise.end.as_deref() {
                is_same(end, row, self.of_scripts.contains(id))?;
            }
        }
        rows.invocations.iter().try_for_each(|(id, row)| {
            let recorded = rows.attempts.get(id).and_then(|attempts| attempts.last());
            if recorded.is_some_and(|last| *last > row.attempts) {
                return Err(format!(
                    "O2: {id} has {} attempts, and a row of attempt {recorded:?}",
                    row.attempts
                ));
            }
            Ok(())
        })
    }
}

impl AnswersOracle {
    fn told(&mut self, told: &AnsweredAct) {
        for id in accepted(told) {
            self.promise(id, true, None);
        }
        match &told.heard {
            ActAnswer::Answer(Answer::Finished(record)) => {
                // Its caller may have waited before a request that did not wait made it durable.
                self.promise(record.id, false, Some(record.clone()));
            }
            ActAnswer::Answer(Answer::TimedOut { id, .. }) => self.promise(*id, false, None),
            // No other answer promises that the run is in the history.
            _ => {}
        }
    }

    fn promise(&mut self, id: InvocationId, durable: bool, end: Option<Box<InvocationRecord>>) {
        let told_at = self.now;
        let promise = self.promised.entry(id).or_insert(AnswerPromise {
            durable,
            told_at,
            end: None,
        });
        promise.durable |= durable;
        // The first end counts: a caller with the same key may hear of it again later.
        if promise.end.is_none() && end.is_some() {
            (promise.told_at, promise.end) = (told_at, end);
        }
    }

    /// O2: an end that is stored does not change.
    fn compare(&mut self, rows: &LedgerRows) -> PromiseCheck {
        let is_final = |(_, row): &(&InvocationId, &InvocationRow)| row.state.is_final();
        for (id, row) in rows.invocations.iter().filter(is_final) {
            let end = (row.state, row.reason, row.attempts);
            let before = self.ended.entry(*id).or_insert(end);
            if *before != end {
                return Err(format!("O2: the end of {id} was {before:?}, and is {end:?} now"));
            }
        }
        Ok(())
    }
}

/// O3: the end that a caller was told is the end in the ledger.
fn is_same(told: &InvocationRecord, row: &InvocationRow, has_result: bool) -> PromiseCheck {
    let id = told.id;
    let (before, after) = (
        (told.state, told.reason, told.attempts),
        (row.state, row.reason, row.attempts),
    );
    if before != after {
        return Err(format!(
            "O3: a caller of {id} was told {before:?}, and the ledger says {after:?}"
        ));
    }
    let result = told.result.as_ref().map(|result| &result.data[..]);
    // A kill may lose the result of a call, and an empty result is none.
    let is_there = row.result.is_some() || (has_result && result.is_some_and(|result| !result.is_empty()));
    if is_there && row.result.as_deref() != result {
        return Err(format!(
            "O3: a caller of {id} was told another result than the ledger has"
        ));
    }
    Ok(())
}
