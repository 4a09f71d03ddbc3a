//! Handles the inputs of the driver: frames, messages of threads and tasks, the clock; and the requests and signals about the
//! whole node: scan, reload, drain, stop. Also puts a configuration in force that was read again.

use super::{Daemon, Driver, DriverMessage};
use crate::buffers::{Reservation, SMALL};
use crate::functions::catalog::Rescan;
use crate::input::{Input, TaskOwner};
use crate::ledger::Acknowledged;
use crate::output::Captured;
use crate::peer::PeerAccess;
use crate::settings::settings_document;
use crate::systemd;
use crate::triggers::nats::Messages;
use crate::triggers::nats::settings::secret_of;
use crate::workers::link::Incoming;
use fnd_core::records::outcome::Trigger;
use fnd_core::report::ReportEvent;
use fnd_core::run::{Event, Now};
use fnd_manifest::warning::Warning;
use fnd_wire::frame::{ExitStatus, Exited, SettingsRead};
use fnd_wire::ids::InvocationId;
use fnd_wire::naming::UPLOADS;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// An input of the driver's own loop, or what a task says.
pub(crate) enum LoopInput {
    /// A frame of the spawner.
    Frame(Incoming),
    /// A message of another thread.
    Message(DriverMessage),
    /// The time for which the main loop waited has come.
    Tick(Option<Instant>),
    Input(Input),
}

impl Daemon {
    /// Handles an input. Actions that no caller waits for may be performed a moment later.
    pub(crate) fn input(&self, input: Input) {
        if !self.input_of_loop(LoopInput::Input(input)) {
            self.wake_if_due();
        }
    }

    /// The same for the main loop, which need not be woken. Returns whether something was put off.
    pub(crate) fn input_of_loop(&self, input: LoopInput) -> bool {
        let put_off = {
            let mut state = self.state.borrow_mut();
            state.loop_input(input);
            state.ask_for_messages();
            state.turn.is_put_off() || state.nats.has_effects()
        };
        if put_off {
            self.put_off.notify_one();
        }
        put_off
    }

    /// Asks something of the part with the messages of NATS, and carries out what follows.
    pub(crate) fn with_messages<T>(&self, ask: impl FnOnce(&mut Messages, Now) -> T) -> T {
        let answer = {
            let state = &mut *self.state.borrow_mut();
            let now = state.clock.now();
            let answer = ask(&mut state.nats, now);
            state.catch_up();
            answer
        };
        self.wake_if_due();
        answer
    }
}

