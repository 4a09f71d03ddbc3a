//! The systemd units are valid, and have the settings that fnd depends on.

use fnd_tests::programs::repository;
use fnd_tests::require;
use std::process::Command;

#[test]
fn systemd_accepts_them() {
    require!(units);
    let output = Command::new(repository().join("scripts/check-units.sh"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// docs/design/operation.md, "systemd", gives the reason for each setting. A unit without one of them looks right but fails
/// later.
#[test]
fn what_must_be_in_them_and_what_must_not() {
    let read = |name: &str| std::fs::read_to_string(repository().join("systemd").join(name)).unwrap();
    let settings = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    };
    let fnd = settings(&read("fnd.service"));
    let spawner = settings(&read("fnd-spawner.service"));
    for line in [
        "StartLimitIntervalSec=0",
        "Type=notify",
        "RestartPreventExitStatus=2 78",
        "CPUWeight=1000",
        "User=fnd",
    ] {
        assert!(fnd.iter().any(|l| l == line), "fnd.service has no {line}");
    }
    assert!(fnd.iter().any(|line| line.starts_with("Requires=fnd-spawner.service")));
    assert!(fnd.iter().any(|line| line.starts_with("After=fnd-spawner.service")));
    for line in [
        "Delegate=yes",
        "StopWhenUnneeded=yes",
        "KillMode=mixed",
        "SystemCallErrorNumber=EPERM",
        "CPUWeight=1000",
    ] {
        assert!(spawner.iter().any(|l| l == line), "fnd-spawner.service has no {line}");
    }
    for key in [
        "MemoryDenyWriteExecute",
        "ProtectControlGroups",
        "PartOf",
        "NoNewPrivileges",
    ] {
        assert!(
            !spawner.iter().any(|line| line.starts_with(key)),
            "fnd-spawner.service has {key}"
        );
    }
}
