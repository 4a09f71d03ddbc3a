//! Carries out what the supervisor decides: one match over [`Action`]. Results return later as an [`Event`].
//!
//! This is also the one place of the driver that submits runs. A trigger makes its request with [`Driver::new_submit`], fills in
//! the rest, and submits the request at once, after the present event, or as a part of a transaction. Requests of callers that
//! wait for an answer come through `backend`, which gets its ids here.

use super::Driver;
use crate::allocator;
use crate::callers::spin::SpinStep;
use crate::clock::unix_ms;
use crate::ledger::{Begun, LedgerCommand};
use crate::output::{EndedRecords, message};
use crate::triggers::nats::MessageAttempt;
use crate::workers::adoption;
use fnd_core::lifecycle::CheckEnd;
use fnd_core::lifecycle::waiting_builds::BuildEnd;
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::{Reason, Skip, Trigger};
use fnd_core::report::ReportEvent;
use fnd_core::run::{Action, AttemptOrder, Event, Notice, Now, SpawnOrder, Submit};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{AdoptionRecord, Request};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::time::Duration;

impl Driver {
    /// Handles an event and everything that follows from it at once.
    pub(crate) fn step(&mut self, event: Event) {
        self.answer_first(event);
        self.catch_up();
    }

    /// Handles an event and does at once what somebody waits for: a call, an answer. Everything else is kept for
    /// [`Self::catch_up`], so that a worker and a caller need not wait for their own records.
    pub(crate) fn answer_first(&mut self, event: Event) {
        self.at_once(event, |action| matches!(action, Action::Call(_) | Action::Reply(..)));
    }

    /// Handles the end of a script: reports its status and answers its caller before everything else. The caller may
    /// read the status file next.
    pub(crate) fn show_and_answer_first(&mut self, event: Event) {
        self.at_once(event, |action| {
            matches!(
                action,
                Action::Known(_)
                    | Action::Gone(_)
                    | Action::Serves(..)
                    | Action::Refused(..)
                    | Action::CanaryServes(..)
                    | Action::TrialFailed { .. }
                    | Action::Status(_)
                    | Action::Reply(..)
            )
        });
    }

    fn at_once(&mut self, event: Event, is_waited_for: impl Fn(&Action) -> bool) {
        // The actions of earlier events come first. Otherwise two events' actions on one function would change places.
        self.catch_up();
        let mut actions = self.decide(event);
        for action in actions.drain(..) {
            // Calls and answers overtake the other actions of the same event. The others keep their order among
            // themselves.
            if is_waited_for(&action) {
                self.perform(action);
            } else {
                self.turn.rest.push_back(action);
            }
        }
        self.turn.actions = actions;
    }

    /// Performs the actions that were kept, in their order, and everything that follows from them.
    pub(crate) fn catch_up(&mut self) {
        loop {
            while let Some(action) = self.turn.rest.pop_front() {
                self.perform(action);
            }
            // Watchers, measurements, builds and checks come only when no start of a worker waits: the spawner refuses
            // a number of a worker that is smaller than one before.
            let Some(event) = self.turn.follow_up.pop_front() else {
                if self.carry_out_for_messages() {
                    continue;
                }
                if let Some(function) = self.turn.watchers.pop_front() {
                    self.start_watcher(&function);
                } else if let Some(function) = self.turn.measurements.pop_front() {
                    self.start_measurement(function);
                } else if let Some(end) = self.turn.builds.pop_front() {
                    self.decide_lifecycle(|lifecycle, node, out| lifecycle.build_ended(end, node, out));
                } else if let Some(end) = self.turn.checks.pop_front() {
                    self.decide_lifecycle(|lifecycle, node, out| lifecycle.check_ended(end, node, out));
                } else {
                    return;
                }
                continue;
            };
            let mut actions = self.decide(event);
            self.turn.rest.extend(actions.drain(..));
            self.turn.actions = actions;
        }
    }

