//! Keeps what belongs to the version that serves in step with it: watchers of files, schedules, quotas and secrets. Submits what
//! is due and what watchers find, and passes the spawner's answers to the parts that decide.

use super::{Driver, message};
use crate::input::{AlarmCause, Input, TaskOwner};
use crate::ledger::LedgerCommand;
use crate::quotas::{self, LASTS, MeasurementEffect};
use crate::triggers::files::{NeededWatcher, OLD_SPAWNER, Process, WatcherEffect};
use crate::triggers::schedule::{slots_due, submission};
use crate::triggers::secrets::{self, SecretsAnswer};
use crate::workers::adoption::{PipeEnds, adoption_record};
use crate::workers::requests::PendingRequest;
use fnd_core::api::FunctionStatus;
use fnd_core::lifecycle::function::Function;
use fnd_core::quota::books::MeasurementFailure;
use fnd_core::quota::{Measured, Quotas};
use fnd_core::records::outcome::Trigger;
use fnd_core::report::{FunctionNews, ReportEvent};
use fnd_core::run::Event;
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::{FromWatcher, RunContent};
use fnd_core::triggers::schedule::Marks;
use fnd_manifest::function::Manifest;
use fnd_manifest::function::route::Credential;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Request, SecretAsked, Spawn, Spawned};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

impl Driver {
    /// Gives a function the watcher that it needs. Called when another version serves, and when the function was enabled,
    /// disabled or deleted.
    pub(crate) fn rewatch(&mut self, function: &FunctionName) {
        let enabled = self.supervisor.function(function).is_some_and(|view| view.enabled);
        let serving = self.serving(function).filter(|_| enabled);
        let effects = self.watchers.needs(function, serving.and_then(NeededWatcher::of));
        self.carry_out_for_watchers(effects);
    }

    /// Forgets the files of functions that no longer exist.
    pub(super) fn forget_files(&self) {
        self.watchers.list_functions(&self.inbox);
    }

    /// Forgets the files of a function if it no longer exists.
    pub(super) fn forget_files_of(&self, function: FunctionName) {
        if self.lifecycle.registry.get(&function).is_none() {
            self.records.store(LedgerCommand::Files(FileMemory::Forget(function)));
        }
    }

