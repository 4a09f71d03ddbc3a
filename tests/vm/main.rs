//! fnd on a real Debian with systemd and cgroup v2: `make test-vm`.
//!
//! One machine is booted and serves all scenarios, in order; each has a line. A scenario that fails leaves the journal and the
//! cgroup tree of its time beside its name in `target/vm/results`, and the next one begins with a clean fnd. Arguments are
//! parts of names: only those scenarios run (`install` always, since it brings fnd).
#![expect(clippy::print_stderr, reason = "a line for each scenario is what a person watches")]

mod channel;
mod guest;
mod machine;
mod report;
mod scenarios;

use fnd_tests::wait::now;
use machine::{Image, VirtualMachine};
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let place = |name: &str| {
        let path = std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: use `make test-vm`"));
        // A disk names the one it lies on, and not from where it was made.
        std::path::absolute(path).expect("a path that is not empty")
    };
    let filters: Vec<String> = std::env::args().skip(1).collect();
    let image = Image {
        base: place("FND_VM_IMAGE"),
        payload: place("FND_VM_PAYLOAD"),
        work: place("FND_VM_WORK"),
    };
    let mut report = Report::new(&image.work);
    let chosen: Vec<_> = scenarios::ALL
        .iter()
        .filter(|scenario| {
            scenario.always || filters.is_empty() || filters.iter().any(|part| scenario.name.contains(part.as_str()))
        })
        .collect();
    let start = now();
    let mut machine = VirtualMachine::boot(&image, "");
    eprintln!("booted in {:.1} s", start.elapsed().as_secs_f64());
    for scenario in chosen {
        if !report.run(scenario, &mut machine) {
            if scenario.always {
                break;
            }
            // Whatever it left: the next one shall not fail for it.
            machine.power_cut("");
        }
    }
    drop(machine);
    eprintln!("{} in {:.0} s", report.summary(), start.elapsed().as_secs_f64());
    if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
