//! Keeps schedules and the watchers of files in step with the functions that serve, and submits what is due and what they find.

use super::{Driver, message};
use crate::input::{AlarmCause, Input, TaskOwner};
use crate::ledger::LedgerCommand;
use crate::triggers::files::talk::{self, Feed};
use crate::triggers::files::{NeededWatcher, Process, WatcherStep, directories, forgotten, numbered, offered, seen};
use crate::triggers::schedule::submissions;
use crate::workers::PendingRequest;
use crate::workers::adoption::{PipeEnds, adoption_record};
use fnd_core::records::FileMark;
use fnd_core::records::Payload;
use fnd_core::records::outcome::Trigger;
use fnd_core::report::ReportEvent;
use fnd_core::run::{Event, Overlap, Submit};
use fnd_core::triggers::file::memory::FileMemory;
use fnd_core::triggers::file::message::{
    AcceptedFile, FileRunEnded, FromWatcher, PROTOCOL, RunContent, ToWatcher, Trouble, WatcherReady,
};
use fnd_core::triggers::file::payload;
use fnd_core::triggers::schedule::Marks;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{ExitStatus, Exited, Request, Spawn, Spawned};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, WorkerId};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const OLD_SPAWNER: &str = "the running fnd-spawner is older than watchers of files: start it again (`systemctl stop fnd && \
     systemctl start fnd`, which ends running functions)";

/// Longest text of a problem that a watcher has, in bytes.
const PROBLEM_MAX: usize = 1024;
/// Most messages that wait for a watcher. There are more only if it does not read them.
const MESSAGES_MAX: usize = 4096;

impl Driver {
    /// Gives a function the watcher that it needs. Called when another version serves, and when the function was enabled,
    /// disabled or deleted.
    pub(crate) fn rewatch(&mut self, function: &FunctionName) {
        let enabled = self.supervisor.function(function).is_some_and(|view| view.enabled);
        let serving = self.serving(function);
        let wanted = serving.filter(|serving| enabled && !serving.manifest.file.is_empty());
        let wanted = wanted.map(|serving| NeededWatcher {
            id: serving.id,
            version: serving.version,
            entries: serving.manifest.file.clone().into(),
        });
        // Most functions watch nothing.
        if wanted.is_some() || self.watchers.has(function) {
            let next = self.watchers.needs(function, wanted);
            self.watch_next(function, next);
        }
    }

    /// Forgets the files of functions that no longer exist.
    pub(super) fn forget_files(&self) {
        let inbox = self.inbox.clone();
        let reader = self.watchers.ledger.clone();
        self.inbox.spawn(TaskOwner::Caller, async move {
            for function in reader.functions_with_files().await.unwrap_or_default() {
                inbox.input(Input::FilesOf(function));
            }
        });
    }

    /// Forgets the files of a function if it no longer exists.
    pub(super) fn forget_files_of(&self, function: FunctionName) {
        if self.lifecycle.registry.get(&function).is_none() {
            self.records.store(LedgerCommand::Files(FileMemory::Forget(function)));
        }
    }

    fn watch_next(&mut self, function: &FunctionName, next: WatcherStep) {
        match next {
            WatcherStep::Nothing => {}
            WatcherStep::Kill(worker) => self.workers.kill(worker),
            WatcherStep::Start => self.turn.watchers.push_back(function.clone()),
        }
        self.watch_changed(function);
    }

    /// Starts the watcher that a function needs, if it still needs one.
    pub(super) fn start_watcher(&mut self, function: &FunctionName) {
        let Some(wanted) = self.watchers.to_start(function) else {
            return;
        };
        if let Err(why) = self.ask_for_watcher(function, wanted) {
            self.watcher_failed(function, &why);
        }
    }

