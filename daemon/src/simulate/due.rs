//! The turns that one fnd can do next: each is a turn of its main loop, of a thread or of its tasks.

use super::files::Files;
use super::life::FndLife;
use super::node::Node;
use super::world_step::WorldStep;
use crate::driver::{DriverMessage, LoopInput};
use crate::input::{AlarmCause, Input};
use crate::ledger::LedgerQuery;
use crate::workers::link::SpawnerConnection;
use fastrand::Rng;
use fnd_core::run::Now;
use futures_util::FutureExt as _;
use rustix::time::Timespec;
use std::time::Duration;

/// How long the writer of the ledger gathers commands for which no caller waits.
const GATHER: Duration = Duration::from_millis(50);
/// Most commands that the writer of the ledger takes at once.
const BATCH_MAX: usize = 512;

impl FndLife {
    /// Adds the turns that fnd can do now.
    pub(super) fn steps(&mut self, now: Now, order: &mut Rng, out: &mut Vec<WorldStep>) {
        self.queries.extend(self.history.take_now());
        let state = self.serving.daemon.state.borrow();
        let waits_for_room = state
            .workers
            .connection
            .as_ref()
            .is_some_and(|connection| connection.room().is_some());
        let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now.mono);
        let alarm_at = state.schedules.alarm.at();
        let ledger = self.ledger.waiting().0 > 0 || self.due.ledger_at <= now.mono;
        // Small batches find faults that show only between two commits.
        let most = if order.u8(..4) == 0 {
            BATCH_MAX
        } else {
            order.usize(1..=8)
        };
        let all = [
            (self.due.frames || waits_for_room, WorldStep::Frame),
            (!self.serving.messages.is_empty(), WorldStep::Message),
            (!self.said.is_empty(), WorldStep::Nats),
            (self.tasks.is_woken() || self.due.tasks, WorldStep::Tasks),
            (self.due.catch_up, WorldStep::CatchUp),
            (is_due(state.turn.wakes_at), WorldStep::Tick),
            (alarm_at.is_some_and(|at| at <= now.unix_ms), WorldStep::Alarm),
            (self.due.clock_was_set, WorldStep::ClockWasSet),
            (is_due(self.due.silence_at), WorldStep::Silence),
            (ledger, WorldStep::Ledger(most)),
            (
                self.queries.iter().any(|query| self.can_answer(query)),
                WorldStep::History,
            ),
            // The output thread takes a turn only when its pipes, a command or its own time wakes it: a command that leaves it
            // asleep is missed here, too.
            (self.output.is_woken() || is_due(self.due.output_at), WorldStep::Output),
            (self.has_handed_over(), WorldStep::Stop),
        ];
        out.extend(all.into_iter().filter(|(can, _)| *can).map(|(_, choice)| choice));
    }

    /// Returns when fnd has something to do although nothing happens.
    pub(super) fn wakes_at(&self, now: Now) -> Option<Duration> {
        let state = self.serving.daemon.state.borrow();
        let until_alarm = |at: u64| now.mono + Duration::from_millis(at.saturating_sub(now.unix_ms));
        let gathered = (self.ledger.waiting().0 > 0).then(|| now.mono + GATHER);
        let all = [
            state.turn.wakes_at,
            state.schedules.alarm.at().map(until_alarm),
            self.due.silence_at,
            Some(self.due.ledger_at),
            gathered,
            self.due.output_at,
        ];
        all.into_iter().flatten().min()
    }

    /// Does a turn of the main loop. Returns whether the spawner is still there.
    pub(super) fn turn(&mut self, choice: WorldStep) -> bool {
        let _inside = self.tasks.enter();
        let daemon = &self.serving.daemon;
        match choice {
            WorldStep::Frame => {
                // Frames that wait for room in the socket are sent first.
                let flushed = daemon
                    .state
                    .borrow_mut()
                    .workers
                    .connection
                    .as_mut()
                    .map(SpawnerConnection::flush);
                match (flushed, daemon.frame()) {
                    (Some(Ok(())), Ok(was_there)) => self.due.frames = was_there,
                    _ => return false,
                }
            }
            WorldStep::Message => {
                if let Ok(message) = self.serving.messages.try_recv() {
                    daemon.input_of_loop(LoopInput::Message(message));
                }
            }
            WorldStep::Nats => {
                if let Ok(fact) = self.said.try_recv() {
                    daemon.input_of_loop(LoopInput::Message(DriverMessage::Nats(fact)));
                }
            }
            WorldStep::Tick => {
                let at = daemon.state.borrow().turn.wakes_at;
                let at = at.map(|at| daemon.state.borrow().clock.instant(at));
                daemon.input_of_loop(LoopInput::Tick(at));
            }
            WorldStep::CatchUp => {
                self.due.catch_up = false;
                daemon.catch_up_now();
            }
            WorldStep::Alarm => self.ring(AlarmCause::Due),
            WorldStep::ClockWasSet => {
                self.due.clock_was_set = false;
                self.ring(AlarmCause::ClockSet);
            }
            WorldStep::Silence => self.due.silence_at = daemon.check_silence(),
            _ => {}
        }
        true
    }

    fn ring(&self, cause: AlarmCause) {
        let daemon = &self.serving.daemon;
        daemon.state.borrow().schedules.alarm.has_rung();
        daemon.input(Input::Alarm(cause));
    }

    /// The wall clock was set, and the kernel says so.
    pub(super) fn clock_set(&mut self) {
        self.due.clock_was_set = true;
    }

    /// Lets the main loop and the watch of the spawner react to a step. Returns whether the spawner is still there.
    pub(super) fn after_step(&mut self, was_turn: bool) -> bool {
        let daemon = &self.serving.daemon;
        self.due.catch_up |= daemon.put_off.notified().now_or_never().is_some();
        if self.due.silence_at.is_none() {
            let silence = &daemon.state.borrow().workers.silence;
            if silence.begun.notified().now_or_never().is_some() {
                self.due.silence_at = silence.wakes_at;
            }
        }
        // The main loop takes a turn only when something wakes it: a deadline that it is not told of is missed here, too.
        let is_woken = daemon.changed.notified().now_or_never().is_some();
        !(was_turn || is_woken) || daemon.before_waiting().is_ok()
    }

    /// Does a turn of the ledger's writer. Returns whether more may come.
    pub(super) fn write(&mut self, now: Now, most: usize) -> bool {
        let goes_on = self.ledger.turn(most);
        self.due.ledger_at = now.mono + self.ledger.pause();
        goes_on
    }

    /// Does a turn of the ledger's reader.
    pub(super) fn read(&mut self) {
        let queries = std::mem::take(&mut self.queries).into_iter();
        let (answered, rest): (Vec<_>, Vec<_>) = queries.partition(|query| self.can_answer(query));
        self.queries = rest;
        self.history.answer(answered);
    }

    /// Says whether a query can be answered now.
    fn can_answer(&self, query: &LedgerQuery) -> bool {
        !query.waits_for_writer || self.ledger.waiting().0 == 0
    }

    /// Does a turn of the output thread.
    pub(super) fn read_output(&mut self, now: Now) {
        self.output.turn(Some(Timespec::default()));
        let mono = crate::clock::monotonic();
        let wakes_at = self.output.wakes_at();
        self.due.output_at = wakes_at.map(|at| now.mono + at.saturating_duration_since(mono));
    }

    /// The catalog answers or reports.
    pub(super) fn look_at_files(&mut self, files: &mut Files, order: &mut Rng, now: Now) {
        for event in files.step(order, now.mono) {
            let _ = self
                .daemon()
                .state
                .borrow()
                .messages
                .send(DriverMessage::Catalog(event)); // fnd runs
        }
    }

    /// Lets the tasks of fnd go on.
    pub(super) fn run_tasks(&mut self, node: &Node<'_>) {
        self.due.tasks = false;
        self.tasks.run_to_rest(node.runtime);
    }
}
