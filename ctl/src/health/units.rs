//! Checks the systemd units of the package. Nothing is checked where systemd is not PID 1.

use super::finding::Finding;
use super::program;
use std::path::Path;

const CHECK: &str = "units";
const DAEMON: &str = "fnd.service";
/// The unit in which functions run.
pub(crate) const SPAWNER: &str = "fnd-spawner.service";
const SOCKET: &str = "fnd.socket";

/// sd_booted(3): this directory exists where systemd is PID 1.
const BOOTED: &str = "/run/systemd/system";

/// A unit's properties, in systemd's words (systemd.unit(5), the properties of `systemctl show`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnitStatus {
    /// `Id`.
    pub(crate) name: String,
    /// `LoadState`.
    load: String,
    /// `ActiveState`.
    active: String,
    /// `UnitFileState`.
    file: String,
    /// `NeedDaemonReload`.
    stale: bool,
    /// `ControlGroup`, empty where no process of it runs.
    pub(crate) cgroup: String,
}

/// Returns the units; an empty list where systemd does not answer; nothing where systemd is not PID 1.
pub(crate) async fn inspect() -> Option<Vec<UnitStatus>> {
    if !Path::new(BOOTED).is_dir() {
        return None;
    }
    let properties = "--property=Id,LoadState,ActiveState,UnitFileState,NeedDaemonReload,ControlGroup";
    let arguments = ["show", "--no-pager", properties, DAEMON, SPAWNER, SOCKET];
    // Without an answer the list is empty, which `judge` reports.
    let text = program::output("systemctl", &arguments).await.unwrap_or_default();
    Some(units(&text))
}

/// Parses the answer: lines `KEY=VALUE`, an empty line between two units.
fn units(text: &str) -> Vec<UnitStatus> {
    let one = |block: &str| {
        let value = |key: &str| {
            let mut pairs = block.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|(name, _)| *name == key);
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        UnitStatus {
            name: value("Id"),
            load: value("LoadState"),
            active: value("ActiveState"),
            file: value("UnitFileState"),
            stale: value("NeedDaemonReload") == "yes",
            cgroup: value("ControlGroup"),
        }
    };
    let blocks = text.split("\n\n").filter(|block| block.contains('='));
    blocks.map(one).collect()
}

pub(crate) fn judge(units: &[UnitStatus]) -> Vec<Finding> {
    if units.is_empty() {
        let found = Finding::unknown(CHECK, "systemd does not report the state of the units");
        return vec![found.fix("systemctl status fnd")];
    }
    let served = units.iter().any(|unit| unit.name == DAEMON && unit.active == "active");
    let mut findings = Vec::new();
    for unit in units {
        findings.extend(problem_of(unit, served).map(|found| found.at(&unit.name)));
        if unit.stale {
            let what = "its file has changed since systemd read it";
            let found = Finding::warning(CHECK, what).at(&unit.name);
            findings.push(found.fix("sudo systemctl daemon-reload"));
        }
        // The spawner need not be enabled: `fnd.service` requires it.
        if unit.name != SPAWNER && unit.file == "disabled" {
            let found = Finding::warning(CHECK, "it does not start at boot").at(&unit.name);
            findings.push(found.fix(format!("sudo systemctl enable {}", unit.name)));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, "all three are loaded and active"));
    }
    findings
}

/// Returns the problem of a unit's state. The spawner runs only where fnd does, so it is missed only there.
fn problem_of(unit: &UnitStatus, served: bool) -> Option<Finding> {
    Some(match (unit.load.as_str(), unit.active.as_str()) {
        ("loaded", "active" | "reloading") => return None,
        ("loaded", "inactive") if unit.name == SPAWNER && !served => return None,
        ("loaded", "failed") => Finding::error(CHECK, "it failed").fix(format!(
            "journalctl -u {} -n 50 says why; then: sudo systemctl restart fnd",
            unit.name
        )),
        ("loaded", "inactive") if unit.name == SOCKET => {
            Finding::error(CHECK, "it does not listen").fix("sudo systemctl start fnd.socket")
        }
        ("loaded", "inactive") => Finding::error(CHECK, "it is not running").fix("sudo systemctl start fnd"),
        // The states on the way, such as `activating`, pass by themselves.
        ("loaded", other) => Finding::warning(CHECK, format!("it is {other}")).fix("run doctor again in a moment"),
        ("masked", _) => Finding::error(CHECK, "it is masked").fix(format!("sudo systemctl unmask {}", unit.name)),
        ("not-found", _) => {
            Finding::error(CHECK, "there is no such unit").fix("sudo apt install --reinstall ./fnd_VERSION_ARCH.deb")
        }
        (load, _) => Finding::error(CHECK, format!("systemd cannot load it: {load}"))
            .fix(format!("systemctl status {}", unit.name)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    const SHOWN: &str = "Id=fnd.service\nControlGroup=/system.slice/fnd.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=no\n\nId=fnd-spawner.service\nControlGroup=/system.slice/fnd-spawner.service\nLoadState=loaded\nActiveState=active\nUnitFileState=static\nNeedDaemonReload=no\n\nId=fnd.socket\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=no\n";

    fn check(changes: &[(&str, &str)], expected: &[&str]) {
        let mut text = SHOWN.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        assert_eq!(brief(&judge(&units(&text))), expected, "{changes:?}");
    }

    #[test]
    fn states_and_what_follows() {
        check(&[], &["ok all three are loaded and active"]);
        check(
            &[(
                "Id=fnd.service\nControlGroup=/system.slice/fnd.service\nLoadState=loaded\nActiveState=active",
                "Id=fnd.service\nLoadState=loaded\nActiveState=failed",
            )],
            &["error it failed"],
        );
        check(
            &[("ActiveState=active", "ActiveState=inactive")],
            &["error it is not running", "error it does not listen"],
        );
        check(
            &[("LoadState=loaded", "LoadState=not-found")],
            &["error there is no such unit"; 3],
        );
        check(
            &[("UnitFileState=enabled", "UnitFileState=disabled")],
            &["warning it does not start at boot"; 2],
        );
        check(
            &[(
                "UnitFileState=static\nNeedDaemonReload=no",
                "UnitFileState=static\nNeedDaemonReload=yes",
            )],
            &["warning its file has changed since systemd read it"],
        );
        let spawner =
            "Id=fnd-spawner.service\nControlGroup=/system.slice/fnd-spawner.service\nLoadState=loaded\nActiveState=";
        check(
            &[(&format!("{spawner}active"), &format!("{spawner}inactive"))],
            &["error it is not running"],
        );
        assert_eq!(
            brief(&judge(&[])),
            ["unknown systemd does not report the state of the units"]
        );
    }

    #[test]
    fn the_cgroup_is_known() {
        let units = units(SHOWN);
        let cgroups: Vec<&str> = units.iter().map(|unit| unit.cgroup.as_str()).collect();
        assert_eq!(
            cgroups,
            ["/system.slice/fnd.service", "/system.slice/fnd-spawner.service", ""]
        );
    }
}
