//! Checks how functions are contained and limited: the cgroup hierarchies of the machine, and the controllers that the
//! spawner's unit got.

use super::finding::Finding;
use super::units::UnitStatus;
use fnd_core::api::{LAYERS, NodeStatus};
use procfs::process::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const CHECK: &str = "cgroups";

/// The controllers that set limits.
const NEEDED: [&str; 4] = ["memory", "pids", "cpu", "io"];

/// The mounted hierarchies, and the controllers that may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CgroupFacts {
    /// The mount table cannot be read.
    unreadable: bool,
    /// Controllers of the cgroup2 tree; absent where none is mounted.
    v2: Option<BTreeSet<String>>,
    /// Controllers of version 1.
    v1: BTreeSet<String>,
    /// Controllers of the cgroup2 tree that the spawner's unit has; absent where it does not run.
    delegated: Option<BTreeSet<String>>,
}

/// Returns the mounted hierarchies, and the controllers that the spawner's unit got.
pub(crate) fn inspect(unit: Option<&UnitStatus>) -> CgroupFacts {
    let Ok(mounts) = Process::myself().and_then(|process| process.mountinfo()) else {
        return CgroupFacts {
            unreadable: true,
            ..CgroupFacts::default()
        };
    };
    let mut facts = CgroupFacts::default();
    let mut tree: Option<PathBuf> = None;
    for mount in mounts {
        match mount.fs_type.as_str() {
            // The one tree may be mounted in several places.
            "cgroup2" => tree = tree.or(Some(mount.mount_point)),
            "cgroup" => {
                // The mount options of a version 1 hierarchy name its controllers.
                let used = NEEDED.iter().filter(|name| mount.super_options.contains_key(**name));
                facts.v1.extend(used.map(|name| (*name).to_owned()));
            }
            _ => {}
        }
    }
    facts.v2 = tree.as_deref().map(|tree| controllers(tree).unwrap_or_default());
    // Without the slash at the beginning: `join` would drop the path of the mount before an absolute path.
    let group = unit
        .map(|unit| unit.cgroup.trim_start_matches('/'))
        .filter(|path| !path.is_empty());
    facts.delegated = tree.zip(group).and_then(|(tree, group)| controllers(&tree.join(group)));
    facts
}

