//! Keeps what belongs to the version that serves in step with it: watchers of files, schedules, messages of NATS and secrets. Submits
//! what is due, what watchers find and what NATS delivers, passes the spawner's answers to the parts that decide, and carries out
//! what they decide.

use super::{Driver, DriverMessage, message};
use crate::clock;
use crate::input::{AlarmCause, TaskOwner};
use crate::ledger::LedgerCommand;
use crate::triggers::files::{NeededWatcher, OLD_SPAWNER, Process, WatcherEffect};
use crate::triggers::nats::instance::instance;
use crate::triggers::nats::settings::{NatsNode, event_stream};
use crate::triggers::nats::{MessageEffect, WantedMessages};
use crate::triggers::schedule::{slots_due, submission};
use crate::triggers::secrets::{self, SecretsAnswer};
use crate::workers::adoption::{PipeEnds, adoption_record};
use crate::workers::requests::PendingRequest;
use fnd_core::access::Author;
use fnd_core::lifecycle::function::Function;
use fnd_core::records::outcome::Trigger;
use fnd_core::report::{FunctionNews, ReportEvent};
use fnd_core::run::{Event, Now, Submit};
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::FromWatcher;
use fnd_core::triggers::lambda;
use fnd_core::triggers::schedule::Marks;
use fnd_manifest::function::Manifest;
use fnd_manifest::function::route::Credential;
use fnd_wire::frame::{Exited, Request, SecretAsked};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

impl Driver {
    /// Keeps the triggers of a function in step with it. Called when another version serves, and when the function was enabled,
    /// disabled or deleted.
    pub(super) fn follow_triggers(&mut self, function: &FunctionName) {
        self.reschedule(function);
        self.rewatch(function);
        self.set_messages(function);
    }

    /// Tells the trigger of an invocation whether the invocation is stored.
    pub(super) fn trigger_stored(&mut self, id: InvocationId, is_stored: bool) {
        let now = self.clock.now();
        // The mark of a slot is in the transaction of its invocation: a slot that is not stored is due again later.
        self.schedules.stored(id, is_stored, now.unix_ms);
        // The invocation may be over already: its watcher hears of its end after this.
        self.files_stored(id, is_stored);
        self.nats.stored(now, id, is_stored);
    }

    /// Returns when something of a trigger is due next.
    pub(super) fn triggers_next_due(&self) -> Option<Duration> {
        let due = [self.secrets.next_due(), self.watchers.next_due(), self.nats.next_due()];
        due.into_iter().flatten().min()
    }

    /// Does the things of triggers that are due.
    pub(super) fn triggers_due(&mut self) {
        self.beat_messages();
        let now = self.clock.now().mono;
        if self.secrets.next_due().is_some_and(|due| due <= now) {
            self.ask_for_tls();
        }
        let effects = self.watchers.due(now);
        self.carry_out_for_watchers(effects);
    }

    fn files_stored(&mut self, id: InvocationId, is_stored: bool) {
        let effects = self.watchers.stored(id, is_stored);
        self.carry_out_for_watchers(effects);
    }

    /// Gives a function the watcher that it needs. Called when another version serves, and when the function was enabled,
    /// disabled or deleted.
    pub(crate) fn rewatch(&mut self, function: &FunctionName) {
        let enabled = self.supervisor.function(function).is_some_and(|view| view.enabled);
        let serving = self.serving(function).filter(|_| enabled);
        let effects = self.watchers.needs(function, serving.and_then(NeededWatcher::of));
        self.carry_out_for_watchers(effects);
    }

    /// Forgets the files of a function if it no longer exists.
    pub(super) fn forget_files_of(&self, function: FunctionName) {
        if self.lifecycle.registry.get(&function).is_none() {
            self.records.store(LedgerCommand::Files(FileMemory::Forget(function)));
        }
    }

