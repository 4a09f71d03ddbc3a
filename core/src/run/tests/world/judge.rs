//! Checks the invariants at every action and at the end.

use super::{Entry, Process, RETRIES, Step, World, variant};
use crate::records::cause::Cause;
use crate::records::cause::DEPTH_MAX;
use crate::records::outcome::{Class, Reason, RunState, Trigger};
use crate::records::{Accepted, InvocationRecord, Unfinished};
use crate::run::{Action, Answer, AttemptOrder, CallOrder, Event, Notice, SpawnOrder};
use crate::run_state::invocation::InvocationStage;
use fnd_wire::ids::{FunctionName, WorkerId};
use std::collections::BTreeMap;

impl World {
    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::Store(accepted) => {
                let settled = accepted.load_key.is_none() || !self.unsettled.contains(&accepted.function);
                assert!(settled, "a content ran by itself before the directories were quiet");
                if accepted.durable {
                    self.to_store.push(accepted.id);
                }
                self.accepted(*accepted);
            }
            Action::MakeDurable { id, .. } => {
                let entry = self.ledger.get_mut(&id).expect("nothing was made durable");
                assert!(!entry.accepted.durable && entry.accepted.key.is_some() && !entry.is_final());
                let known = entry.record.as_ref().map_or(0, |record| record.attempts);
                assert!(known >= entry.begun, "a later fnd would run an attempt again");
                entry.accepted.durable = true;
                self.to_store.push(id);
            }
            Action::Publish(shares) => {
                for event in &shares.events {
                    let told: Vec<_> = event.delivered.invocations.iter().map(|taken| taken.id).collect();
                    let accepted: Vec<_> = event.accepted.iter().map(|accepted| accepted.id).collect();
                    assert_eq!(told, accepted);
                    event
                        .accepted
                        .iter()
                        .for_each(|accepted| self.accepted(accepted.clone()));
                }
                self.to_publish.push(*shares);
            }
            Action::Claim(stands) => self.claim(*stands),
            Action::Spawn(order) => self.spawn(*order),
            Action::Term(worker) => {
                let process = self.processes.get_mut(&worker).expect("SIGTERM to nobody");
                assert!(process.started && process.term.is_none());
                process.term = Some(self.now.mono);
                if let Some(record) = self.s.record_of_ending(worker) {
                    process.record = serde_json::to_string(&record).unwrap();
                }
            }
            Action::KeepReason(worker) => {
                let process = self.processes.get_mut(&worker).expect("a reason for the end of nobody");
                if let Some(record) = self.s.record_of_ending(worker) {
                    process.record = serde_json::to_string(&record).unwrap();
                }
            }
            Action::Run(function) => self.requested.push(function),
            Action::Call(order) => self.call(&order),
            Action::CancelCall { worker, call } => {
                let now = self.now.mono;
                let process = self.processes.get_mut(&worker).expect("a cancel to nobody");
                assert!(process.calls.contains_key(&call) && process.term.is_none() && !process.killed);
                assert!(process.cancelled.insert(call, now).is_none(), "cancelled twice");
            }
            Action::DropCall { worker, call } => {
                let process = self.processes.get_mut(&worker).expect("a call of nobody");
                assert!(process.calls.contains_key(&call));
                process.cancelled.remove(&call);
            }
            Action::Stop(worker) => self.stop(worker),
            Action::Forget(worker, _) => assert!(!self.processes.contains_key(&worker)),
            Action::Kill(worker) => {
                let process = self.processes.get_mut(&worker).expect("SIGKILL to nobody");
                assert!(process.started && !process.killed);
                let mut asked = process.cancelled.values().copied().chain(process.term);
                let grace_over = asked.any(|at| at + process.grace <= self.now.mono);
                assert!(
                    self.stopping || grace_over || process.broken,
                    "killed before its grace was over"
                );
                process.killed = true;
            }
            Action::Record(attempt, stands) => {
                let entry = self.ledger.get_mut(&attempt.invocation).expect("an attempt of nothing");
                entry.ended += 1;
                assert_eq!(attempt.attempt.0, entry.ended, "attempts end in order, each once");
                // A deadline or a cancel may be the first event to end an attempt that an earlier fnd lost.
                let from_outside = stands
                    .reason
                    .is_some_and(|r| matches!(r.class(), Class::Cancelled | Class::Deadline));
                assert!(stands.reason == Some(attempt.reason) || from_outside);
                let never = [Class::Success, Class::Failed, Class::Cancelled, Class::Deadline];
                assert!(!never.contains(&attempt.reason.class()) || stands.state.is_final());
                if let (Some(next), Some(deadline)) = (stands.next_attempt_ms, entry.accepted.deadline_ms) {
                    assert!(next <= deadline, "a retry after the deadline");
                }
                self.stands(*stands);
            }
            Action::Update(stands) => self.stands(*stands),
            Action::Withdraw(id) => {
                let entry = self.ledger.get_mut(&id).expect("nothing was withdrawn");
                assert!(entry.accepted.durable && !entry.is_final());
                assert_eq!((entry.begun, entry.ended), (0, 0), "an attempt has begun");
                let state = entry.record.as_ref().map_or(RunState::Queued, |record| record.state);
                assert!(
                    entry.claim.is_none() && state == RunState::Queued,
                    "its claim is on disk"
                );
                entry.withdrawn = true;
                self.to_store.retain(|other| *other != id);
            }
            Action::Supersede(stands, _) => {
                assert!(stands.state == RunState::Interrupted && stands.durable && stands.attempts > 0);
                assert!(
                    !self.followed.contains(&stands.id),
                    "calls follow an end that does not count"
                );
                self.stands(*stands);
            }
            Action::Follow(id, _) => {
                self.followed.insert(id);
            }
            Action::PutBack(attempt, stands) => {
                let entry = self.ledger.get_mut(&stands.id).expect("nothing was put back");
                assert_eq!((entry.begun, stands.attempts), (attempt.0, attempt.0 - 1));
                entry.begun = stands.attempts;
                self.stands(*stands);
            }
            Action::Reply(to, answer) => {
                assert!(self.owed.remove(&to), "{to:?} answered twice");
                match answer {
                    Answer::Queued(id) => {
                        let (entry, is_waiting) = (&self.ledger[&id], self.to_store.contains(&id));
                        assert!(entry.stored && !is_waiting, "acknowledged before it was on disk");
                        assert!(entry.accepted.durable, "it does not outlive this fnd");
                    }
                    Answer::Published(events) => {
                        for taken in events.iter().flat_map(|event| &event.invocations) {
                            assert!(self.ledger[&taken.id].stored, "acknowledged before it was on disk");
                        }
                    }
                    _ => {}
                }
            }
            Action::Release { invocation, .. } => {
                assert!(self.ledger[&invocation].is_final(), "released while it may run again");
            }
            Action::Drained => {
                assert!(!self.drained && (!self.draining || self.processes.is_empty()));
                assert!(
                    self.stopping || (self.to_store.is_empty() && self.to_publish.is_empty()),
                    "an acceptance is not answered"
                );
                self.drained = true;
            }
            Action::Notice(Notice::Defect(text)) => panic!("{text}"),
            Action::Dropped(id) => {
                assert!(!self.ledger.contains_key(&id), "it is forgotten, and the ledger has it");
            }
            Action::Notice(_)
            | Action::Status(_)
            | Action::Known(_)
            | Action::Gone(_)
            | Action::Serves(..)
            | Action::Refused(..)
            | Action::CanaryServes(..)
            | Action::TrialFailed { .. }
            | Action::CanaryFailed(_)
            | Action::EnabledChanged(_)
            | Action::StoreCaller(_) => {}
        }
    }

    fn accepted(&mut self, accepted: Accepted) {
        let id = accepted.id;
        let entry = Entry {
            stored: !accepted.durable,
            accepted,
            record: None,
            ended: 0,
            claim: None,
            claimed: None,
            begun: 0,
            withdrawn: false,
        };
        assert!(self.ledger.insert(id, entry).is_none(), "{id} accepted twice");
    }

    fn spawn(&mut self, order: SpawnOrder) {
        assert!(!self.draining && self.spawner, "a start after the end");
        assert!(!self.silent, "a start while nobody answers");
        assert!(order.worker.0 >= self.next_worker, "a worker's number came twice");
        self.next_worker = order.worker.0 + 1;
        let (version, rules) = self.installed.get(&order.function).expect("nothing to start").clone();
        assert!(rules.enabled && !self.disabled.contains(&order.function));
        let record = match &order.attempt {
            Some(attempt) => {
                let is_canary = self.canaries.get(&order.function) == Some(&order.version);
                assert!(order.version == version || is_canary, "the newest version starts");
                self.may_begin(attempt);
                self.begins(attempt);
                serde_json::to_string(&self.s.script_record(order.worker).expect("it has begun")).unwrap()
            }
            None => String::new(),
        };
        let process = Process {
            record,
            since: self.now.mono,
            memory: order.rules.memory,
            cpu_milli: order.rules.cpu_milli.unwrap_or(0),
            grace: order.rules.grace,
            order,
            started: false,
            term: None,
            killed: false,
            ready: None,
            calls: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            served: 0,
            stopped: false,
            broken: false,
        };
        if !process.is_pooled() {
            let same = |other: &&Process| other.order.function == process.order.function && !other.is_pooled();
            let running = self.processes.values().filter(same).count();
            let is_service = rules.kind.is_service();
            let other = |other: &Process| same(&other) && other.order.version != process.order.version;
            assert!(
                !is_service || !self.processes.values().any(other),
                "a service beside its old version"
            );
            assert!(running < rules.max_running.try_into().unwrap(), "more than pool.max");
            // The pool of a canary may be smaller than that of the release that serves.
            let own = |other: &&Process| same(other) && other.order.version == process.order.version;
            let own = self.processes.values().filter(own).count();
            let most = process.order.rules.max_running;
            assert!(own < most.try_into().unwrap(), "more than pool.max of its version");
        }
        let group = process.order.rules.queue.group.clone().filter(|_| !process.is_pooled());
        self.processes.insert(process.order.worker, process);
        self.judge_group(group.as_deref());
        let mut used: BTreeMap<&FunctionName, (u64, u32)> = BTreeMap::new();
        for process in self.processes.values() {
            let (memory, cpu_milli) = used.entry(&process.order.function).or_default();
            *memory = process.memory.max(*memory);
            *cpu_milli = process.cpu_milli.max(*cpu_milli);
        }
        let memory: u64 = used.values().map(|(memory, _)| memory).sum();
        assert!(memory <= self.budget.memory, "more memory than the budget");
        let cpu_milli: u32 = used.values().map(|(_, cpu_milli)| cpu_milli).sum();
        let budget = self.budget.cpu_milli.unwrap_or(u32::MAX);
        assert!(cpu_milli <= budget, "more CPU than the budget");
        assert!(self.processes.len() <= self.budget.workers.try_into().unwrap());
    }

    /// Checks that an attempt may begin now.
    fn may_begin(&self, attempt: &AttemptOrder) {
        let entry = &self.ledger[&attempt.invocation];
        assert!(entry.stored && !entry.is_final());
        self.may_begin_after_caller(entry);
        if let Some(key) = order_key(entry) {
            let earlier = self.ledger.range(..attempt.invocation).map(|(_, earlier)| earlier);
            let same = |earlier: &&Entry| {
                earlier.accepted.function == entry.accepted.function && order_key(earlier) == Some(key)
            };
            let unfinished = earlier.filter(same).find(|earlier| !self.is_over(earlier));
            assert!(
                unfinished.is_none(),
                "it begins before an earlier one of its order key has ended"
            );
        }
        self.may_begin_beside_its_customer(entry, attempt);
        let claimed = entry.claimed == Some(attempt.attempt.0);
        assert!(!entry.accepted.durable || claimed, "it begins before that is on disk");
        assert_eq!(attempt.attempt.0, entry.ended + 1, "the one before has not ended");
        assert!(attempt.attempt.0 <= 1 + RETRIES + attempt.poll, "too many attempts");
        let polls = entry.record.as_ref().map(|record| record.polls);
        assert_eq!(Some(attempt.poll), polls);
        if let Some(deadline) = entry.accepted.deadline_ms {
            assert!(self.now.unix_ms <= deadline, "a start after the deadline");
        }
        if let Some(at) = entry.accepted.not_before_ms {
            assert!(self.now.unix_ms >= at, "started too early");
        }
    }

    /// Says whether nothing of an invocation can begin any more. One that is ended while it is being stored has its final record later.
    fn is_over(&self, entry: &Entry) -> bool {
        let stage = self.s.invocations.get(&entry.accepted.id).map(|one| &one.stage);
        entry.is_final() || matches!(stage, Some(InvocationStage::Storing { end: Some(_), .. }))
    }

    /// Checks the order of one customer's invocations, and how many of them go on at once.
    fn may_begin_beside_its_customer(&self, entry: &Entry, attempt: &AttemptOrder) {
        let function = self.s.functions.find(&entry.accepted.function).unwrap();
        let serving = self.s.functions[function].serving().expect("one that serves");
        let Some((place, per_key)) = &serving.rules.queue.key else {
            return;
        };
        let Some(customer) = entry.accepted.payload.key(place) else {
            return;
        };
        let others = self.ledger.values().filter(|other| {
            let accepted = &other.accepted;
            let is_same = accepted.function == entry.accepted.function && accepted.id != entry.accepted.id;
            is_same && !self.is_over(other) && accepted.payload.key(place).as_ref() == Some(&customer)
        });
        let before = others.filter(|other| {
            let is_earlier = other.accepted.id < entry.accepted.id;
            match (other.begun > 0, attempt.attempt.0 > 1) {
                // A new release may let fewer go on than have begun. They come in their order.
                (true, true) => is_earlier,
                (true, false) => true,
                // One that was delayed comes after those that were there when its time came.
                (false, is_begun) => !is_begun && is_earlier && accepted_at_once(other),
            }
        });
        assert!(
            before.count() < usize::try_from(*per_key).unwrap(),
            "more at once of one customer, or out of order"
        );
    }

    /// Checks that no more attempts of a group run than it allows.
    fn judge_group(&self, group: Option<&str>) {
        let Some(group) = group else { return };
        let running = self
            .processes
            .values()
            .filter(|process| process.order.rules.queue.group.as_deref() == Some(group));
        let attempts = running.map(|process| match process.is_pooled() {
            // A call that was given up is over, although its code may still run.
            true => process
                .calls
                .values()
                .filter(|id| self.ledger[*id].is_running())
                .count(),
            false => 1,
        });
        let max = self.groups.get(group).copied().unwrap_or(1);
        assert!(
            attempts.sum::<usize>() <= usize::try_from(max).unwrap(),
            "more attempts than the group allows"
        );
    }

    /// Checks that a call that somebody waits for begins only while its caller runs, and ends in the caller's time.
    fn may_begin_after_caller(&self, entry: &Entry) {
        let Some(Cause::Call(call)) = entry.accepted.payload.cause.as_deref() else {
            return;
        };
        assert!(call.depth <= DEPTH_MAX, "a chain that is too long");
        let caller = call.invocation.and_then(|caller| self.ledger.get(&caller));
        // With a key somebody else may wait for it, too.
        let Some(caller) = caller.filter(|_| !entry.accepted.durable && entry.accepted.key.is_none()) else {
            return;
        };
        assert!(caller.is_running(), "it begins although its caller has ended");
        let deadline = caller.accepted.deadline_ms;
        assert!(deadline.is_none_or(|limit| entry.accepted.deadline_ms.is_some_and(|own| own <= limit)));
        let before = caller.accepted.payload.cause.as_deref().map_or(0, Cause::depth);
        assert_eq!(call.depth, before + 1);
    }

    fn begins(&mut self, attempt: &AttemptOrder) {
        self.ledger.get_mut(&attempt.invocation).unwrap().begun = attempt.attempt.0;
    }

    fn claim(&mut self, stands: InvocationRecord) {
        assert!(!self.draining && self.spawner, "a claim after the end");
        let entry = self.ledger.get_mut(&stands.id).expect("a claim of nothing");
        assert!(entry.accepted.durable && entry.stored && !entry.is_final());
        assert!(!self.to_claim.contains(&stands.id), "claimed twice");
        assert_eq!((stands.state, stands.attempts), (RunState::Running, entry.ended + 1));
        self.to_claim.push(stands.id);
        entry.claim = Some(stands);
    }

    fn call(&mut self, order: &CallOrder) {
        assert!(!self.draining && self.spawner, "a call after the end");
        assert!(order.call > self.calls, "a call's number came twice");
        self.calls = order.call;
        self.may_begin(&order.attempt);
        self.begins(&order.attempt);
        let process = self.processes.get_mut(&order.worker).expect("a call to nobody");
        let ready = process.ready.expect("a call to a worker that is not ready");
        assert!(process.calls.len() < ready, "more calls than it takes");
        assert!(
            !process.stopped && process.term.is_none() && !process.killed,
            "a call to one that ends"
        );
        let pool = process.order.rules.kind.pool().expect("it has one");
        process.served += 1;
        assert!(
            pool.spare.is_none() || process.served == 1,
            "a second call to a fresh worker"
        );
        assert!(pool.max_invocations == 0 || process.served <= pool.max_invocations);
        process.calls.insert(order.call, order.attempt.invocation);
        let group = process.order.rules.queue.group.clone();
        self.judge_group(group.as_deref());
        let same = |process: &&Process| process.order.function == order.function;
        let calls = self.processes.values().filter(same).map(|process| process.calls.len());
        // The rules of the version that serves hold for the calls of its canary, too. While a newer one is on trial, that is
        // not the version that was installed last.
        let serving = self
            .s
            .version_and_error(&order.function)
            .and_then(|(version, _)| version);
        let serving = serving.map_or(0, |version| variant(version.0[0]).places());
        let places = order.rules.places().max(serving);
        assert!(calls.sum::<usize>() <= places.try_into().unwrap(), "more than pool.max");
    }

    fn stop(&mut self, worker: WorkerId) {
        let process = self.processes.get_mut(&worker).expect("a stop to nobody");
        assert!(process.started && !process.stopped && process.calls.is_empty());
        process.stopped = true;
    }

    fn stands(&mut self, record: InvocationRecord) {
        let entry = self.ledger.get_mut(&record.id).expect("a record of nothing");
        assert!(!entry.is_final(), "something after the final record of {}", record.id);
        assert_eq!(record.state.is_final(), record.ended_ms.is_some());
        assert_eq!(
            record.attempts,
            entry.ended + u32::from(record.state == RunState::Running)
        );
        // The record is written after the claim and replaces it.
        entry.claim = None;
        if record.state != RunState::Running {
            entry.claimed = None;
        }
        entry.record = Some(record);
    }

    /// Lets everything end and checks the remaining state.
    pub(in super::super) fn settle(&mut self) {
        self.step(&Step::Budget { small: false });
        self.step(&Step::Silence(false));
        for function in self.installed.keys().cloned().collect::<Vec<_>>() {
            self.handle(Event::Full { function, why: None });
        }
        for function in self.refused.clone() {
            self.handle(Event::Removed(function));
        }
        // Services would go on for ever.
        let services = self.installed.iter().filter(|(_, (_, rules))| rules.kind.is_service());
        for function in services.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.installed.remove(&function);
            self.handle(Event::Removed(function));
        }
        for _ in 0..10_000 {
            let before = self.log.len();
            self.step(&Step::Store { which: 0, fine: true });
            self.step(&Step::Claim { fine: true });
            self.answer_spawn(0, true);
            self.ready(0, true);
            self.answer(0, Reason::Ok);
            self.exit(0, 0, (false, true));
            self.step(&Step::WaitForDeadline);
            let coming = |process: &Process| !process.started || (process.is_pooled() && process.ready.is_none());
            let quiet = before == self.log.len() && self.s.next_deadline().is_none();
            let stored = self.to_store.is_empty() && self.to_publish.is_empty() && self.to_claim.is_empty();
            if quiet && stored && !self.processes.values().any(coming) {
                break;
            }
        }
        let stuck: Vec<_> = self.s.invocations.values().map(|one| (one.id, &one.stage)).collect();
        assert_eq!(
            (self.s.running(), self.s.queued()),
            (0, 0),
            "something is stuck: {stuck:?}"
        );
        assert_eq!(self.s.next_deadline(), None);
        assert!(self.ledger.values().all(Entry::is_final), "no final record");
        assert!(self.owed.is_empty(), "nobody answered {:?}", self.owed);
    }

    /// Checks the kept numbers against what the functions show.
    pub(super) fn judge_counts(&self) {
        let mut states = BTreeMap::new();
        for view in self.s.functions() {
            *states.entry(view.state).or_insert(0) += 1;
        }
        assert_eq!(self.s.by_state().collect::<BTreeMap<_, _>>(), states);
        let running: usize = self.s.functions().map(|view| view.running).sum();
        assert_eq!(self.s.running(), running);
        let names: Vec<_> = self.s.functions().map(|view| view.name).collect();
        for (index, name) in names.iter().enumerate() {
            let after = self.s.functions_after(Some(name)).map(|view| view.name);
            assert!(after.eq(names[index + 1..].iter().copied()));
        }
    }

    /// Checks that the next retry or poll of each function is the earliest one. A service has a next start instead.
    pub(super) fn judge_due(&self) {
        for view in self.s.functions() {
            let key = self.s.functions.find(view.name).unwrap();
            let live = self.s.functions[key].work.queue.live().iter();
            let due = live.filter_map(|id| self.s.invocations.get(id)?.stage.next_attempt_ms());
            let serving = self.s.functions[key].serving();
            if serving.is_none_or(|serving| !serving.rules.kind.is_service()) {
                assert_eq!(view.next_attempt_ms, due.min(), "{}", view.name);
            }
        }
    }

    /// Drains or stops, lets what runs end, and checks the remaining state.
    pub(in super::super) fn shut_down(&mut self, at_once: bool) {
        self.draining = true;
        self.stopping = at_once;
        self.handle(if at_once { Event::StopNow } else { Event::Drain });
        for n in 0..10_000 {
            self.step(&Step::Store {
                which: 0,
                fine: n % 3 > 0,
            });
            self.step(&Step::Claim { fine: n % 2 > 0 });
            if n % 5 == 1 {
                self.no_room(0);
            }
            self.answer_spawn(0, n % 5 > 0);
            self.ready(0, n % 7 > 0);
            self.answer(0, Reason::Transient);
            self.exit(0, 75, (false, false));
            if self.drained && self.to_store.is_empty() && self.to_publish.is_empty() {
                break;
            }
        }
        assert!(self.drained, "the drain does not end");
        assert!(self.owed.is_empty(), "nobody answered {:?}", self.owed);
        let unfinished = self.ledger.values().filter(|entry| !entry.is_final());
        assert!(
            unfinished.into_iter().all(|entry| entry.accepted.durable),
            "a caller's work is left behind"
        );
    }
}

