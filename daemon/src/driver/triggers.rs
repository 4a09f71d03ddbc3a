//! Keeps schedules and the watchers of files in step with the functions that serve, and submits what is due and what they find.

use super::{Driver, message};
use crate::input::AlarmCause;
use crate::ledger::LedgerCommand;
use crate::triggers::files::{NeededWatcher, OLD_SPAWNER, Process, WatcherEffect};
use crate::triggers::schedule::{slots_due, submissions};
use crate::workers::PendingRequest;
use crate::workers::adoption::{PipeEnds, adoption_record};
use fnd_core::records::outcome::Trigger;
use fnd_core::report::ReportEvent;
use fnd_core::run::Event;
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::{FromWatcher, RunContent};
use fnd_core::triggers::schedule::Marks;
use fnd_wire::frame::{Exited, Request, Spawned};
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::OwnedFd;
use std::sync::Arc;

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
        if let Some(number) = self.workers.send(&request, vec![read]) {
            let asked = PendingRequest::Watch(Box::new((function.clone(), process.worker, write)));
            self.workers.asked.insert(number, asked);
        }
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

    /// Submits the invocations that are due by the wall clock.
    pub(super) fn alarm(&mut self, cause: AlarmCause) {
        let now_ms = self.clock.now().unix_ms;
        let (marks, due) = self.schedules.rings(cause, now_ms);
        self.store_marks(marks);
        for occurrence in due {
            self.report(slots_due(&occurrence));
            let before = occurrence.before.clone();
            for submit in submissions(occurrence, |function, trigger| self.new_submit(function, trigger)) {
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
        }
    }

    fn store_marks(&mut self, marks: impl IntoIterator<Item = Marks>) {
        for marks in marks {
            self.records.store(LedgerCommand::StoreMarks(marks));
        }
    }
}