    /// Has the supervisor decide what follows from an event. Ends of attempts are kept before anybody is told of them.
    pub(super) fn decide(&mut self, mut event: Event) -> Vec<Action> {
        self.changes += 1;
        let mut actions = std::mem::take(&mut self.turn.actions);
        // Masking comes first: the supervisor copies these messages into records.
        self.workers.masks.event(&mut event);
        let now = self.clock.now();
        // The tick that ends attempts without a lease may come later than an event that lets one begin.
        if let Some(lost) = self.nats.over(now) {
            self.reporter.observe(&lost);
            self.supervisor.handle(now, lost, &mut actions);
        }
        // The event may have waited since it was made.
        self.nats.take_late(now, &mut event);
        self.reporter.observe(&event);
        self.supervisor.handle(now, event, &mut actions);
        #[cfg(feature = "simulate")]
        if fnd_core::mutants::Mutant::EndNotKept.is_on() {
            return actions;
        }
        // The slots get the ends before any action is performed: a kill after an answer must not turn the attempt into
        // `interrupted`.
        self.records.keep_ends(&actions);
        actions
    }

    fn perform(&mut self, action: Action) {
        // Also here: an action that was put off changes what the parts show, after the decision was counted.
        self.changes += 1;
        match action {
            Action::Claim(record) => {
                let id = record.id;
                // The ledger gets the record of the last attempt before the claim of the next one.
                self.record_due(Some(id));
                self.claim(record);
                // A mutant is a fault that the simulation has to find. It exists only in that build.
                #[cfg(feature = "simulate")]
                if fnd_core::mutants::Mutant::StartBeforeClaim.is_on() {
                    self.turn.follow_up.push_back(Event::Claimed(vec![id]));
                }
            }
            Action::Spawn(mut order) => {
                let mut deadline = None;
                if let Some(attempt) = &mut order.attempt {
                    self.nats.name_claim(attempt);
                    deadline = self.attempt_begins(self.clock.now(), attempt, (order.worker, order.lasts));
                }
                if let Some(deadline) = deadline {
                    order.lasts = Some(deadline.saturating_sub(self.clock.now().mono));
                }
                self.reporter.worker_requested(&order);
                self.spawn(&order);
                if deadline.is_some() {
                    // The spawner may read the order late, and counts its time from then on.
                    self.workers.lease(order.worker, deadline);
                }
            }
            Action::Run(function) => self.submit_after_event(function, Trigger::Load),
            Action::Call(mut order) => {
                self.nats.name_claim(&mut order.attempt);
                self.reporter.attempt_begins(&order.attempt);
                let now = self.clock.now();
                let begun = Begun::by(&order.function, &order.attempt, now.unix_ms);
                #[cfg(feature = "simulate")]
                if fnd_core::mutants::Mutant::SlotAfterStart.is_on() {
                    self.turn.follow_up.extend(self.workers.call(&order, None));
                    return self.records.ledger.begins(begun);
                }
                // The slot is written before the worker gets the call. A kill of fnd between the two hides no attempt.
                self.records.ledger.begins(begun);
                let deadline = self.attempt_begins(now, &order.attempt, (order.worker, None));
                self.turn.follow_up.extend(self.workers.call(&order, deadline));
                // The answer often comes within some microseconds, so the main thread may look for it without sleeping.
                self.spin.message_follows(SpinStep::Answer, self.callers.waiting());
            }
            Action::CanaryFailed(function) => self.decide_lifecycle(|lifecycle, node, out| {
                lifecycle.canary_failed(&function, node.now.unix_ms, out);
            }),
            Action::CancelCall { worker, call } => self.workers.cancel_call(worker, call),
            Action::DropCall { worker, call } => {
                // No answer will come for this call, but what it has printed still belongs to its record.
                if let Some(printed) = self.workers.end_call(worker, call) {
                    self.records.await_output(printed);
                }
            }
            Action::Stop(worker) => self.workers.stop(worker),
            Action::Forget(worker, function) => {
                self.forget(worker);
                // This may have been the last worker of an old version, which can be deleted now.
                if let Some(function) = function {
                    self.prune(&function);
                }
            }
            Action::Term(worker) => self.terminate(worker),
            Action::KeepReason(worker) => self.keep_reason(worker),
            Action::Kill(worker) => {
                self.workers.is_ending(worker);
                self.workers.kill(worker);
            }
            Action::Store(accepted) => {
                let (function, id, trigger) = (&accepted.function, accepted.id, accepted.trigger);
                self.report(ReportEvent::Accepted { function, id, trigger });
                let durable = accepted.durable;
                // Refused: the disk is so far behind that new work must wait. Work that is not durable goes on
                // unrecorded until its end; the record of its end has more room.
                if self.records.ledger.submit(LedgerCommand::Store(accepted)).is_err() && durable {
                    self.trigger_stored(id, false);
                    self.turn.follow_up.push_back(Event::StoreFailed(id));
                    self.not_stored(id, "the disk is too far behind");
                }
            }
            Action::MakeDurable { id, dead_letter } => {
                let command = LedgerCommand::MakeDurable { id, dead_letter };
                if self.records.ledger.submit(command).is_err() {
                    self.turn.follow_up.push_back(Event::StoreFailed(id));
                }
            }
            Action::StoreCaller(accepted) => self.records.store(LedgerCommand::Store(accepted)),
            Action::Publish(shares) => {
                let number = shares.number;
                let since_ms = self.node.settings.settings.events.since_ms(shares.accepted_ms);
                let publish = LedgerCommand::Publish { shares, since_ms };
                if self.records.ledger.submit(publish).is_err() {
                    self.turn.follow_up.push_back(Event::PublishFailed(number));
                }
            }
            Action::Record(attempt, record) => {
                // The memory of ended invocations is counted, and given back to the kernel when fnd comes to rest.
                allocator::freed(allocator::INVOCATION);
                self.nats.attempt_ended(self.clock.now(), record.id, attempt.attempt);
                self.nats.ends(&record);
                // The record of a call whose output is still being read waits for the counts of that output.
                if let Some((attempt, record)) = self.records.keep((attempt, record)) {
                    self.record_due(Some(record.id));
                    // A worker that has not ended has no lines here.
                    let output = attempt
                        .worker
                        .and_then(|worker| self.follow_ups.outputs.remove(&worker));
                    self.record((attempt, record), &output.unwrap_or_default());
                }
            }
            Action::PutBack(attempt, record) => {
                self.reporter.put_back(record.id, attempt);
                self.nats.attempt_ended(self.clock.now(), record.id, attempt);
                // The slot goes first: if fnd is killed now, the next fnd sees a claim without a slot, which is an
                // attempt that has not begun.
                self.records.ledger.has_not_begun(record.id, attempt);
                self.records.store(LedgerCommand::Update(record));
            }
            Action::Update(record) => {
                allocator::freed(allocator::INVOCATION);
                self.record_due(Some(record.id));
                if record.state.is_final() {
                    self.report(ReportEvent::EndedWaiting(&record));
                    self.report(ReportEvent::InvocationEnded(&record));
                }
                // A caller that waits for the end asks the ledger's reader next. The caller's task runs after this
                // turn, so the ledger has the record by then.
                self.ended(&record, "");
                self.nats.ends(&record);
                if let Some(Reason::Skipped(skip)) = record.reason {
                    self.skipped(&record.function, skip);
                }
                let parts = self.after_end(&record, "");
                self.store_end(LedgerCommand::Update(record), parts);
            }
            Action::Withdraw(id) => {
                // No end is reported: the work goes on at another node.
                self.callers.ended(id);
                self.nats.withdrawn(self.clock.now(), id);
                self.records.store(LedgerCommand::Withdraw(id));
            }
            Action::Dropped(id) => self.callers.ended(id),
            Action::Supersede(record, node) => {
                allocator::freed(allocator::INVOCATION);
                self.record_due(Some(record.id));
                self.report(ReportEvent::EndedWaiting(&record));
                self.report(ReportEvent::InvocationEnded(&record));
                self.ended(&record, "");
                self.nats.superseded(record.id);
                // `Supersede` comes first: after it, the final record makes no dead letter. No hooks are called for
                // this end, because another node goes on.
                let superseded = LedgerCommand::Supersede { id: record.id, node };
                let parts = vec![superseded, LedgerCommand::Update(record)];
                self.records.store(LedgerCommand::Together(parts));
            }
            Action::Follow(id, payload) => drop(self.follow_ups.payloads.insert(id, *payload)),
            Action::EnabledChanged(function) => self.follow_triggers(&function),
            Action::Release { function, invocation } => self.workers.release_tmp(Some((function, invocation))),
            Action::Reply(to, answer) => {
                self.callers.answer(to, answer);
                self.spin.message_follows(SpinStep::Request, self.callers.waiting());
            }
            Action::Known(function) => self.report(ReportEvent::FunctionKnown(&function)),
            Action::Gone(function) => self.function_gone(&function),
            Action::Serves(function, version) => self.version_serves(&function, version),
            Action::Refused(function, error) => self.report_refused(&function, &error),
            Action::CanaryServes(function, version) => self.decide_lifecycle(|lifecycle, node, out| {
                lifecycle.canary_serves(&function, version, node.now.unix_ms, out);
            }),
            Action::TrialFailed {
                function,
                version,
                error,
            } => self.trial_failed(&function, version, &error),
            Action::Status(function) => self.status_changed(&function),
            // A pause of starts is a problem of the node. The comparison of problems reports its beginning and its end.
            Action::Notice(Notice::StartsChanged) => self.problems_changed(),
            Action::Notice(notice) => {
                self.report(ReportEvent::Notice(&notice));
                if let Notice::Rejected { function, skip, .. } = &notice {
                    self.skipped(function, *skip);
                }
            }
            Action::Drained => self.callers.drained(),
        }
    }

