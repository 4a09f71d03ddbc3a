//! `fndctl doctor` on an installation: at first it finds nothing; then it names each problem with a fix that works.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;
use fnd_tests::Run;
use serde_json::Value;

/// Runs doctor; it runs each interpreter for its version, which takes seconds on emulated CPUs.
fn examine(machine: &VirtualMachine) -> Run {
    machine.run("fndctl doctor -o json")
}

/// Returns the findings of an area, one on each line: level, what, where, fix.
fn found(run: &Run, check: &str) -> String {
    let report = run.json();
    let all = report["findings"].as_array().expect("a list of findings");
    let line = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap_or("-").to_owned();
        ["level", "what", "where", "fix"].map(text).join(" | ")
    };
    let of_it = all.iter().filter(|finding| finding["check"] == check);
    of_it.map(line).collect::<Vec<_>>().join("\n")
}

/// A fresh installation has no error, and nothing that could not be checked.
pub(crate) fn fresh(machine: &mut VirtualMachine) {
    let run = examine(machine).expect_code(0);
    assert_eq!(
        (&run.json()["errors"], &run.json()["unknown"]),
        (&0.into(), &0.into()),
        "{run}"
    );
    for check in [
        "daemon",
        "units",
        "access",
        "kernel",
        "cgroups",
        "functions",
        "permissions",
        "disk",
        "journal",
    ] {
        let found = found(&run, check);
        assert!(
            found.starts_with("ok") && found.lines().count() == 1,
            "{check}: {found}"
        );
    }
    // This test has installed deno; nothing synchronises the clock of this machine.
    assert!(!found(&run, "runtimes").contains("warning"), "{run}");
    assert!(found(&run, "clock").starts_with("warning"), "{run}");
    // Another user than root gets the findings too, and learns how to get access.
    let run = machine.run("su bob -c 'fndctl doctor'");
    assert!(run.out().contains("sudo adduser bob fnd"), "{run}");
}

/// A stopped unit, an insecure mode, a missing interpreter.
pub(crate) fn broken(machine: &mut VirtualMachine) {
    machine.drop_bash("loose", "", "echo fine\n");
    machine.drop_file("README.md", "not a function\n");
    machine.ok("chmod g+w /etc/fnd/functions/loose.sh && systemctl stop fnd.service fnd.socket && systemctl disable fnd.service 2>/dev/null && mv /usr/bin/node /usr/bin/node.away");
    let run = examine(machine).expect_code(1);
    machine.ok("systemctl enable fnd.service 2>/dev/null && mv /usr/bin/node.away /usr/bin/node");
    for (check, expected) in [
        ("daemon", "error | "),
        (
            "units",
            "error | it is not running | fnd.service | sudo systemctl start fnd",
        ),
        ("units", "error | it does not listen | fnd.socket | "),
        ("units", "warning | it does not start at boot | fnd.service | "),
        ("permissions", "error | INSECURE MODE 0664: "),
        ("permissions", "sudo chmod go-w /etc/fnd/functions/loose.sh"),
        (
            "functions",
            "warning | no rule makes it a function | /etc/fnd/functions/README.md | ",
        ),
        ("runtimes", "warning | node: there is no interpreter"),
    ] {
        let found = found(&run, check);
        assert!(found.contains(expected), "no {expected:?} of {check}: {found}");
    }
    // The fixes work.
    machine.ok(
        "chmod go-w /etc/fnd/functions/loose.sh && rm /etc/fnd/functions/README.md && systemctl start fnd.socket fnd",
    );
    machine.wait_until("nothing to be wrong", PATIENCE, "fndctl doctor");
}