    pub(super) fn carry_out_for_watchers(&mut self, effects: Vec<WatcherEffect>) {
        for effect in effects {
            match effect {
                WatcherEffect::Start(function) => self.turn.watchers.push_back(function),
                WatcherEffect::Kill(worker) => self.workers.kill(worker),
                WatcherEffect::ReleaseTmp(tmp) => self.workers.release_tmp(Some(tmp)),
                WatcherEffect::Acknowledge(worker) => self.workers.request(&Request::Acknowledge(worker)),
                WatcherEffect::Store(memory) => self.records.store(LedgerCommand::Files(memory)),
                WatcherEffect::Submit(offer) => {
                    let function = offer.function.clone();
                    let request = self.new_submit(function.clone(), Trigger::File);
                    let id = request.id;
                    // The place comes before the step: a ledger without room is answered within the step.
                    let submit = self.watchers.submission(*offer, request);
                    if !self.submit(submit) {
                        // The reason of the refusal is not looked at: this has an effect only for a function that is over
                        // its quota.
                        self.quota_refused(&function);
                        self.files_stored(id, false);
                    }
                }
                WatcherEffect::Retire(function, id) => {
                    // An older spawner ends a launcher only when it was idle for a while.
                    if !self.workers.welcome.is_of_0_1() {
                        self.workers.request(&Request::Retire(id));
                    }
                    self.step(Event::ViewChanged(function));
                }
                WatcherEffect::Tell(function, message) => {
                    let effects = self.watchers.tell(&function, message);
                    self.carry_out_for_watchers(effects);
                }
                WatcherEffect::StatusChanged(function) => {
                    self.problems_changed();
                    self.report(ReportEvent::StatusChanged(&function));
                }
            }
        }
    }

    /// Starts the watcher that a function needs, if it still needs one.
    pub(super) fn start_watcher(&mut self, function: &FunctionName) {
        let now_ms = self.clock.now().unix_ms;
        let ids = || (self.supervisor.next_worker(), self.ids.next(now_ms));
        if let Some(process) = self.watchers.start(function, ids)
            && let Err(why) = self.ask_for_watcher(function, &process, now_ms)
        {
            self.watcher_failed(function, &why);
        }
    }

    /// Asks the spawner for the process of a watcher.
    fn ask_for_watcher(&mut self, function: &FunctionName, process: &Process, now_ms: u64) -> Result<(), String> {
        if self.workers.welcome.is_of_0_1() {
            return Err(OLD_SPAWNER.to_owned());
        }
        let since = process.since(function, now_ms);
        self.records.store(LedgerCommand::Files(since));
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("failed to make a pipe: {error}"))?;
        // The record of a worker whose state is unknown: the next fnd kills it, and starts its own.
        let request = process.request(adoption_record(Some(process.tmp), None));
        let purpose = PendingRequest::Watch(Box::new((function.clone(), process.worker, write)));
        self.workers.ask(&request, vec![read], purpose);
        Ok(())
    }

    /// Talks to the process of a watcher that the spawner has started.
    pub(super) fn watcher_runs(
        &mut self,
        (function, worker, stdin): (FunctionName, WorkerId, OwnedFd),
        ends: PipeEnds,
    ) {
        let (Some(stdout), Some(stderr)) = (ends.stdout, ends.stderr) else {
            // The kernel drops descriptors for which there is no room.
            self.watchers.has_no_pipes(&function);
            return self.workers.kill(worker);
        };
        let effects = self.watchers.talk(&function, [stdin, stdout, stderr], &self.inbox);
        self.carry_out_for_watchers(effects);
    }

    /// Handles a watcher's process that could not be started.
    pub(super) fn watcher_failed(&mut self, function: &FunctionName, why: &str) {
        let effects = self.watchers.not_started(function, why, self.clock.now().mono);
        self.carry_out_for_watchers(effects);
    }

    /// Handles the end of a watcher's process; returns whether the worker was a watcher.
    pub(super) fn watcher_exited(&mut self, exited: &Exited) -> bool {
        let effects = self.watchers.exited(exited, self.clock.now().mono);
        let is_watcher = !effects.is_empty();
        self.carry_out_for_watchers(effects);
        is_watcher
    }

    /// Handles what a watcher says.
    pub(super) fn watcher_said(&mut self, worker: WorkerId, said: Result<FromWatcher, String>) {
        let shown = |problem: &str| message::shown(&self.node.places.state, problem);
        let effects = self.watchers.said(worker, said, shown);
        self.carry_out_for_watchers(effects);
    }

    /// Gives the table the schedules of a function. Called when another version serves, and when the function was
    /// enabled, disabled, paused or deleted.
    pub(crate) fn reschedule(&mut self, function: &FunctionName) {
        let enabled = self.supervisor.function(function).is_some_and(|view| view.enabled);
        let serving = self.serving(function).map(|serving| serving.manifest.schedule.clone());
        if serving.is_none() && self.lifecycle.registry.get(function).is_some() {
            // It cannot serve yet, and its marks count when it does.
            return;
        }
        let now_ms = self.clock.now().unix_ms;
        let schedules = serving.unwrap_or_default();
        let marks = self.schedules.set(now_ms, function, (&schedules, enabled));
        self.store_marks(marks);
    }

    /// Forgets the schedules of functions that no longer exist.
    pub(super) fn forget_schedules(&mut self) {
        let registry = &self.lifecycle.registry;
        let gone = self.schedules.table.forget_others(|name| registry.get(name).is_some());
        self.store_marks(gone);
    }

    /// Pauses or resumes the schedules of a function; the ledger has stored it.
    pub(crate) fn pause_schedules(&mut self, function: &FunctionName, paused: bool) {
        if self.schedules.pause(function, paused) {
            self.reschedule(function);
            self.report(ReportEvent::StatusChanged(function));
        }
    }

    /// Submits the invocations that are due by the wall clock. If the clock was set, everything that waits for one of its times
    /// follows.
    pub(super) fn alarm(&mut self, cause: AlarmCause) {
        if cause == AlarmCause::ClockSet {
            self.step(Event::ClockSet);
        }
        let now_ms = self.clock.now().unix_ms;
        let (begin_anew, due) = self.schedules.rings(cause, now_ms);
        for marks in &begin_anew {
            self.report(ReportEvent::News(&marks.function, &FunctionNews::SchedulesBeginAnew));
        }
        self.store_marks(begin_anew);
        for occurrence in due {
            self.report(slots_due(&occurrence));
            let before = occurrence.before.clone();
            let submit = submission(occurrence, |function, trigger| self.new_submit(function, trigger));
            let Some(mut submit) = submit else { continue };
            let id = submit.id;
            if let Some(serving) = self.serving(&submit.function) {
                lambda::scheduled(&mut submit.payload, (&submit.function, id), &serving.manifest);
            }
            // This comes before the step: a ledger without room is answered within the step, and then the mark goes
            // back to `before`.
            self.schedules.storing(&submit, &before);
            // The invocation was refused without a record, for example because fnd is draining. If the function
            // cannot run at all, its status is `invalid`.
            if !self.submit(submit) {
                self.schedules.stored(id, !self.supervisor.is_draining(), now_ms);
            }
        }
        // After the submissions: the marks of those that the ledger is storing must not be stored without them.
        let reached = self.schedules.table.take_reached();
        self.store_marks(reached);
    }

    fn store_marks(&mut self, marks: impl IntoIterator<Item = Marks>) {
        for marks in marks {
            self.records.store(LedgerCommand::StoreMarks(marks));
        }
    }
}