    /// Wakes the callers that wait for an invocation's end. The ledger's reader sees what was handed to its writer.
    fn ended(&mut self, record: &InvocationRecord, output: &str) {
        if record.state.is_final() {
            self.turn.builds.extend(BuildEnd::of(record, output));
            let state = &self.node.places.state;
            let end = CheckEnd::of(record, |line| message::shown(state, line));
            self.turn.checks.extend(end);
            self.workers.uploads.remove(&record.id);
            self.callers.ended(record.id);
        }
    }

    /// Does what follows from a refusal of work of a function.
    fn skipped(&mut self, function: &FunctionName, skip: Skip) {
        match skip {
            Skip::QueueFull => self.queue_full(function),
            Skip::Quota => self.quota_refused(function),
            _ => {}
        }
    }

    /// Stores an ended attempt and what follows from it; `output` is the last lines that it printed.
    pub(crate) fn record(&mut self, (attempt, record): EndedRecords, output: &str) {
        self.reporter.attempt_ended(&attempt, &record);
        self.ended(&record, output);
        // The attempt may have been the last one on an old version.
        self.prune(&record.function);
        // The calls that follow are accepted before the end is stored, so that one transaction has both.
        let parts = self.after_end(&record, output);
        self.store_end(LedgerCommand::Record(attempt, record), parts);
    }