    fn carry_out_for_watchers(&mut self, effects: Vec<WatcherEffect>) {
        for effect in effects {
            match effect {
                WatcherEffect::Start(function) => self.turn.watchers.push_back(function),
                WatcherEffect::Kill(worker) => self.workers.kill(worker),
                WatcherEffect::ReleaseTmp(tmp) => self.workers.release_tmp(Some(tmp)),
                WatcherEffect::Acknowledge(worker) => self.workers.request(&Request::Acknowledge(worker), Vec::new()),
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
                        self.workers.request(&Request::Retire(id), Vec::new());
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
        spawned: &Spawned,
        mut descriptors: impl Iterator<Item = OwnedFd>,
    ) {
        let ends = PipeEnds::take(spawned, &mut descriptors);
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

    /// Starts watchers again whose pause is over.
    pub(super) fn watchers_due(&mut self) {
        let effects = self.watchers.due(self.clock.now().mono);
        self.carry_out_for_watchers(effects);
    }

    /// Handles what a watcher says.
    pub(super) fn watcher_said(&mut self, worker: WorkerId, said: Result<FromWatcher, String>) {
        let shown = |problem: &str| message::shown(&self.node.places.state, problem);
        let effects = self.watchers.said(worker, said, shown);
        self.carry_out_for_watchers(effects);
    }

    /// Tells a watcher whether the invocation for its files is stored.
    pub(super) fn files_stored(&mut self, id: InvocationId, is_stored: bool) {
        let effects = self.watchers.stored(id, is_stored);
        self.carry_out_for_watchers(effects);
    }

    /// Tells a watcher of the end of an invocation that its files started; the ledger has stored the end.
    pub(super) fn files_ended(
        &mut self,
        function: &FunctionName,
        run: (InvocationId, bool),
        contents: Vec<(Arc<str>, RunContent)>,
    ) {
        let effects = self.watchers.run_ended(function, run, contents);
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
            let Some(submit) = submit else { continue };
            let id = submit.id;
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
    /// Uses the quotas of the version that serves. Called when another version serves or none does.
    pub(crate) fn requota(&mut self, function: &FunctionName) {
        let limits = self.serving(function).map(|serving| &serving.manifest.limits);
        let wanted = limits.map(|limits| Quotas {
            home: limits.home,
            cache: limits.cache,
        });
        // An older spawner cannot measure. Without a measurement no quota is enforced, and `status` says so.
        let wanted = wanted.filter(|_| !self.workers.welcome.is_of_0_1());
        self.quotas.books.needs(function, wanted);
        self.quota_found(function);
    }

    /// Tells the supervisor if a function has no room any more, if it has room again, or if the reason is another one.
    fn quota_found(&mut self, function: &FunctionName) {
        let (before, now) = (self.supervisor.full(function), self.quotas.exceeded(function));
        if before == now.as_deref() {
            return;
        }
        if let Some(news) = quotas::news(before, now.as_deref()) {
            self.report(ReportEvent::News(function, &news));
        }
        let (function, why) = (function.clone(), now.map(Into::into));
        self.turn.follow_up.push_back(Event::Full { function, why });
    }

    /// Notices by a function's status that an attempt has ended. Status files are written at most every 50 ms, so a
    /// function that is called all the time costs nothing here.
    pub(crate) fn quota_after(&mut self, status: &FunctionStatus) {
        let Some(invocation) = status.invocation else { return };
        let last = self.supervisor.function(&status.function).and_then(|view| view.last);
        let is_earlier = last.is_some_and(|last| last.attempt.started_ms < self.node.started_ms);
        let end = (invocation, status.attempt, status.poll);
        let now = self.clock.now().mono;
        self.quotas.books.ended(&status.function, end, is_earlier, now);
    }

    /// Has a function measured again soon: somebody wanted to run it, and perhaps it has room by now.
    pub(crate) fn quota_refused(&mut self, function: &FunctionName) {
        self.quotas.books.refused(function, self.clock.now().mono);
    }

    /// Has the functions measured that are due.
    pub(super) fn measure_due(&mut self) {
        let now = self.clock.now().mono;
        while let Some(function) = self.quotas.books.due(now) {
            self.turn.measurements.push_back(function);
        }
    }

    /// Asks the spawner for a process that measures a function.
    pub(super) fn start_measurement(&mut self, function: FunctionName) {
        let serving = self.serving(&function).map(|serving| (serving.id, serving.version));
        let Some((id, version)) = serving.filter(|_| !self.supervisor.is_draining()) else {
            let why = MeasurementFailure::NotPossible("no version of the function serves, or fnd drains".to_owned());
            return self.quotas.books.measured(&function, Err(why), self.clock.now().mono);
        };
        let (worker, tmp) = (self.supervisor.next_worker(), (id, self.next_id()));
        self.quotas.starting(worker, function, tmp);
        let request = Request::Measure(Spawn {
            worker,
            function: id,
            version,
            invocation: tmp.1,
            environment: Vec::new(),
            input: false,
            previous: false,
            lasts_ms: u64::try_from(LASTS.as_millis()).unwrap_or(u64::MAX),
            // The record says nothing of the worker's state, so the next fnd kills the worker and measures again itself.
            record: Bytes(adoption_record(Some(tmp), None)),
        });
        self.workers.ask(&request, Vec::new(), PendingRequest::Measure(worker));
    }

    /// Reads the result of a measurement that the spawner has started.
    pub(super) fn measurement_runs(
        &mut self,
        worker: WorkerId,
        spawned: &Spawned,
        mut descriptors: impl Iterator<Item = OwnedFd>,
    ) {
        let Some(stdout) = PipeEnds::take(spawned, &mut descriptors).stdout else {
            // The kernel drops descriptors for which there is no room.
            return self.measurement_said(worker, None);
        };
        let inbox = self.inbox.clone();
        self.inbox.spawn(TaskOwner::Caller, async move {
            let said = quotas::read(stdout).await;
            inbox.input(Input::Measured(worker, said));
        });
    }

    /// Handles a measurement that could not be started.
    pub(super) fn measurement_failed(&mut self, worker: WorkerId, why: &str) {
        let effect = self.quotas.not_started(worker, why, self.clock.now().mono);
        self.measured(worker, effect);
    }

    /// Handles the result that a measurement has printed; absent if the output is no result.
    pub(super) fn measurement_said(&mut self, worker: WorkerId, said: Option<Measured>) {
        let effect = self.quotas.said(worker, said, self.clock.now().mono);
        self.measured(worker, effect);
    }

    /// Handles the end of a process; returns whether the process was a measurement.
    pub(super) fn measurement_exited(&mut self, exited: &Exited) -> bool {
        let is_one = self.quotas.is_running(exited.worker);
        if is_one {
            self.workers.request(&Request::Acknowledge(exited.worker), Vec::new());
            let effect = self.quotas.ended(exited, self.clock.now().mono);
            self.measured(exited.worker, effect);
        }
        is_one
    }

    /// Kills all measurements, because fnd stops: otherwise their temporary directories would stay.
    pub(super) fn end_measurements(&mut self) {
        for worker in self.quotas.stop() {
            self.workers.kill(worker);
        }
    }

    fn measured(&mut self, worker: WorkerId, effect: Option<MeasurementEffect>) {
        match effect {
            Some(MeasurementEffect::Kill) => self.workers.kill(worker),
            Some(MeasurementEffect::Over { tmp, function }) => {
                self.workers.release_tmp(Some(tmp));
                self.quota_found(&function);
            }
            None => {}
        }
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

    /// Asks for the files of `[http] tls` if it is time.
    pub(super) fn ask_for_tls_if_due(&mut self) {
        let now = self.clock.now().mono;
        if self.secrets.next_due().is_some_and(|due| due <= now) {
            self.ask_for_tls();
        }
    }

    /// Asks for the secrets of `[http] events`.
    pub(crate) fn ask_for_events(&mut self) {
        self.ask_for(secrets::of_events(self.node.settings.settings.http.events.as_ref()));
        self.forget_secrets();
    }

    fn ask_for(&mut self, asked: impl IntoIterator<Item = SecretAsked>) {
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
        }
        self.problems_changed();
        true
    }

    /// Forgets secrets that no function names any more.
    pub(super) fn forget_secrets(&mut self) {
        let credentials = self.credentials().into_iter();
        let names = credentials.map(|credential| credential.secret).collect();
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