impl Driver {
    fn loop_input(&mut self, input: LoopInput) {
        self.changes += 1;
        match input {
            LoopInput::Frame(incoming) => {
                // Any frame shows that the spawner works. The supervisor learns that before it handles what the frame
                // says.
                if let Some(event) = self.workers.heard() {
                    self.step(event);
                }
                self.incoming(incoming);
                self.settle();
            }
            LoopInput::Message(message) => {
                // Actions on the subject of the message may have been put off.
                self.catch_up();
                self.message(message);
                self.settle();
            }
            LoopInput::Tick(wanted) => {
                self.late(wanted);
                self.step(Event::Tick);
                self.write_due();
                self.install_due();
                self.promote_due();
                self.alerts_due();
                self.triggers_due();
                self.measure_due();
            }
            LoopInput::Input(input) => self.input(input),
        }
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Event(event) => self.step(event),
            Input::Pulse(wanted) => {
                self.late(Some(wanted));
                self.workers.ping();
            }
            Input::WorkerMessage(worker, message, reserved) => self.handle_message(worker, message, reserved),
            Input::Answered(worker, call, how, result) => self.answered(worker, call, how, result),
            Input::ReadOut(frame) => self.ended_with_all(frame),
            Input::TaskEnded(owner, why) => self.task_ended(owner, &why),
            Input::Interpreters => self.check_interpreters(),
            Input::Watcher(worker, said) => self.watcher_said(worker, said),
            Input::Measured(worker, said) => self.measurement_said(worker, said),
            Input::FilesOf(function) => self.forget_files_of(function),
            Input::Alarm(cause) => self.alarm(cause),
            Input::MetricsPlace(place, problem) => {
                if self.reporter.exposed.set_problem(place, problem) {
                    self.problems_changed();
                }
            }
        }
    }

    fn message(&mut self, message: DriverMessage) {
        match message {
            DriverMessage::Catalog(event) => self.catalog_event(event),
            DriverMessage::Stored(acknowledged) => self.stored(acknowledged),
            DriverMessage::ProblemsChanged => self.problems_changed(),
            DriverMessage::Nats(fact) => {
                let (now, id) = (self.now_for_lease(), self.next_id());
                self.nats.fact(now, fact, id);
                self.catch_up();
            }
            DriverMessage::MessageKnown(number, known) => {
                let known = known.map(|known| known.map(|known| *known));
                self.nats.known(self.clock.now(), number, known);
                self.catch_up();
            }
            DriverMessage::MessageEndRead(id, ended) => {
                self.nats.end_is_read(self.clock.now(), id, ended);
                self.catch_up();
            }
            DriverMessage::RequestAnswered(function, inbox, answer) => {
                self.nats.answered(&function, inbox, &answer);
                self.catch_up();
            }
            DriverMessage::OutputRead(key, captured) => {
                self.explain(captured.last_error_line.as_deref(), |waiting, _| waiting == key);
                if let Some(ended) = self.records.output_counted(key, &captured) {
                    self.record(ended, &captured.last_lines);
                }
            }
            DriverMessage::Captured(all) => {
                let (frame, captured, reserved) = *all;
                self.captured(&frame, captured, reserved);
            }
            DriverMessage::Room(both, reserved) => {
                let (frame, captured) = *both;
                match captured {
                    None => self.finish(frame, Some(reserved)),
                    Some(captured) => self.captured_with_room(&frame, captured, reserved),
                }
            }
        }
    }

    /// Handles what the ledger has stored, or failed to.
    fn stored(&mut self, acknowledged: Acknowledged) {
        match acknowledged {
            Acknowledged::Stored { id, result } => {
                if let Err(error) = &result {
                    self.report(ReportEvent::NodeError(format_args!(
                        "failed to store the invocation {id}: {error}"
                    )));
                }
                #[cfg(feature = "simulate")]
                if fnd_core::mutants::Mutant::SlotNotTakenBack.is_on() {
                    self.schedules.stored(id, true, self.clock.now().unix_ms);
                }
                self.trigger_stored(id, result.is_ok());
                match result {
                    Ok(()) => self.answer_first(Event::Stored(id)),
                    Err(error) => {
                        self.answer_first(Event::StoreFailed(id));
                        self.not_stored(id, &error);
                    }
                }
            }
            Acknowledged::MessageIsKnown(id) => {
                self.nats.has_row(self.clock.now(), id);
                self.answer_first(Event::StoreFailed(id));
            }
            Acknowledged::Published { number, result } => match result {
                Ok(shares) => {
                    // The shares are reported only now: if the ledger knew the event already, these shares were
                    // dropped.
                    for (function, id) in &shares.invocations {
                        let (id, trigger) = (*id, Trigger::Event);
                        self.report(ReportEvent::Accepted { function, id, trigger });
                    }
                    // A hundred functions may start now; the sender of the event does not wait for that.
                    let earlier = shares.earlier;
                    self.answer_first(Event::Published { number, earlier });
                }
                Err(error) => {
                    self.report(ReportEvent::NodeError(format_args!(
                        "failed to store the invocations of an event: {error}"
                    )));
                    self.step(Event::PublishFailed(number));
                }
            },
            Acknowledged::Claimed { ids, result } => {
                if let Err(error) = &result {
                    let count = ids.len();
                    self.report(ReportEvent::NodeError(format_args!(
                        "failed to claim {count} queued invocations: {error}; they wait and are claimed again"
                    )));
                }
                let now = self.now_for_lease();
                let told = self.nats.ledger_answers(now, ids, result.is_ok());
                self.step(match result {
                    Ok(()) => Event::Claimed(told),
                    Err(_) => Event::ClaimFailed(told),
                });
            }
            Acknowledged::Changed { number, result } => {
                if let Err(error) = &result {
                    self.report(ReportEvent::NodeError(format_args!(
                        "failed to store a change that somebody has asked for: {error}"
                    )));
                }
                self.callers.change_stored(number, result);
            }
            Acknowledged::FilesEnded {
                function,
                id,
                success,
                contents,
            } => {
                let effects = self.watchers.run_ended(&function, (id, success), contents);
                self.carry_out_for_watchers(effects);
            }
            Acknowledged::MessageEnded { id, .. } => {
                self.nats.ended(self.clock.now(), id);
                self.catch_up();
            }
            Acknowledged::HealthChanged => self.problems_changed(),
            // The spawner may forget the workers only now: until they are recorded, the next fnd would have to ask it
            // about them.
            Acknowledged::Recorded(workers) => {
                for worker in workers {
                    self.forget(worker);
                }
            }
            Acknowledged::ReleasesStored(functions) => self.releases_stored(&functions),
        }
    }

    /// Handles the end of a worker of which all output was read. A large result that was printed has no room yet.
    pub(super) fn captured(&mut self, frame: &Exited, captured: Captured, reserved: Option<Reservation>) {
        let size = captured.result.as_ref().map_or(0, |result| result.data.len() as u64);
        if size <= SMALL {
            // A small result needs no reservation. One that was made by the size of the result file is given back here.
            return self.captured_with_room(frame, captured, Reservation::default());
        }
        match reserved.or_else(|| self.callers.buffers.reserve_now(size)) {
            Some(reserved) => self.captured_with_room(frame, captured, reserved),
            None => self.wait_for_room(size, (frame.clone(), Some(captured))),
        }
    }

    /// Waits for room for the result of a script, which has ended.
    pub(super) fn wait_for_room(&mut self, size: u64, both: (Exited, Option<Captured>)) {
        let (messages, worker) = (self.messages.clone(), both.0.worker);
        let room = Arc::clone(&self.callers.buffers).reserve(size);
        // The worker has ended and only the disk is late, so no time limit of the attempt may count any more.
        self.step(Event::EndsLater(worker));
        self.inbox.spawn(TaskOwner::Worker(worker), async move {
            let _ = messages.send(DriverMessage::Room(Box::new(both), room.await)); // an error: fnd is stopping
        });
    }

    /// Handles the end of a worker whose result has room.
    fn captured_with_room(&mut self, frame: &Exited, mut captured: Captured, reserved: Reservation) {
        // Exit code 99 asks for another attempt, which gets this result. That may be much later, so the result keeps no part
        // of the budget.
        if frame.status != ExitStatus::Code(99) {
            self.carry(&mut captured.result, reserved);
        }
        let output = std::mem::take(&mut captured.last_lines);
        if !output.is_empty() {
            self.follow_ups.outputs.insert(frame.worker, output);
        }
        // The worker has answered before it ended.
        self.explain(None, |_, answered| answered.worker == frame.worker);
        let exited = captured.with_exit(frame, &self.node.places.state);
        self.show_and_answer_first(Event::Exited(Box::new(exited)));
        // The masks go last: until here a message about the worker may contain a value.
        self.workers.masks.forget(frame.worker);
    }
}