impl Driver {
    /// Puts `[events.nats]` in force: with the configuration, and with its secret.
    pub(crate) fn configure_messages(&mut self) {
        let now = self.clock.now();
        let is_wanted = self.node.settings.settings.events.nats.is_some();
        let instance = is_wanted.then(|| instance(&self.nats_port.state)).transpose();
        let instance = instance.unwrap_or_else(|error| {
            let state = self.nats_port.state.display().to_string();
            self.report(ReportEvent::NodeError(format_args!(
                "fnd cannot store in `{state}` which node it is, so it takes no messages of NATS: {error}"
            )));
            None
        });
        let (events, host) = (&self.node.settings.settings.events, self.node.settings.host.as_str());
        let node = instance.and_then(|instance| {
            let credentials = events.nats.as_ref()?.credentials.as_deref();
            let secret = credentials.and_then(|name| self.secrets.get(name));
            NatsNode::of(events, (host, instance), secret.as_deref())
        });
        let has_fence = !self.workers.welcome.is_of_0_1();
        self.nats.configure(now, node, is_wanted, has_fence);
        self.catch_up();
    }

    /// Uses the entries of the version that serves. Called when another version serves, and when the function was enabled, disabled
    /// or deleted.
    pub(super) fn set_messages(&mut self, function: &FunctionName) {
        let enabled = self.supervisor.function(function).map(|view| view.enabled);
        let serving = enabled.zip(self.serving(function));
        // The stream does not say who has sent an event, and not every author may read those of everybody. Nor may every author
        // publish what runs the functions of everybody.
        let may_reach_all = self.may_reach_all(function);
        let stream = event_stream(&self.node.settings.settings.events).filter(|_| may_reach_all);
        let wanted = serving.and_then(|(enabled, serving)| {
            WantedMessages::of(function, serving, (enabled, may_reach_all), stream.as_ref())
        });
        self.nats.wants(function, wanted);
        if self.lifecycle.registry.get(function).is_none() {
            self.nats.forget_counters(function);
        }
    }

