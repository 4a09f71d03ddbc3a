//! Handles starts that exceed their deadline and cgroups that are not empty yet: nothing is waited for without a
//! deadline.

use super::*;

/// How long a launcher may be silent while it owes an answer; longer than its own deadline for a child. Then it is
/// killed.
const SILENCE: Duration = Duration::from_secs(5);
/// First and longest pause before removing a cgroup is tried again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

/// A cgroup that could not be removed yet.
pub(super) struct Leaving {
    leaf: Leaf,
    at: Duration,
    pause: Duration,
}

impl Workers {
    /// Kills launchers that are overdue, and removes cgroups that became empty.
    pub fn overdue(&mut self, now: Duration, out: &mut Outbox) {
        let late = |launcher: &&Launcher| launcher.overdue_at().is_some_and(|at| at <= now);
        if self.launchers.values().any(|launcher| late(&launcher)) {
            self.give_up(late, out);
        }
        self.leaving.retain_mut(|leaving| {
            if leaving.at > now {
                return true;
            }
            leaving.pause = (leaving.pause * 2).min(AGAIN.1);
            leaving.at = now + leaving.pause;
            let _ = leaving.leaf.kill(); // fails if the cgroup is gone
            leaving.leaf.remove().is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        });
    }

    /// Returns when [`overdue`](Self::overdue) has something to do.
    pub fn overdue_at(&self) -> Option<Duration> {
        let leaving = self.leaving.iter().map(|leaving| leaving.at);
        self.launchers.values().filter_map(Launcher::overdue_at).chain(leaving).min()
    }

    /// Fails every start that is under way.
    pub fn give_up_starts(&mut self, out: &mut Outbox) {
        self.give_up(|launcher| launcher.owes > 0, out);
    }

    /// Kills launchers, so that the starts they were ordered fail. It uses a signal: a launcher that hangs reads no
    /// order.
    fn give_up(&mut self, which: impl Fn(&&Launcher) -> bool, out: &mut Outbox) {
        let given_up: Vec<u64> =
            self.launchers.iter().filter(|(_, launcher)| which(launcher)).map(|(number, _)| *number).collect();
        for number in given_up {
            self.launcher_ended(number, out);
        }
    }

    /// Kills the processes in a cgroup and removes it, now or as soon as it is empty.
    pub(super) fn clear(&mut self, leaf: Leaf) {
        let _ = leaf.kill();
        if leaf.remove().is_err() {
            self.leaving.push(Leaving::new(leaf));
        }
    }
}

impl Leaving {
    pub(super) fn new(leaf: Leaf) -> Self {
        Self { leaf, at: now() + AGAIN.0, pause: AGAIN.0 }
    }
}

impl Launcher {
    /// Records that an answer is owed.
    pub(super) fn ordered(&mut self, now: Duration) {
        if self.owes == 0 {
            self.heard = now;
        }
        self.owes += 1;
    }

    /// Records that an answer came.
    pub(super) fn answered(&mut self) {
        self.heard = now();
        self.owes = self.owes.saturating_sub(1);
    }

    fn overdue_at(&self) -> Option<Duration> {
        (self.owes > 0).then_some(self.heard + SILENCE)
    }
}