impl Driver {
    /// Handles a task that ended unexpectedly.
    fn task_ended(&mut self, owner: TaskOwner, why: &str) {
        match owner {
            // The main loop ends fnd as its own panic would: functions go on, and the next fnd takes them over.
            TaskOwner::Fnd(name) => {
                self.turn.failed = Some(format!("the task `{name}` of fnd ended: {why}"));
                self.changed.notify_one();
            }
            TaskOwner::Worker(worker) => {
                self.report(ReportEvent::NodeError(format_args!(
                    "fnd's task for {worker} ended: {why}"
                )));
                let message = format!("fnd's task for it ended: {why}");
                self.step(Event::Broken { worker, message });
            }
            TaskOwner::Caller => self.report(ReportEvent::NodeError(format_args!("a task for a caller ended: {why}"))),
        }
    }
}

impl Daemon {
    /// Starts a scan; resolves when everything it sees is installed or refused.
    pub(crate) fn scan(&self) -> oneshot::Receiver<()> {
        let state = &mut *self.state.borrow_mut();
        state.functions.scan(&mut state.lifecycle.installer, Rescan::default())
    }

    /// Handles the end of the first scan: every function is known.
    pub(crate) fn all_is_scanned(&self) {
        let whole = {
            let state = &mut *self.state.borrow_mut();
            state.functions.are_known(&mut state.lifecycle.installer)
        };
        self.step(Event::Scanned { whole });
        let state = &mut *self.state.borrow_mut();
        state.all_known();
        let now = state.clock.now();
        state.nats.functions_are_known(now);
        if state.nats.has_effects() {
            state.catch_up();
        }
        // `status` shows the problems of the start. The first reload reports only those that are new since then.
        let dirs = &state.workers.welcome.functions_dirs;
        state.functions.report_problems(&state.lifecycle, dirs);
    }

    /// Reads configuration and functions again; resolves when every difference is applied or refused. The service
    /// manager is notified of both. With `accept_empty` an empty functions directory is accepted as meant.
    pub(crate) fn reload(&self, accept_empty: bool) -> oneshot::Receiver<()> {
        systemd::reloading();
        let state = &mut *self.state.borrow_mut();
        state.functions.reloading = true;
        state.workers.reload();
        // Everything is judged again, because defaults and sizes may have changed. The scan comes after the settings,
        // because the spawner answers in order.
        let how = Rescan {
            forget: true,
            accept_empty,
        };
        let settled = state.functions.scan(&mut state.lifecycle.installer, how);
        self.changed.notify_one();
        settled
    }