fn accepted_at_once(entry: &Entry) -> bool {
    entry.accepted.not_before_ms.is_none()
}

fn order_key(entry: &Entry) -> Option<&str> {
    entry.accepted.payload.cause.as_deref()?.order_key()
}

impl Entry {
    /// Says whether several nodes may have it: that is what nobody waits for.
    pub(super) fn is_shared(&self) -> bool {
        let accepted = &self.accepted;
        accepted.durable && accepted.key.is_none() && accepted.trigger == Trigger::Manual
    }

    /// Says whether an attempt of it runs.
    pub(super) fn is_running(&self) -> bool {
        self.begun > self.ended && !self.is_final()
    }

    fn is_final(&self) -> bool {
        self.withdrawn || self.record.as_ref().is_some_and(|record| record.state.is_final())
    }

    /// Says whether the record has the end of an attempt, or of the invocation.
    pub(super) fn has_end(&self, attempt: u32) -> bool {
        self.is_final() || attempt <= self.ended
    }

    /// Ends the storing of a claim, with success or not. A claim that a later record has replaced has no effect.
    pub(super) fn claim_over(&mut self, fine: bool) {
        if let Some(claim) = self.claim.take().filter(|_| fine) {
            self.claimed = Some(claim.attempts);
            self.record = Some(claim);
        }
    }

    /// Takes back the claim of an attempt that has not begun.
    pub(super) fn unclaim(&mut self) {
        let Some(record) = self.record.as_mut().filter(|record| record.state == RunState::Running) else {
            return;
        };
        if !self.accepted.durable || self.begun == record.attempts {
            return;
        }
        self.claimed = None;
        record.attempts -= 1;
        record.state = match record.reason {
            _ if record.attempts == 0 => RunState::Queued,
            Some(Reason::ExecuteAgain) => RunState::Polling,
            _ => RunState::Waiting,
        };
        if record.reason == Some(Reason::ExecuteAgain) {
            record.polls -= 1;
        }
        if record.attempts == 0 {
            record.started_ms = None;
        }
    }

    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        let mut accepted = self.accepted.clone();
        // The ledger stores the content key in another table.
        accepted.load_key = None;
        let record = self.record.clone().unwrap_or_else(|| InvocationRecord::of(&accepted));
        (!self.is_final()).then_some(Unfinished { accepted, record })
    }
}
