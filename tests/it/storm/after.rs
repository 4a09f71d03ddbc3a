//! Checks the resources that fnd and its spawner hold, and that none of them remain when all functions are removed.

use super::Storm;
use crate::crash::findings::Findings;
use fnd_tests::Fnd;
use fnd_tests::wait::PATIENCE;
use std::fs;
use std::path::Path;

/// Bytes by which memory may have grown since warming up.
const GROWTH: u64 = 8 << 20;
/// Number of descriptors by which two counts of an idle fnd may differ: a connection, a file that is being written.
const SLACK: usize = 3;

/// The resources of both processes.
#[derive(Debug, Clone)]
pub(super) struct Figures(Vec<Held>);

#[derive(Debug, Clone)]
struct Held {
    who: &'static str,
    memory: u64,
    descriptors: usize,
    threads: usize,
}

impl Figures {
    pub(super) fn of(fnd: &Fnd) -> Self {
        let held = |who, pid: u32| {
            let below = |name: &str| fs::read_dir(format!("/proc/{pid}/{name}")).map_or(0, Iterator::count);
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            let memory = kib.expect("it runs") << 10;
            Held {
                who,
                memory,
                descriptors: below("fd"),
                threads: below("task"),
            }
        };
        Self(vec![held("fnd", fnd.pid()), held("fnd-spawner", fnd.spawner_pid())])
    }

    /// Compares memory under load with that after warming up.
    pub(super) fn compare_memory(&self, before: &Self, found: &mut Findings) {
        for (now, before) in self.0.iter().zip(&before.0) {
            if now.memory > before.memory + GROWTH {
                let (who, now, before) = (now.who, now.memory >> 10, before.memory >> 10);
                found.wrong.push(format!(
                    "{who} has {now} KiB of memory, after warming up it had {before} KiB"
                ));
            }
        }
    }

    /// Returns the resources of which there are more than before the first function.
    fn beyond(&self, before: &Self) -> Vec<String> {
        let pairs = self.0.iter().zip(&before.0).flat_map(|(now, before)| {
            [
                (now.descriptors > before.descriptors + SLACK).then(|| {
                    format!(
                        "{} has {} descriptors, {} before",
                        now.who, now.descriptors, before.descriptors
                    )
                }),
                (now.threads > before.threads)
                    .then(|| format!("{} has {} threads, {} before", now.who, now.threads, before.threads)),
            ]
        });
        pairs.flatten().collect()
    }
}

/// Checks that nothing remains of removed functions, after the time that launchers have to end.
pub(super) fn check_leftovers(storm: &mut Storm, empty: &Figures, found: &mut Findings) {
    let begun = fnd_tests::now();
    let left = loop {
        let left = leftovers(storm, empty);
        if left.is_empty() || begun.elapsed() > PATIENCE / 2 {
            break left;
        }
        fnd_tests::wait::pause();
    };
    found.wrong.extend(left);
    let table = fs::read_to_string(storm.fnd.path("state/spawner/uids")).unwrap_or_default();
    // `UID NAME SUM`.
    let pair = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    let pairs: Vec<_> = table.lines().map(pair).collect();
    for (index, line) in table.lines().enumerate() {
        let Some((uid, name)) = pair(line) else {
            found
                .wrong
                .push(format!("a line of the uid table is no pair: `{line}`"));
            continue;
        };
        let mut later = pairs.iter().skip(index + 1).flatten();
        if later.any(|(other, of)| *other == uid || *of == name) {
            found
                .wrong
                .push(format!("the uid table gives something twice, `{line}` first:\n{table}"));
        }
    }
}

fn leftovers(storm: &Storm, empty: &Figures) -> Vec<String> {
    let fnd = &storm.fnd;
    let own = [fnd.pid(), fnd.spawner_pid()];
    let others = |process: &String| !own.iter().any(|pid| process.starts_with(&format!("process {pid} ")));
    // The spawner's judge also runs without functions.
    let judge = |process: &String| process.contains("--judge");
    let mut left: Vec<String> = fnd
        .mark()
        .processes()
        .into_iter()
        .filter(|process| others(process) && !judge(process))
        .collect();
    // The spool of the last attempt is removed with the next command to the output thread, which does not wake for it
    // alone. Output that could not be stored for lack of room stays for the next start.
    let mut spools = names(&fnd.path("state/state/spool"));
    if storm.shortage {
        spools.clear();
    }
    left.extend(spools.into_iter().skip(1).map(|name| format!("the spool `{name}`")));
    for directory in ["state/tmp", "run/spawner/http"] {
        left.extend(
            names(&fnd.path(directory))
                .into_iter()
                .map(|name| format!("`{directory}/{name}`")),
        );
    }
    left.extend(
        Figures::of(fnd)
            .beyond(empty)
            .into_iter()
            .map(|what| format!("{what}, and no function")),
    );
    left
}

/// Returns the names in a directory and one level below; empty directories do not count.
fn names(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(names(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            all.push(name);
        }
    }
    all
}
