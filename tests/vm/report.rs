//! Prints a line for each scenario, and keeps the data of failed ones.

use crate::machine::VirtualMachine;
use crate::scenarios::Scenario;
use fnd_tests::wait::now;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shell commands whose output is kept after a failure.
const EVIDENCE: [(&str, &str); 4] = [
    (
        "units",
        "systemctl status --no-pager --full fnd.socket fnd.service fnd-spawner.service",
    ),
    ("status", "timeout 20 fndctl status; timeout 20 fndctl history -o wide"),
    (
        "cgroups",
        "systemd-cgls --no-pager --full --all; ps -eo pid,ppid,user,stat,etime,args --forest",
    ),
    (
        "journal",
        "journalctl --no-pager --all --output short-precise --since @$(cat /var/fnd-vm-scenario)",
    ),
];

/// Lines of the journal that are printed with a failure; all of them are in the file.
const JOURNAL_LINES: usize = 60;

#[derive(Debug)]
pub(crate) struct Report {
    results: PathBuf,
    went: Mutex<Went>,
}

/// Names; a scenario that ran on several machines counts once.
#[derive(Debug, Default)]
struct Went {
    fine: BTreeSet<&'static str>,
    failed: BTreeSet<&'static str>,
}

impl Report {
    /// Returns a report that keeps its files in `results` below the directory of a run.
    pub(crate) fn new(work: &Path) -> Self {
        let results = work.join("results");
        let _ = fs::remove_dir_all(&results); // of the run before
        fs::create_dir_all(&results).expect("a directory for the results");
        Self {
            results,
            went: Mutex::default(),
        }
    }

    fn went(&self) -> MutexGuard<'_, Went> {
        self.went.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a scenario and says how it went; returns whether it went well.
    pub(crate) fn run(&self, scenario: &Scenario, machine: &mut VirtualMachine) -> bool {
        let start = now();
        let went = catch_unwind(AssertUnwindSafe(|| {
            machine.ok("date +%s >/var/fnd-vm-scenario");
            if !scenario.always {
                machine.clean_fnd();
            }
            (scenario.run)(machine);
        }));
        let seconds = start.elapsed().as_secs_f64();
        if went.is_ok() {
            self.went().fine.insert(scenario.name);
            eprintln!("{:<42} fine   {seconds:6.1} s", scenario.name);
            return true;
        }
        self.went().failed.insert(scenario.name);
        eprintln!("{:<42} FAILED {seconds:6.1} s", scenario.name);
        if catch_unwind(AssertUnwindSafe(|| self.collect(scenario.name, machine))).is_err() {
            eprintln!("the machine does not answer{}", machine.console_end());
        }
        false
    }

    fn collect(&self, name: &str, machine: &VirtualMachine) {
        for (kind, command) in EVIDENCE {
            let run = machine.run(command);
            let text = format!("{}{}", run.out(), run.stderr);
            let file = self.results.join(format!("{}.{kind}", name.replace(' ', "-")));
            fs::write(&file, &text).expect("the results are written");
            if kind == "journal" {
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(JOURNAL_LINES)..];
                eprintln!("{}\nall of it, and more: {}", last.join("\n"), self.results.display());
            }
        }
    }

    /// Returns the result in a line.
    pub(crate) fn summary(&self) -> String {
        let Went { fine, failed } = &*self.went();
        let names: Vec<_> = failed.iter().copied().collect();
        let which = if names.is_empty() {
            String::new()
        } else {
            format!(": {}", names.join(", "))
        };
        let fine = fine.difference(failed).count();
        format!("{fine} scenarios fine, {} failed{which}", names.len())
    }

    /// Says whether any scenario failed, or none ran.
    pub(crate) fn failed(&self) -> bool {
        let went = self.went();
        !went.failed.is_empty() || went.fine.is_empty()
    }
}
