//! `fndctl doctor` on an installation: nothing to complain of at first; what is broken is named, with a fix that is one.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

/// What was found of an area, one line each: level, what, where, fix.
fn found(machine: &VirtualMachine, check: &str) -> String {
    let run = machine.run(&format!(
        "fndctl doctor -o json | jq -r '.findings[] | select(.check == \"{check}\") | [.level, .what, .where, .fix] | @tsv'"
    ));
    run.out()
}

/// A fresh installation has no error, and nothing that could not be looked at.
pub(crate) fn fresh(machine: &mut VirtualMachine) {
    let run = machine.run("fndctl doctor -o json");
    assert_eq!(run.code, 0, "{run}");
    let report = run.json();
    assert_eq!((&report["errors"], &report["unknown"]), (&0.into(), &0.into()), "{run}");
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
        let found = found(machine, check);
        assert!(
            found.starts_with("ok\t") && found.lines().count() == 1,
            "{check}: {found}"
        );
    }
    // deno is there by this test's hand; nobody keeps the clock of this machine.
    assert!(!found(machine, "runtimes").contains("warning"), "{run}");
    assert!(found(machine, "clock").starts_with("warning"), "{run}");
    // Somebody who is not root sees it too, and is told what keeps them from using it.
    let run = machine.run("su bob -c 'fndctl doctor'");
    assert!(run.out().contains("sudo adduser bob fnd"), "{run}");
    let run = machine.run("su alice -c 'fndctl doctor'");
    assert_eq!(run.code, 0, "{run}");
}

/// A unit that is stopped, a mode that is insecure, an interpreter that went away.
pub(crate) fn broken(machine: &mut VirtualMachine) {
    machine.drop_bash("loose", "", "echo fine\n");
    machine.drop_file("README.md", "not a function\n");
    machine.ok("chmod g+w /etc/fnd/functions/loose.sh && systemctl stop fnd.service fnd.socket");
    let run = machine.run("fndctl doctor");
    assert_eq!(run.code, 1, "{run}");
    let units = found(machine, "units");
    assert!(
        units.contains("it is not running\tfnd.service\tsudo systemctl start fnd"),
        "{units}"
    );
    assert!(units.contains("fnd.socket"), "{units}");
    assert!(found(machine, "daemon").starts_with("error"), "{run}");
    let modes = found(machine, "permissions");
    assert!(
        modes.contains("INSECURE MODE") && modes.contains("chmod go-w /etc/fnd/functions/loose.sh"),
        "{modes}"
    );
    let functions = found(machine, "functions");
    assert!(functions.contains("/etc/fnd/functions/README.md"), "{functions}");
    // Its fixes are ones.
    machine.ok(
        "chmod go-w /etc/fnd/functions/loose.sh && rm /etc/fnd/functions/README.md && systemctl start fnd.socket fnd",
    );
    machine.wait_until("nothing to be wrong", PATIENCE, "fndctl doctor");
    machine.ok("systemctl disable fnd.service 2>/dev/null; mv /usr/bin/node /usr/bin/node.away");
    let (units, runtimes) = (found(machine, "units"), found(machine, "runtimes"));
    machine.ok("systemctl enable fnd.service 2>/dev/null; mv /usr/bin/node.away /usr/bin/node");
    assert!(
        units.contains("warning\tit is not started with the machine\tfnd.service"),
        "{units}"
    );
    assert!(runtimes.contains("node: there is no interpreter"), "{runtimes}");
}
