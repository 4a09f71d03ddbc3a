//! fnd on a real Debian with systemd and cgroup v2: `make test-vm`.
//!
//! Two machines are booted, since a scenario waits about half of its time; each machine takes the next scenario that
//! has not begun. Each scenario has a line. A failed scenario leaves the journal and the cgroup tree of its time under
//! its name in `target/vm/run/results`, and the next one begins with a clean fnd. Arguments are parts of names: only
//! those scenarios run (`install` always and on each machine, since it brings fnd). `--changed` runs the core ones
//! only, if nothing that needs all of them has changed ([`scope`]).
//!
//! Files:
//! - `channel`: answers of the agent
//! - `guest`: fnd in the machine
//! - `machine`: QEMU
//! - `report`: a line for each scenario
//! - `scenarios`: one file an area
//! - `scope`: which scenarios run
#![expect(clippy::print_stderr, reason = "a line for each scenario is what a person watches")]

mod channel;
mod guest;
mod machine;
mod report;
mod scenarios;
mod scope;

use fnd_tests::wait::now;
use machine::{Image, VirtualMachine};
use report::Report;
use scenarios::Scenario;
use scope::Scope;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const MACHINES: usize = 2;

fn main() -> ExitCode {
    let place = |name: &str| {
        let path = std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: use `make test-vm`"));
        // A disk file names its base image by path; a relative path would depend on the directory.
        std::path::absolute(path).expect("a path that is not empty")
    };
    let mut filters: Vec<String> = std::env::args().skip(1).collect();
    let root = &fnd_tests::programs::repository();
    let all = filters.is_empty();
    if filters == ["--changed"] {
        filters.clear();
        match scope::of(root) {
            Scope::All(why) => eprintln!("all scenarios: {why}"),
            Scope::Core(why) => {
                eprintln!("the core scenarios only: {why}");
                filters.extend(scenarios::CORE.iter().map(|name| (*name).to_owned()));
            }
        }
    }
    let image = Image {
        base: place("FND_VM_IMAGE"),
        payload: place("FND_VM_PAYLOAD"),
        work: place("FND_VM_WORK"),
    };
    let report = Report::new(&image.work);
    let chosen =
        |scenario: &&Scenario| filters.is_empty() || filters.iter().any(|part| scenario.name.contains(part.as_str()));
    let (always, others): (Vec<_>, Vec<_>) = scenarios::ALL.iter().partition(|scenario| scenario.always);
    let others: Vec<_> = others.into_iter().filter(chosen).collect();
    let next = AtomicUsize::new(0);
    let todo = || others.get(next.fetch_add(1, Ordering::Relaxed)).copied();
    let (always, todo, report) = (&always[..], &todo, &report);
    let start = now();
    thread::scope(|scope| {
        for number in 1..=MACHINES.min(others.len().max(1)) {
            let image = image.of_machine(number);
            // A panic of the thread, for example if a machine does not boot, is passed on.
            thread::Builder::new()
                .name(format!("machine {number}"))
                .spawn_scoped(scope, move || serve(&image, always, todo, report))
                .expect("a thread");
        }
    });
    eprintln!("{} in {:.0} s", report.summary(), start.elapsed().as_secs_f64());
    if report.failed() {
        ExitCode::FAILURE
    } else if all {
        scope::passed(root).into_iter().for_each(|what| eprintln!("{what}"));
        ExitCode::SUCCESS
    } else {
        ExitCode::SUCCESS
    }
}

/// Boots a machine and runs scenarios on it.
fn serve<'a>(image: &Image, always: &[&Scenario], todo: impl Fn() -> Option<&'a Scenario>, report: &Report) {
    let start = now();
    let mut machine = VirtualMachine::boot(image, "");
    eprintln!("booted in {:.1} s", start.elapsed().as_secs_f64());
    if !always.iter().all(|scenario| report.run(scenario, &mut machine)) {
        return;
    }
    while let Some(scenario) = todo() {
        if !report.run(scenario, &mut machine) {
            // The next scenario must not fail because of the state that this one left.
            machine.power_cut("");
        }
    }
}
