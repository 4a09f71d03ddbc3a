//! Handles starts that exceed their deadline and cgroups that are not empty yet: nothing is waited for without a
//! deadline.

use super::*;

/// How long a launcher that owes an answer may do nothing at all; longer than its own deadline for a child. Then it is
/// killed.
const SILENCE: Duration = Duration::from_secs(5);
/// How long it may owe an answer in any case, for example on a machine without CPU time for it.
const LONGEST: Duration = Duration::from_secs(30);
/// Pause between two checks of a launcher that owes an answer, and the most that one check counts: if the spawner itself
/// was stopped or had no CPU time, that says nothing about the launcher.
const TICK: Duration = Duration::from_millis(500);
/// So many starts of a function in a row may hang for the machine's reason; more are the function's (for example a
/// directory of its sandbox on a file system that hangs), since each delays the starts of all functions.
const HANGS_MAX: u32 = 2;
/// First and longest pause before removing a cgroup is tried again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(10));

/// A cgroup that could not be removed yet.
pub(super) struct LeavingLeaf {
    leaf: Leaf,
    pub(super) at: Duration,
    pause: Duration,
}

impl WorkerTable {
    /// Kills launchers that are overdue, and removes cgroups that became empty.
    pub fn overdue(&mut self, now: Duration, out: &mut Outbox) {
        let hangs = |(number, launcher): (&u64, &mut Launcher)| launcher.hangs(now).then_some(*number);
        let hanging: Vec<u64> = self.launchers.iter_mut().filter_map(hangs).collect();
        for number in hanging {
            let function = self.launchers.get(&number).map_or(FunctionId(0), |launcher| launcher.function);
            let hangs = self.hangs.entry(function).or_default();
            *hangs += 1;
            let shortage = (*hangs <= HANGS_MAX).then_some(rustix::io::Errno::TIMEDOUT);
            let why = format!("the function's launcher did nothing for {} s, or had no CPU time", SILENCE.as_secs());
            self.end_launcher(number, &NoStart { why, shortage, child: None }, out);
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

    /// Fails every start that is under way.
    pub fn give_up_starts(&mut self, out: &mut Outbox) {
        let owing = self.launchers.iter().filter(|(_, launcher)| launcher.owes > 0).map(|(number, _)| *number);
        owing.collect::<Vec<_>>().into_iter().for_each(|number| self.launcher_ended(number, out));
    }

    /// Kills the processes in a cgroup and removes it, now or as soon as it is empty.
    pub(super) fn clear(&mut self, leaf: Leaf) {
        // If this fails, the leaf is not empty, and `overdue` tries again.
        let _ = leaf.kill();
        if leaf.remove().is_err() {
            self.leaving.push(LeavingLeaf::new(leaf));
        }
    }
}

impl LeavingLeaf {
    pub(super) fn new(leaf: Leaf) -> Self {
        Self { leaf, at: now() + AGAIN.0, pause: AGAIN.0 }
    }
}

impl Launcher {
    /// Records that an answer is owed.
    pub(super) fn ordered(&mut self, now: Duration) {
        if self.owes == 0 {
            self.silence = Silence { checked: now, ..Silence::default() };
        }
        self.owes += 1;
    }

    /// Records that an answer came.
    pub(super) fn answered(&mut self) {
        self.silence = Silence { checked: now(), ..Silence::default() };
        self.owes = self.owes.saturating_sub(1);
    }

    pub(super) fn check_at(&self) -> Option<Duration> {
        (self.owes > 0).then_some(self.silence.checked + TICK)
    }

    /// Checks whether the launcher owes an answer and hangs.
    fn hangs(&mut self, now: Duration) -> bool {
        self.check_at().is_some_and(|at| at <= now) && self.silence.hangs(now, Progress::of(self.child.pid))
    }
}

/// How long a launcher has been silent, counted only while it could have spoken.
#[derive(Debug, Default)]
pub(super) struct Silence {
    checked: Duration,
    all: Duration,
    /// The part since it last did something.
    idle: Duration,
    seen: Progress,
}

/// The kernel's counts of a process, from `/proc/PID/schedstat`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Progress {
    /// How often it was given a CPU.
    turns: u64,
    /// Whether it waits for a CPU now.
    is_runnable: bool,
}

impl Silence {
    fn hangs(&mut self, now: Duration, progress: Progress) -> bool {
        let passed = now.saturating_sub(self.checked).min(TICK);
        self.checked = now;
        self.all += passed;
        let idle = !progress.is_runnable && progress.turns == self.seen.turns;
        self.idle = if idle { self.idle + passed } else { Duration::ZERO };
        self.seen = progress;
        self.idle >= SILENCE || self.all >= LONGEST
    }
}

impl Progress {
    /// Reads the progress of a process; one that cannot be read has made none.
    fn of(pid: u32) -> Self {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // The third number counts how often the process was given a CPU (kernel, scheduler/sched-stats.rst).
        let turns = read("schedstat").split_ascii_whitespace().nth(2).and_then(|turns| turns.parse().ok());
        // The state follows the last parenthesis: the name of a process may have one, too (proc_pid_stat(5)).
        let state = read("stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
        Self { turns: turns.unwrap_or(0), is_runnable: state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn asleep(turns: u64) -> Progress {
        Progress { turns, is_runnable: false }
    }

    /// Checks in these steps until it hangs; returns when.
    fn hangs_after(mut progress: impl FnMut(u64) -> Progress, step: u64) -> u64 {
        let mut silence = Silence::default();
        (1..).map(|n| n * step).find(|ms| silence.hangs(at(*ms), progress(*ms))).unwrap()
    }

    #[test]
    fn one_that_does_nothing_hangs_after_five_seconds() {
        assert_eq!(hangs_after(|_| asleep(7), 500), 5500, "the first check sees it for the first time");
    }

    #[test]
    fn a_stop_of_the_spawner_itself_is_no_silence() {
        let mut silence = Silence::default();
        assert!(!silence.hangs(at(500), asleep(7)));
        assert!(!silence.hangs(at(9_500), asleep(7)), "nine seconds later");
        assert!(!silence.hangs(at(99_500), asleep(7)));
        assert_eq!(hangs_after(|_| asleep(7), 3000) / 3000, 11, "it counts its own turns");
    }

    #[test]
    fn one_that_runs_or_waits_for_a_cpu_has_longer() {
        assert_eq!(hangs_after(asleep, 500), 30_000);
        assert_eq!(hangs_after(|_| Progress { turns: 7, is_runnable: true }, 500), 30_000);
    }

    #[test]
    fn this_process_runs() {
        assert!(Progress::of(std::process::id()).is_runnable || Progress::of(std::process::id()).turns > 0);
        assert_eq!(Progress::of(u32::MAX), Progress::default());
    }
}