    /// Refuses new work; resolves with true when nothing runs any more, or with false when somebody cancels the drain.
    pub fn drain(&self) -> oneshot::Receiver<bool> {
        self.wind_down(Event::Drain)
    }

    /// Like [`Self::drain`], but nobody can cancel it: fnd stops.
    pub(crate) fn drain_to_stop(&self) -> oneshot::Receiver<bool> {
        self.state.borrow_mut().callers.stops();
        self.drain()
    }

    /// Like [`Self::drain_to_stop`], but cancels all work, so that it takes no longer than the grace periods.
    pub(crate) fn cancel_to_stop(&self) -> oneshot::Receiver<bool> {
        // The drain comes first: otherwise each cancellation would make room in which queued work begins.
        let drained = self.drain_to_stop();
        let live: Vec<InvocationId> = self.state.borrow().supervisor.live_invocations().collect();
        for id in live {
            let (_, reply) = self.state.borrow_mut().callers.expect_answer(); // nobody waits for the answer
            self.step(Event::Cancel { id, reply });
        }
        drained
    }

    /// Accepts and starts work again, if there was a drain. Returns false if fnd stops: then nothing changes.
    pub(crate) fn cancel_drain(&self) -> bool {
        if !self.state.borrow_mut().callers.cancel_drain() {
            return false;
        }
        self.step(Event::CancelDrain);
        true
    }

    /// Refuses new work and starts nothing more; resolves when every caller is answered. Running work goes on under the
    /// next fnd.
    pub fn hand_over(&self) -> oneshot::Receiver<bool> {
        self.state.borrow_mut().callers.stops();
        self.wind_down(Event::HandOver)
    }

    fn wind_down(&self, event: Event) -> oneshot::Receiver<bool> {
        // The place comes before the event: if nothing runs, the event itself ends the drain.
        let drained = self.state.borrow_mut().callers.wait_for_drain();
        self.step(event);
        self.state.borrow_mut().wake_waiting();
        drained
    }
}

impl Driver {
    pub(super) fn settings_read(&mut self, read: SettingsRead) {
        let applied = read.applied;
        match settings_document(read) {
            Ok(document) => {
                if self.node.settings.apply(document, applied) {
                    self.settings_changed();
                }
                self.problems_changed();
                self.announce();
            }
            Err(error) => self.report(ReportEvent::NodeError(format_args!(
                "the configuration cannot be read: {error}"
            ))),
        }
    }

    /// Passes the configuration on to every part that depends on it.
    pub(crate) fn settings_changed(&mut self) {
        self.supervisor.set_budget(self.node.settings.budget());
        self.supervisor.set_groups(self.node.settings.groups());
        self.callers.buffers.resize(self.node.settings.settings.node.buffers);
        let spin = Duration::from_micros(self.node.settings.settings.node.spin.into());
        self.spin.set_limit(spin);
        let uploads = Path::new(&self.node.places.state).join(UPLOADS);
        let rules = self.node.settings.catalog_rules(uploads);
        self.functions.catalog.set_rules(rules);
        let mode = self.node.settings.settings.status.mode;
        self.reporter.status_files.set_mode(mode);
        self.retain();
        self.audit.set(&self.node.settings.settings.audit);
        self.state.look_again();
        self.prune_all();
        self.check_alerts();
        self.catch_up();
        self.reporter.exposed.serve(&self.node.settings.settings.metrics);
        let http = &self.node.settings.settings.http;
        self.listener.apply(http);
        let events = http.events.as_ref().map(|events| events.path.as_str());
        self.lifecycle.set_events_path(events);
        self.ask_for_tls();
        self.ask_for_events();
        self.ask_for(secret_of(self.node.settings.settings.events.nats.as_ref()));
        self.set_event_streams();
        self.configure_messages();
        let problems = self.node.settings.resolve_access();
        // Where fnd was started by hand the default group may not exist, and only the person who started fnd uses the
        // socket.
        if self.workers.spawner_pid.is_none() {
            problems
                .iter()
                .for_each(|problem| self.report(ReportEvent::NodeWarning(format_args!("{problem}"))));
            let known = &mut self.node.settings.diagnostics;
            known.retain(|diagnostic| diagnostic.code != Warning::UnknownHolder.as_str());
            known.extend(PeerAccess::warnings(problems));
        }
    }
}
