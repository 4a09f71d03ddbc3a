//! Faults of the spawner: it is killed or stopped, another version takes its place, it is silent, or the node cannot start
//! processes. After a kill, a stop or another version, the world connects the next fnd.

use super::*;
use fnd_wire::frame::PROTOCOL_0_1;

impl SpawnerModel {
    /// The spawner is killed, or the machine loses its power: all processes are gone, and no fnd is told of their ends. The
    /// next spawner has nothing but the disk.
    pub(crate) fn killed(&mut self, turn: &mut SpawnerTurn<'_>) {
        self.kill_all(turn);
        self.processes.clear();
        self.forget();
    }

    /// The spawner is stopped in order: all processes end, the connected fnd may still read that, and the next spawner tells
    /// the next fnd of every end that was not acknowledged.
    pub(crate) fn stopped(&mut self, turn: &mut SpawnerTurn<'_>) {
        self.link.read();
        while !self.link.requests.is_empty() {
            self.carry_out(turn);
        }
        for process in self.processes.values_mut().filter(|process| !process.is_over()) {
            process.termed.get_or_insert((turn.now.mono, TermCause::Stopped));
        }
        self.kill_all(turn);
        self.processes.retain(|_, process| process.is_over());
        for worker in self.processes.keys().copied().collect::<Vec<_>>() {
            self.report(worker, turn.now);
        }
        for process in self.processes.values_mut() {
            // The file of ends keeps the output and the result, but no socket.
            if let Some(kept) = &mut process.kept {
                kept.channel = None;
            }
        }
        self.forget();
    }

    /// From its next start on, the spawner is that of fnd 0.1, or that of this version again.
    pub(crate) fn replace(&mut self, is_of_0_1: bool) {
        self.next_protocol = if is_of_0_1 { PROTOCOL_0_1 } else { PROTOCOL_MAX };
    }

    /// Returns whether the spawner that runs is that of fnd 0.1.
    pub(crate) fn is_of_0_1(&self) -> bool {
        self.protocol == PROTOCOL_0_1
    }

    /// The spawner does nothing for a while: a signal has stopped it, or it has no CPU time.
    pub(crate) fn be_silent(&mut self, until: Duration) {
        self.silent_until = Some(until);
    }

    /// So many starts fail because the node is short of something.
    pub(crate) fn lack_descriptors(&mut self, starts: u32) {
        self.cannot_start = starts;
    }

    /// Ends the faults that last.
    pub(crate) fn recover(&mut self) {
        (self.silent_until, self.cannot_start) = (None, 0);
    }

    pub(super) fn is_silent(&self, now: Now) -> bool {
        self.silent_until.is_some_and(|until| until > now.mono)
    }

    fn kill_all(&mut self, turn: &mut SpawnerTurn<'_>) {
        for worker in self.processes.keys().copied().collect::<Vec<_>>() {
            self.kill(worker, turn);
        }
    }

    /// Forgets everything that a spawner has in memory only.
    fn forget(&mut self) {
        self.link.close();
        self.link.requests.clear();
        self.judge_queue.clear();
        self.helpers.clear();
        self.homes = BuildHomesModel::default();
        self.silent_until = None;
        self.protocol = self.next_protocol;
        // Numbers begin anew, above those of the ends that are kept.
        let last = self.processes.keys().last();
        self.next_worker = last.map_or(WorkerId(1), |last| WorkerId(last.0 + 1));
    }
}