    /// Does that for each function with `[[event]]` or `[[nats]]`: the configuration says whether its events come through a stream,
    /// and whether its author may have messages published.
    pub(super) fn set_event_streams(&mut self) {
        let names = self.lifecycle.registry.iter().map(|(name, _)| name);
        let wants_messages = |name: &&FunctionName| {
            self.serving(name)
                .is_some_and(|serving| !serving.manifest.event.is_empty() || !serving.manifest.nats.is_empty())
        };
        let functions: Vec<FunctionName> = names.filter(wants_messages).cloned().collect();
        for function in &functions {
            self.set_messages(function);
        }
    }

    /// Says whether the author of a function may have to do with messages: a message may run functions of everybody, on every node,
    /// and does not say who has sent it.
    pub(crate) fn may_reach_all(&self, function: &FunctionName) -> bool {
        let author = self.lifecycle.author(function);
        author == Author::Root || self.node.settings.reach_of(author).limit_of_operation().is_none()
    }

    /// Returns both clocks. If the machine was suspended, the lease of this node has ended that much earlier.
    pub(super) fn now_for_lease(&mut self) -> Now {
        let now = self.clock.now();
        self.nats.was_suspended(now, clock::suspended());
        now
    }

    /// Does what is due for messages of NATS.
    fn beat_messages(&mut self) {
        let now = self.now_for_lease();
        self.nats.room_may_have_changed();
        if self.nats.next_due().is_some_and(|due| due <= now.mono) {
            self.nats.beat(now);
            self.catch_up();
        }
    }

    /// Asks for the messages for which there is room now. Messages that have not begun are given back once fnd drains.
    pub(super) fn ask_for_messages(&mut self) {
        self.nats.drains(self.supervisor.is_draining());
        if !self.nats.takes_new_room() {
            return;
        }
        let now = self.clock.mono();
        for function in self.nats.asking() {
            if let Some(room) = self.supervisor.room_for_messages(&function) {
                let group = self.supervisor.next_group(&function);
                self.nats.room(now, (&function, group), room);
            }
        }
    }

    /// Carries out what the part has decided; returns whether there was something.
    pub(super) fn carry_out_for_messages(&mut self) -> bool {
        let effects = self.nats.take_effects();
        let is_some = !effects.is_empty();
        for effect in effects {
            match effect {
                MessageEffect::Send(request) => {
                    let begins = self.nats_port.thread.send(request);
                    self.begins_to_connect(begins);
                }
                MessageEffect::StartAgain => {
                    let begins = self.nats_port.thread.start_again();
                    self.begins_to_connect(begins);
                }
                MessageEffect::LookUp(number, function, key) => self.look_up(number, (function, key)),
                MessageEffect::Withdraw(id) => self.records.store(LedgerCommand::Withdraw(id)),
                MessageEffect::Submit(submit) => self.submit_message(*submit),
                MessageEffect::Request(submit, inbox) => self.submit_request(*submit, inbox),
                MessageEffect::ReadEnd(id) => self.read_end(id),
                MessageEffect::Warn(why) => self.report(ReportEvent::NodeWarning(format_args!("{why}"))),
                MessageEffect::Event(event) => self.turn.follow_up.push_back(event),
                MessageEffect::Store(memory) => self.records.store(LedgerCommand::Messages(memory)),
                MessageEffect::Supersede(id, node) => self.records.store(LedgerCommand::Supersede { id, node }),
                MessageEffect::Lease(worker, deadline) => self.workers.lease(worker, deadline),
                MessageEffect::Changed => {
                    self.problems_changed();
                    if self.nats.may_close() {
                        self.configure_messages();
                    }
                }
            }
        }
        is_some
    }

    /// Takes whether the thread that talks to NATS has begun.
    fn begins_to_connect(&mut self, begins: io::Result<bool>) {
        match begins {
            // The main loop waits for what the thread says.
            Ok(true) => self.changed.notify_one(),
            Ok(false) => {}
            Err(error) => {
                let why = format!("the thread that talks to NATS cannot be started: {error}");
                self.report(ReportEvent::NodeError(format_args!("{why}")));
                self.nats.has_no_thread(self.clock.now(), why);
            }
        }
    }

    fn look_up(&self, number: u64, message: (FunctionName, Arc<str>)) {
        let messages = self.messages.clone();
        self.nats_port.look_up(&self.inbox, message, move |known| {
            let _ = messages.send(DriverMessage::MessageKnown(number, known)); // an error: fnd is stopping
        });
    }