    /// Asks the spawner for the process of a watcher.
    fn ask_for_watcher(&mut self, function: &FunctionName, wanted: NeededWatcher) -> Result<(), String> {
        let now_ms = self.clock.now().unix_ms;
        let (worker, tmp) = (self.supervisor.next_worker(), (wanted.id, self.ids.next(now_ms)));
        let entries = wanted.entries;
        let process = Process {
            worker,
            tmp,
            version: wanted.version,
            entries: entries.clone(),
        };
        // Before the start, so that a failure is one of this process.
        self.watchers.starting(function, process);
        if self.workers.welcome.is_of_0_1() {
            return Err(OLD_SPAWNER.to_owned());
        }
        // A directory that is known keeps its time. So a restart of the watcher does not make waiting files old ones.
        let since = FileMemory::Since(function.clone(), directories(&entries), now_ms);
        self.records.store(LedgerCommand::Files(since));
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("failed to make a pipe: {error}"))?;
        let request = Request::Watch(Spawn {
            worker,
            function: wanted.id,
            version: wanted.version,
            invocation: tmp.1,
            environment: Vec::new(),
            input: true,
            previous: false,
            // A watcher runs until fnd kills it.
            lasts_ms: 0,
            // The record of a worker whose state is unknown: the next fnd kills it, and starts its own.
            record: Bytes(adoption_record(Some(tmp), None)),
        });
        if let Some(number) = self.workers.send(&request, vec![read]) {
            let asked = PendingRequest::Watch(Box::new((function.clone(), worker, write)));
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
            self.watchers
                .fails(&function, "too many files are open in fnd".to_owned());
            return self.workers.kill(worker);
        };
        let (to, messages) = mpsc::channel(MESSAGES_MAX);
        let next = self.watchers.runs(&function, to);
        if let Some(process) = self.watchers.running(&function) {
            let reader = self.watchers.ledger.clone();
            let feed = Feed {
                function: function.clone(),
                directories: directories(&process.entries),
                ledger: reader.clone(),
                stdin,
            };
            self.inbox.spawn(TaskOwner::Caller, feed.run(messages));
            let inbox = self.inbox.clone();
            self.inbox
                .spawn(TaskOwner::Caller, talk::listen(worker, stdout, reader, inbox));
            self.inbox.spawn(TaskOwner::Caller, talk::log(function.clone(), stderr));
        }
        self.watch_next(&function, next);
    }

    /// Handles a watcher's process that could not be started.
    pub(super) fn watcher_failed(&mut self, function: &FunctionName, why: &str) {
        let why = format!("its watcher of files cannot be started: {why}");
        let (process, next) = self.watchers.ended(function, || why, self.clock.now().mono);
        self.workers.release_tmp(process.map(|process| process.tmp));
        self.watch_next(function, next);
    }

    /// Handles the end of a watcher's process; returns whether the worker was a watcher.
    pub(super) fn watcher_exited(&mut self, exited: &Exited) -> bool {
        let Some(function) = self.watchers.function_of(exited.worker).cloned() else {
            return false;
        };
        let why = || match exited.status {
            _ if exited.oom_kills > 0 => {
                "its watcher of files needed more memory than `limits.memory` leaves: give the function more".to_owned()
            }
            ExitStatus::Code(code) => format!("its watcher of files ended with code {code}"),
            ExitStatus::Signal(signal) => format!("its watcher of files was ended by signal {signal}"),
        };
        let (process, next) = self.watchers.ended(&function, why, self.clock.now().mono);
        self.workers.release_tmp(process.map(|process| process.tmp));
        self.workers.request(&Request::Acknowledge(exited.worker), Vec::new());
        self.watch_next(&function, next);
        true
    }

    /// Starts watchers again whose pause is over.
    pub(super) fn watchers_due(&mut self) {
        for function in self.watchers.due(self.clock.now().mono) {
            let next = self.watchers.next(&function);
            self.watch_next(&function, next);
        }
    }

    /// Handles what a watcher says.
    pub(super) fn watcher_said(&mut self, worker: WorkerId, said: Result<FromWatcher, String>) {
        let Some(function) = self.watchers.function_of(worker).cloned() else {
            return;
        };
        let (entries, id) = match self.watchers.running(&function) {
            Some(process) if process.worker == worker => (process.entries.clone(), process.tmp.0),
            // It is being killed: what it says now is said again by the next one.
            _ => return,
        };
        let handled = match said {
            Ok(FromWatcher::Hello(protocol)) if protocol == PROTOCOL => {
                if self.watchers.works(&function) {
                    self.watch_changed(&function);
                }
                Ok(())
            }
            Ok(FromWatcher::Hello(_)) => Err("another version of fnd than this one"),
            Ok(FromWatcher::Ready(ready)) => offered(&ready, &entries).map(|(entry, marks)| {
                let payload = Payload {
                    data: Some(payload::payload(entry, &ready.changes).into()),
                    content_type: Some("application/json".into()),
                    cause: payload::cause(entry, &ready.changes).map(Into::into),
                    ..Payload::default()
                };
                let submit = Submit {
                    payload,
                    overlap: Some(Overlap::Queue),
                    files: marks,
                    ..self.new_submit(function.clone(), Trigger::File)
                };
                self.offer(&function, (worker, &ready), submit);
            }),
            Ok(FromWatcher::Seen(files)) => seen(&files, &entries).map(|marks| self.remember(&function, marks)),
            Ok(FromWatcher::Gone(files)) => forgotten(&files, &entries).map(|marks| self.remember(&function, marks)),
            Ok(FromWatcher::Settled(id)) => {
                let settled = FileMemory::Settled(function.clone(), id);
                self.records.store(LedgerCommand::Files(settled));
                Ok(())
            }
            Ok(FromWatcher::Trouble(trouble)) => self.hindered(&function, trouble, entries.len()),
            Ok(FromWatcher::Waiting(count)) => {
                self.watchers.waits(&function, count);
                Ok(())
            }
            Ok(FromWatcher::Places(places)) => {
                self.show(&function, id, places);
                Ok(())
            }
            Err(_) => Err("something that cannot be read"),
        };
        if let Err(what) = handled {
            self.watchers
                .fails(&function, format!("its watcher of files said {what}, and was ended"));
            self.workers.kill(worker);
            self.watch_changed(&function);
        }
    }

    /// Lets the processes of a function see what is at the places of its files now: a file system may be mounted there that they
    /// do not see, or one that is gone may be kept.
    fn show(&mut self, function: &FunctionName, id: FunctionId, places: u64) {
        if self.watchers.leads_elsewhere(function, places) {
            // An older spawner ends a launcher only when it was idle for a while.
            if !self.workers.welcome.is_of_0_1() {
                self.workers.request(&Request::Retire(id), Vec::new());
            }
            self.step(Event::ViewChanged(function.clone()));
        }
        // The spawner reads the request before the starts of later offers.
        self.tell_watcher(function, ToWatcher::Shown(places));
    }

    /// Records what hinders a watcher, or that nothing does any more.
    fn hindered(&mut self, function: &FunctionName, trouble: Trouble, entries: usize) -> Result<(), &'static str> {
        if usize::from(trouble.entry) >= entries {
            return Err("a problem of an entry that is not there");
        }
        let problem = trouble.problem.map(|mut problem| {
            problem.truncate(problem.floor_char_boundary(PROBLEM_MAX));
            message::shown(&self.node.places.state, &problem)
        });
        if self.watchers.hindered(function, trouble.entry, problem) {
            self.watch_changed(function);
        }
        Ok(())
    }

    /// Tells a watcher something; one that does not listen is killed.
    fn tell_watcher(&mut self, function: &FunctionName, message: ToWatcher) {
        if let Some(worker) = self.watchers.tell(function, message) {
            let why = "its watcher of files does not read what fnd says, and was ended";
            self.watchers.fails(function, why.to_owned());
            self.workers.kill(worker);
            self.watch_changed(function);
        }
    }

    /// Submits an invocation for files.
    fn offer(&mut self, function: &FunctionName, (worker, ready): (WorkerId, &WatcherReady), submit: Submit) {
        let id = submit.id;
        // The place comes before the step: a ledger without room is answered within the step.
        self.watchers.storing(id, function, (worker, ready.number));
        if !self.submit(submit) {
            // The reason of the refusal is not looked at: this has an effect only for a function that is over its
            // quota.
            self.quota_refused(function);
            self.files_stored(id, false);
        }
    }

    /// Tells a watcher whether the invocation for its files is stored.
    pub(super) fn files_stored(&mut self, id: InvocationId, is_stored: bool) {
        let Some((function, number)) = self.watchers.stored(id) else {
            return;
        };
        let message = match is_stored {
            true => ToWatcher::Accepted(AcceptedFile { number, id }),
            false => ToWatcher::Refused(number),
        };
        self.tell_watcher(&function, message);
    }

    /// Tells a watcher of the end of an invocation that its files started. The ledger has it: the watcher acts on the files
    /// next, and cannot take that back.
    pub(super) fn files_ended(
        &mut self,
        function: &FunctionName,
        (id, success): (InvocationId, bool),
        contents: Vec<(Arc<str>, RunContent)>,
    ) {
        let Some(process) = self.watchers.running(function) else {
            return; // the next watcher gets the end from the ledger
        };
        let contents = numbered(contents, &process.entries);
        self.tell_watcher(function, ToWatcher::Ended(FileRunEnded { id, success, contents }));
    }

    fn remember(&mut self, function: &FunctionName, marks: Vec<FileMark>) {
        self.records
            .store(LedgerCommand::Files(FileMemory::Marks(function.clone(), marks)));
    }

    fn watch_changed(&mut self, function: &FunctionName) {
        self.problems_changed();
        self.report(ReportEvent::StatusChanged(function));
    }
}

impl Driver {
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

    /// Returns whether a function has schedules.
    pub(crate) fn has_schedules(&self, function: &FunctionName) -> bool {
        self.serving(function)
            .is_some_and(|serving| !serving.manifest.schedule.is_empty())
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
            self.report(ReportEvent::SlotsDue {
                function: &occurrence.function,
                late: Duration::from_millis(occurrence.late_ms),
                runs: occurrence.run.is_some(),
                missed: occurrence.missed.map_or(0, |missed| missed.count),
            });
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