    /// Stores the records that wait for their output, because a newer record of the invocation follows, or (without an
    /// invocation) because fnd ends.
    pub(crate) fn record_due(&mut self, invocation: Option<InvocationId>) {
        for ended in self.records.due(invocation) {
            self.record(ended, "");
        }
    }

    fn spawn(&mut self, order: &SpawnOrder) {
        let user = self.serving(&order.function).map(|serving| serving.uid);
        // The slot of the attempt is written only after `prepare`. So a failure of `prepare` leaves nothing behind.
        let prepared = match self.workers.prepare(order, user) {
            Ok(prepared) => prepared,
            Err(event) => return self.turn.follow_up.push_back(*event),
        };
        let invocation = match &order.attempt {
            Some(run) => {
                let begun = Begun::by(&order.function, run, self.clock.now().unix_ms);
                self.records.ledger.begins(begun);
                run.invocation
            }
            None => self.next_id(),
        };
        let script = self.supervisor.script_record(order.worker);
        self.workers.start(order, prepared, invocation, script);
    }

    /// Sends a worker SIGTERM. The spawner first gets the reason, which it keeps for the next fnd.
    fn terminate(&mut self, worker: WorkerId) {
        self.workers.is_ending(worker);
        self.keep_reason(worker);
        self.workers.request(&Request::Term(worker));
    }

    /// Has the spawner keep why a script is being ended. A handler's worker has no such reason.
    fn keep_reason(&mut self, worker: WorkerId) {
        if let Some(script) = self.supervisor.record_of_ending(worker) {
            let record = Bytes(adoption::adoption_record(None, Some(script)));
            // A record that is too large stays as it was.
            if !record.0.is_empty() {
                let replaced = Request::AdoptionRecord(AdoptionRecord { worker, record });
                self.workers.request(&replaced);
            }
        }
    }