fn controllers(directory: &Path) -> Option<BTreeSet<String>> {
    let text = fs::read_to_string(directory.join("cgroup.controllers")).ok()?;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// Judges the facts. The daemon's answer takes precedence, since the daemon has tried to set limits.
pub(crate) fn judge(facts: &CgroupFacts, node: Option<&NodeStatus>, installed: bool) -> Vec<Finding> {
    let mut findings = match node {
        Some(node) => reported(node, installed),
        None => mounted(facts),
    };
    if let (Some(v2), Some(delegated)) = (&facts.v2, &facts.delegated) {
        let kept = NEEDED
            .iter()
            .filter(|name| v2.contains(**name) && !delegated.contains(**name));
        findings.extend(kept.map(|name| {
            let what = format!("the unit of the spawner does not have the controller `{name}`");
            let fix = "check `Delegate=` in the output of: systemctl cat fnd-spawner.service; then restart fnd";
            Finding::warning(CHECK, what).fix(fix)
        }));
    }
    findings
}

/// Judges the daemon's answer.
fn reported(node: &NodeStatus, installed: bool) -> Vec<Finding> {
    let mut findings = vec![match (node.containment.as_str(), installed) {
        ("cgroup", _) => Finding::ok(CHECK, format!("functions are contained by cgroups ({})", node.cgroups)),
        // The unit of an installed fnd has cgroups, so their absence is a fault. A person's own fnd often has none.
        (other, true) => {
            let what = format!("functions are contained by a {other}, not by cgroups");
            Finding::error(CHECK, what).fix("journalctl -u fnd-spawner says why")
        }
        (other, false) => {
            let what = format!("functions are contained by a {other}, not by cgroups, and nothing is limited");
            Finding::warning(CHECK, what).fix("run fnd as root, or in a unit with `Delegate=yes`")
        }
    }];
    // Several limits may not be enforced for the same reason: one finding for each reason.
    let mut lacking: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (limit, why) in node
        .not_enforced
        .iter()
        // Layers of the sandbox have a check of their own.
        .filter(|(name, _)| !LAYERS.contains(&name.as_str()))
    {
        lacking.entry(why).or_default().push(format!("`{limit}`"));
    }
    let fix = if node.cgroups == "hybrid" {
        "cgroup version 2 may have it: boot with systemd.unified_cgroup_hierarchy=1"
    } else {
        "remove these keys of `[limits]` from manifests; systemctl cat fnd-spawner shows which controllers the unit has"
    };
    findings.extend(lacking.into_iter().map(|(why, limits)| {
        let what = format!("not enforced here: {}: {why}", limits.join(", "));
        Finding::warning(CHECK, what).fix(fix)
    }));
    findings
}

/// Judges the mounted hierarchies.
fn mounted(facts: &CgroupFacts) -> Vec<Finding> {
    if facts.unreadable {
        return vec![Finding::unknown(CHECK, "/proc/self/mountinfo cannot be read").fix("mount /proc")];
    }
    let Some(v2) = &facts.v2 else {
        let what = if facts.v1.is_empty() {
            "no cgroups are mounted: nothing can be contained or limited"
        } else {
            "only cgroup version 1 is mounted: nothing can be contained"
        };
        let fix = "boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup/unified";
        return vec![Finding::error(CHECK, what).fix(fix)];
    };
    let mut findings = vec![Finding::ok(
        CHECK,
        if facts.v1.is_empty() {
            "version 2"
        } else {
            "version 2 contains functions, version 1 limits them"
        },
    )];
    let missing = NEEDED
        .iter()
        .filter(|name| !v2.contains(**name) && !facts.v1.contains(**name));
    findings.extend(missing.map(|name| {
        let fix = if facts.v1.is_empty() {
            format!("boot with cgroup_enable={name}, if the kernel has it")
        } else {
            "boot with systemd.unified_cgroup_hierarchy=1: cgroup version 2 has all controllers".to_owned()
        };
        Finding::warning(
            CHECK,
            format!("there is no controller `{name}`: its limits cannot be enforced"),
        )
        .fix(fix)
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::{brief, node};
    use super::*;

    fn set(words: &str) -> BTreeSet<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn facts(v2: Option<&str>, v1: &str, delegated: Option<&str>) -> CgroupFacts {
        CgroupFacts {
            unreadable: false,
            v2: v2.map(set),
            v1: set(v1),
            delegated: delegated.map(set),
        }
    }

    #[test]
    fn layouts_and_controllers() {
        for (facts, expected) in [
            (facts(Some("cpu io memory pids"), "", None), vec!["ok version 2"]),
            (
                facts(Some("cpu io memory pids"), "", Some("cpu memory pids")),
                vec![
                    "ok version 2",
                    "warning the unit of the spawner does not have the controller `io`",
                ],
            ),
            (
                facts(Some(""), "cpu memory pids io", None),
                vec!["ok version 2 contains functions, version 1 limits them"],
            ),
            (
                facts(Some(""), "cpu memory pids", None),
                vec![
                    "ok version 2 contains functions, version 1 limits them",
                    "warning there is no controller `io`: its limits cannot be enforced",
                ],
            ),
            (
                facts(Some("cpu io pids"), "", None),
                vec![
                    "ok version 2",
                    "warning there is no controller `memory`: its limits cannot be enforced",
                ],
            ),
            (
                facts(None, "memory", None),
                vec!["error only cgroup version 1 is mounted: nothing can be contained"],
            ),
            (
                facts(None, "", None),
                vec!["error no cgroups are mounted: nothing can be contained or limited"],
            ),
            (
                CgroupFacts {
                    unreadable: true,
                    ..CgroupFacts::default()
                },
                vec!["unknown /proc/self/mountinfo cannot be read"],
            ),
        ] {
            assert_eq!(brief(&judge(&facts, None, true)), expected, "{facts:?}");
        }
    }

    #[test]
    fn the_daemons_answer_takes_precedence() {
        let says = |containment: &str, not_enforced: serde_json::Value| {
            node(&serde_json::json!({"containment": containment, "not_enforced": not_enforced}))
        };
        let none = serde_json::json!({});
        for (node, installed, expected) in [
            (
                says("cgroup", none.clone()),
                true,
                vec!["ok functions are contained by cgroups (v2)"],
            ),
            (
                says("cgroup", serde_json::json!({"io_read": "why", "io_write": "why"})),
                true,
                vec![
                    "ok functions are contained by cgroups (v2)",
                    "warning not enforced here: `io_read`, `io_write`: why",
                ],
            ),
            (
                says("pid namespace", none.clone()),
                true,
                vec!["error functions are contained by a pid namespace, not by cgroups"],
            ),
            (
                says("pid namespace", none),
                false,
                vec!["warning functions are contained by a pid namespace, not by cgroups, and nothing is limited"],
            ),
        ] {
            let facts = facts(None, "", None);
            assert_eq!(brief(&judge(&facts, Some(&node), installed)), expected);
        }
    }
}