    fn read_end(&self, id: InvocationId) {
        let messages = self.messages.clone();
        self.nats_port.read_end(&self.inbox, id, move |ended| {
            let _ = messages.send(DriverMessage::MessageEndRead(id, ended)); // an error: fnd is stopping
        });
    }

    fn submit_message(&mut self, mut submit: Submit) {
        self.hold_body(&mut submit);
        let id = submit.id;
        if !self.submit(submit) {
            self.nats.refused(self.clock.now(), id);
        }
    }

    fn submit_request(&mut self, mut submit: Submit, inbox: Option<Arc<str>>) {
        self.hold_body(&mut submit);
        if let Some(inbox) = inbox {
            let (answered, reply) = self.callers.expect_answer();
            submit.reply = Some(reply);
            let (function, messages) = (submit.function.clone(), self.messages.clone());
            self.inbox.spawn(TaskOwner::Caller, async move {
                // Without an answer fnd is stopping, and the sender of the request waits until its own timeout.
                if let Ok(answer) = answered.await {
                    let _ = messages.send(DriverMessage::RequestAnswered(function, inbox, Box::new(answer)));
                }
            });
        }
        self.turn.follow_up.push_back(Event::Submit(Box::new(submit)));
    }
}

impl Driver {
    /// Asks for the secrets of a function whose files were just judged; those of the version that serves if the newest
    /// files are refused.
    pub(super) fn ask_for_secrets(&mut self, function: &FunctionName) {
        if let Some(known) = self.lifecycle.registry.get(function) {
            let versions = known.versions().map(|version| &*version.manifest);
            self.ask_for(secrets::of_function(function, versions));
        }
    }

    /// Asks for the files of `[http] tls`, if there is any, now and then again after a while.
    pub(crate) fn ask_for_tls(&mut self) {
        let has_tls = self.node.settings.settings.http.tls.is_some();
        let now = self.clock.now().mono;
        self.secrets.ask_for_tls_after(has_tls.then_some(now));
        if has_tls {
            self.ask_for(secrets::of_tls());
        }
    }

    /// Asks for the secrets of `[http] events`.
    pub(crate) fn ask_for_events(&mut self) {
        self.ask_for(secrets::of_events(self.node.settings.settings.http.events.as_ref()));
        self.forget_secrets();
    }

    pub(super) fn ask_for(&mut self, asked: impl IntoIterator<Item = SecretAsked>) {
        let workers = &mut self.workers;
        let is_of_0_1 = workers.welcome.is_of_0_1();
        self.secrets
            .ask(asked, is_of_0_1, |request| workers.send(request, Vec::new()));
        if is_of_0_1 {
            self.problems_changed();
        }
    }

    /// Handles the answer to a request for a secret; returns whether the request was one.
    pub(super) fn secret_answered(&mut self, request: u32, answer: SecretsAnswer) -> bool {
        let Some(again) = self.secrets.answered(request, answer) else {
            return false;
        };
        self.ask_for(again);
        // The listener gets all answers together: a new certificate fits only the new key, which is another answer.
        if !self.secrets.is_asking() && self.secrets.take_news() {
            self.renew_keys();
            self.configure_messages();
        }
        self.problems_changed();
        true
    }

    /// Forgets secrets that no function names any more.
    pub(super) fn forget_secrets(&mut self) {
        let credentials = self.credentials().into_iter();
        let mut names: BTreeSet<String> = credentials.map(|credential| credential.secret).collect();
        let nats = self.node.settings.settings.events.nats.as_ref();
        names.extend(nats.and_then(|nats| nats.credentials.clone()));
        let has_tls = self.node.settings.settings.http.tls.is_some();
        self.secrets.retain(&names, has_tls);
        self.renew_keys();
        self.problems_changed();
    }

    /// Hands the secrets to the listener.
    fn renew_keys(&mut self) {
        let now = Duration::from_millis(self.clock.now().unix_ms);
        self.listener.renew(&self.secrets, self.credentials(), now);
    }

    fn credentials(&self) -> BTreeSet<Credential> {
        let functions = self.lifecycle.registry.iter().map(|(_, function)| function);
        let versions = functions.flat_map(Function::versions);
        let manifests = versions.map(|version| -> &Manifest { &version.manifest });
        secrets::credentials(manifests, self.node.settings.settings.http.events.as_ref())
    }
}
