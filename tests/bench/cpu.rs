//! CPU time of fnd and its spawner, thread by thread, from `/proc/PID/task/TID/schedstat` (kernel documentation,
//! scheduler/sched-stats). Unlike the time that a caller waits, it is much the same on a busy machine.

use fnd_tests::Fnd;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// CPU time by program and thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cpu(BTreeMap<String, Duration>);

impl Cpu {
    /// Reads what fnd and its spawner have used so far.
    pub(crate) fn of(fnd: &Fnd) -> Self {
        let pid = fnd.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let spawner = children
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse::<u32>().ok());
        let mut used = BTreeMap::new();
        for (program, pid) in [("fnd", Some(pid)), ("spawner", spawner)] {
            let Some(tasks) = pid.and_then(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()) else {
                continue;
            };
            for task in tasks.flatten().map(|task| task.path()) {
                let read = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
                let nanos = read("schedstat")
                    .split_whitespace()
                    .next()
                    .and_then(|ns| ns.parse().ok());
                let name = match read("comm").trim() {
                    "fnd" | "fnd-spawner" => program.to_owned(),
                    thread => format!("{program} {thread}"),
                };
                *used.entry(name).or_default() += Duration::from_nanos(nanos.unwrap_or(0));
            }
        }
        Self(used)
    }

    /// Returns what was used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let used = self.0.iter().map(|(name, now)| {
            let before = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), now.saturating_sub(before))
        });
        Self(used.collect())
    }

    /// Returns the sum.
    pub(crate) fn total(&self) -> Duration {
        self.0.values().sum()
    }

    /// Returns the microseconds of each of `calls`, and which thread used them, the busiest first.
    pub(crate) fn each(&self, calls: usize) -> String {
        let calls = f64::from(u32::try_from(calls.max(1)).unwrap_or(u32::MAX));
        let each = |time: Duration| time.as_secs_f64() * 1e6 / calls;
        let mut threads: Vec<(&String, f64)> = self.0.iter().map(|(name, time)| (name, each(*time))).collect();
        threads.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let shown: Vec<String> = threads
            .iter()
            .filter(|(_, micros)| *micros >= 1.0)
            .map(|(name, micros)| format!("{name} {micros:.0}"))
            .collect();
        format!("{:.0} us ({})", each(self.total()), shown.join(", "))
    }
}