    /// Releases what is kept for the next fnd about a worker that has ended.
    pub(crate) fn forget(&mut self, worker: WorkerId) {
        self.workers.request(&Request::Acknowledge(worker));
        self.output.release(worker);
        self.follow_ups.outputs.remove(&worker);
    }
}

impl Driver {
    /// Returns a new id; it contains the present time.
    pub(crate) fn next_id(&mut self) -> InvocationId {
        self.ids.next(unix_ms())
    }

    /// Returns a request to run with a new id.
    pub(crate) fn new_submit(&mut self, function: FunctionName, trigger: Trigger) -> Submit {
        Submit::new(self.next_id(), function, trigger)
    }

    /// Counts the body of a request in the budget of bodies, like that of a caller.
    pub(super) fn hold_body(&self, submit: &mut Submit) {
        if let Some(data) = &mut submit.payload.data {
            *data = self.callers.buffers.hold(data);
        }
    }

    /// Submits a request. Returns whether the supervisor has the request, to run it or to record its refusal. Otherwise no
    /// answer of the ledger follows.
    pub(super) fn submit(&mut self, submit: Submit) -> bool {
        let id = submit.id;
        self.step(Event::Submit(Box::new(submit)));
        self.supervisor.invocation(id).is_some()
    }

    /// Submits a run of a function of fnd's own.
    ///
    /// # Errors
    /// The reason why the run was refused, so that no end follows. A refusal that is recorded is an error, too.
    pub(super) fn submit_own(&mut self, submit: Submit) -> Result<(), String> {
        let function = submit.function.clone();
        self.submit(submit);
        if self.supervisor.live_of(&function).is_some() {
            return Ok(());
        }
        let known = self.supervisor.version_and_error(&function);
        let why = known.and_then(|(_, error)| error);
        Err(why.unwrap_or("fnd takes no new work now").to_owned())
    }

    /// Submits a run once the actions of the present event are carried out.
    pub(super) fn submit_after_event(&mut self, function: FunctionName, trigger: Trigger) {
        let submit = self.new_submit(function, trigger);
        self.turn.follow_up.push_back(Event::Submit(Box::new(submit)));
    }

    /// Submits a request whose acceptance is not stored by itself. Returns the commands for the transaction of the caller.
    pub(super) fn submit_together(&mut self, submit: Submit) -> Vec<LedgerCommand> {
        let id = submit.id;
        let mut actions = self.decide(Event::Submit(Box::new(submit)));
        let mut parts = Vec::new();
        for action in actions.drain(..) {
            match action {
                Action::Store(accepted) if accepted.id == id => {
                    let (function, trigger) = (&accepted.function, accepted.trigger);
                    self.report(ReportEvent::Accepted { function, id, trigger });
                    parts.push(LedgerCommand::Store(accepted));
                }
                other => self.turn.rest.push_back(other),
            }
        }
        self.turn.actions = actions;
        parts
    }
}

impl Driver {
    /// Claims the next attempt of an invocation: that of a message in the register as well, at the same time.
    fn claim(&mut self, record: Box<InvocationRecord>) {
        let id = record.id;
        if self.nats.claims(id) {
            let now = self.now_for_lease();
            if !self.nats.claim(now, &record) {
                return; // it is put off
            }
        }
        // The ledger gets it now and not after the register's answer: a later record of the invocation has to come after it.
        if self.records.ledger.submit(LedgerCommand::Claim(record)).is_err() {
            let failed = self.nats.ledger_answers(self.clock.now(), vec![id], false);
            self.turn.follow_up.push_back(Event::ClaimFailed(failed));
        }
    }

    /// Notes in which worker an attempt begins, and for how long it lasts at most. Returns when the worker ends with the lease.
    fn attempt_begins(
        &mut self,
        now: Now,
        attempt: &AttemptOrder,
        (worker, lasts): (WorkerId, Option<Duration>),
    ) -> Option<Duration> {
        let begun = MessageAttempt {
            number: attempt.attempt,
            worker,
            began_ms: now.unix_ms,
            ends_at: lasts.map(|lasts| now.mono.saturating_add(lasts)),
        };
        self.nats.attempt_begins(now, attempt.invocation, begun)
    }
}
