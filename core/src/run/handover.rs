//! Hands workers of handlers over at a planned restart: each connection is left between two messages, and the spawner
//! keeps a record of the calls in flight. After a crash the state of a connection is unknown; then the worker is
//! killed.

use super::Supervisor;
use super::takeover::serving;
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::adoption_records::{AdoptedMember, CallRecord, MemberRecord, RunRecord};
use crate::run_state::function::Presence;
use crate::run_state::run_record::RunOrigin;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{HandlerWorker, Run, Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::WorkerId;
use std::borrow::Cow;
use std::time::Duration;

impl Supervisor {
    /// Returns the adoption record of a handler's worker; absent for one that is being ended, since the next fnd has
    /// nothing to do with it.
    #[must_use]
    pub fn member_record(&self, id: WorkerId) -> Option<MemberRecord<'_>> {
        let worker = self.workers.get(&id)?;
        let member = worker.member()?;
        let goes_on = matches!(
            worker.phase,
            WorkerPhase::Loading { .. } | WorkerPhase::Idle { .. } | WorkerPhase::Busy
        );
        if !goes_on {
            return None;
        }
        let calls = worker.runs.iter().filter_map(|run| {
            let (call, cold) = run.call?;
            let invocation = self.invocations.get(&run.invocation)?;
            Some(CallRecord {
                call,
                run: RunRecord::of(worker, run, invocation),
                cold,
            })
        });
        Some(MemberRecord {
            function: Cow::Borrowed(&self.functions[worker.function].name),
            id: worker.serving.id.0,
            version: worker.serving.version,
            load_key: worker.serving.load_key,
            concurrency: member.ready.then_some(member.concurrency),
            cancels: member.cancels,
            dropped: member.dropped.clone(),
            served: member.served,
            retiring: member.retiring,
            last_call: self.next_call,
            calls: calls.collect(),
            rules: Cow::Borrowed(&*worker.serving.rules),
        })
    }

    /// Adopts a handler's worker as if this fnd had started it.
    pub(super) fn adopt_member(&mut self, now: Now, adopted: AdoptedMember) {
        let AdoptedMember {
            worker: id,
            record,
            age,
            ended,
        } = adopted;
        let Some(pool) = record.rules.kind.pool().copied() else {
            // `members_worth_adopting` returns no such worker.
            return;
        };
        let key = self.functions.find_or_add(&record.function);
        let runs: Vec<Run> = record
            .calls
            .iter()
            .map(|call| self.go_on_calling(now, (id, key), (&record, age), call))
            .collect();
        // A late answer to a call of the earlier fnd must never match a call of this one.
        self.next_call = self.next_call.max(record.last_call);
        let phase = match record.concurrency {
            _ if ended => WorkerPhase::Over,
            None => WorkerPhase::Loading {
                until: now.mono.saturating_add(pool.load_max),
            },
            Some(_) if !runs.is_empty() => WorkerPhase::Busy,
            Some(_) => WorkerPhase::Idle {
                since: now.mono,
                // The idle time starts anew.
                until: pool.idle.map(|idle| now.mono.saturating_add(idle)),
            },
        };
        let function = &mut self.functions[key];
        if !runs.is_empty() {
            function.work.last_call = Some(now.mono);
        }
        let concurrency = record.concurrency.unwrap_or(1);
        if !ended && !record.retiring && record.concurrency.is_some() && runs.len() < to_usize(concurrency) {
            function.work.free.push(id);
        }
        let member = HandlerWorker {
            concurrency,
            cancels: record.cancels,
            dropped: record.dropped,
            served: record.served,
            ready: record.concurrency.is_some(),
            retiring: record.retiring,
            ..HandlerWorker::new(pool)
        };
        let worker = Worker {
            function: key,
            serving: serving(record.id, (record.version, record.load_key), record.rules),
            started: Now {
                mono: now.mono.saturating_sub(age),
                unix_ms: now.unix_ms,
            },
            phase,
            ended_at: None,
            adopted: true,
            ended_before: false,
            runs,
            kind: WorkerKind::Member(Box::new(member)),
        };
        self.insert_adopted_worker(id, worker);
    }

    fn go_on_calling(
        &mut self,
        now: Now,
        (id, key): (WorkerId, FunctionKey),
        (record, worker_age): (&MemberRecord<'_>, Duration),
        call: &CallRecord,
    ) -> Run {
        let age = match call.run.times {
            Some(times) => worker_age.saturating_sub(times.started_after),
            None => Duration::from_millis(now.unix_ms.saturating_sub(call.run.started_ms)),
        };
        let origin = RunOrigin::new(&call.run, record.version, now, age);
        let mut run = self.go_on(now, (id, key), &origin);
        run.call = Some((call.call, call.cold));
        if let Some(ending) = &call.run.ending {
            // The grace starts anew.
            run.ending = Some(ending.clone());
            run.timeout_at = Some(now.mono.saturating_add(record.rules.grace));
        }
        if let Some(at) = run.timeout_at {
            self.timers.arm(at, Timer::Attempt(id, run.invocation));
        }
        run
    }

    /// Retires the workers of functions that were deleted while no fnd was running.
    pub(super) fn retire_deleted(&mut self, now: Now, out: &mut Vec<Action>) {
        let keys: Vec<_> = self.functions.keys().collect();
        for key in keys {
            if matches!(self.functions[key].presence, Presence::Absent) && !self.functions[key].work.running.is_empty()
            {
                self.retire_all(now, key, None, out);
            }
        }
    }
}
