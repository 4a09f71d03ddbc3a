//! The package and its units.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

/// One command installs the package, and fnd runs.
pub(crate) fn package(machine: &mut VirtualMachine) {
    machine.ok("install -m 0755 /payload/deno /usr/local/bin/deno && dpkg --install /payload/fnd.deb");
    machine.wait_until(
        "the units to be active",
        PATIENCE,
        "systemctl is-active fnd.socket fnd.service fnd-spawner.service",
    );
    machine.ok("systemctl is-enabled fnd.socket fnd.service");
    machine.ok("usermod --append --groups fnd alice");
    let problems = machine.ok("journalctl --no-pager -b -p warning -u fnd.service -u fnd-spawner.service -o cat");
    assert_eq!(problems, "", "warnings after the installation");
    machine.ok("fndctl version && fndctl runtimes -o json | jq -e '.runtimes | length >= 5'");
}

/// The profile that lets fnd's programs make user namespaces holds for the spawner where AppArmor knows its rule, and is not
/// there elsewhere.
pub(crate) fn apparmor(machine: &mut VirtualMachine) {
    const LABEL: &str = "fnd (unconfined)";
    if machine.run("test -e /etc/apparmor.d/abi/4.0").code != 0 {
        machine.ok("test ! -e /etc/apparmor.d/fnd");
        return;
    }
    machine.ok(&format!("grep -qx '{LABEL}' /sys/kernel/security/apparmor/profiles"));
    let spawner = machine.main_pid("fnd-spawner.service");
    assert_eq!(machine.ok(&format!("cat /proc/{spawner}/attr/current")), LABEL);
}

/// `systemctl status fnd` says what fnd does, not only that it runs.
pub(crate) fn status_line(machine: &mut VirtualMachine) {
    machine.drop_bash("counted", "", "echo fine\n");
    machine.wait_until(
        "the status line to count the function",
        PATIENCE,
        "systemctl show --property StatusText --value fnd.service | grep -x 'functions: 1'",
    );
    let status = machine.ok("systemctl status --no-pager fnd.service");
    assert!(status.contains("Status: \""), "{status}");
}

/// The page that has the reason for each right that a unit keeps.
const REASONS: &str = include_str!("../../../docs/design/promises.md");

/// Each unit has only the rights that it needs, and the page says why. Functions inherit the restrictions of the spawner's
/// unit.
pub(crate) fn hardening(machine: &mut VirtualMachine) {
    for (unit, most) in [("fnd.service", 1.2), ("fnd-spawner.service", 5.0)] {
        let table = machine.ok(&format!("systemd-analyze security --no-pager {unit}"));
        let line = table
            .lines()
            .find(|line| line.contains("Overall exposure"))
            .expect("a line with the result");
        let exposure = line
            .split_whitespace()
            .find_map(|word| word.parse::<f64>().ok())
            .expect("a number in it");
        assert!(exposure <= most, "{unit}: {exposure}, more than {most}\n{table}");
        for marked in table.lines().filter_map(|line| line.strip_prefix("✗ ")) {
            let option = marked.split_inclusive('=').next().expect("the name of an option");
            assert!(
                REASONS.contains(&format!("`{option}`")),
                "{unit}: no reason for `{option}`"
            );
        }
    }
    let problems = machine.ok("systemd-analyze verify --man=no fnd.socket fnd.service fnd-spawner.service 2>&1");
    assert_eq!(problems, "", "systemd-analyze verify");
}
