//! Checks a machine for what fnd needs, and says what to do about each problem. `doctor` prints it; `status`, `bundle`,
//! `validate`, `edit`, `runtimes`, `verify` and `backup` use parts of it.
//!
//! Each file beside this one is an area. Its `inspect` gathers facts and concludes nothing; its `judge` makes findings
//! from facts and looks at nothing. No daemon is needed; if one answers, its places and its own status are used.
//!
//! Files:
//! - `access`: who may use the control socket
//! - `cgroups`: hierarchies and controllers
//! - `clock`: whether it is synchronised
//! - `daemon`: whether fnd answers, and its status
//! - `disk`: room for the state
//! - `finding`: one finding, and how all are printed
//! - `functions`: functions that are invalid, and files that are none
//! - `installed`: who could change functions, where links lead, which interpreter is there
//! - `journal`: whether it listens
//! - `kernel`: what fnd needs of it
//! - `ledger`: the findings of `fnd --examine`
//! - `nats`: the servers of NATS, and the streams of `[[nats]]`
//! - `permissions`: who could change the files that fnd runs
//! - `program`: runs a program for its output
//! - `runtimes`: interpreters
//! - `sandbox`: the layers of the sandbox
//! - `syntax`: interpreters and compilers check the code
//! - `uids`: the table of users
//! - `units`: the units of the package

mod access;
mod cgroups;
mod clock;
mod daemon;
mod disk;
pub(crate) mod finding;
mod functions;
pub(crate) mod installed;
mod journal;
mod kernel;
pub(crate) mod ledger;
mod nats;
pub(crate) mod permissions;
pub(crate) mod program;
mod runtimes;
mod sandbox;
pub(crate) mod syntax;
pub(crate) mod uids;
mod units;

use crate::context::Context;
use crate::exit::CommandFailure;
use crate::local::{self, LocalPlaces};
use finding::Finding;
use fnd_core::api::NodeStatus;
use fnd_manifest::check::Checked;
use fnd_manifest::check::Disk;
use std::path::{Path, PathBuf};

pub(crate) use daemon::outdated;

/// The places to check, where a caller names them; the others are the daemon's, else those of an installation.
#[derive(Debug, Default)]
pub(crate) struct ChosenPlaces {
    pub(crate) functions: Vec<PathBuf>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) state: Option<PathBuf>,
}

/// Returns the findings about the machine.
///
/// # Errors
/// The user has no home.
pub(crate) async fn findings(context: &Context, chosen: ChosenPlaces) -> Result<Vec<Finding>, CommandFailure> {
    // The daemon is asked first, since the other checks examine the places that it names.
    let answer = daemon::inspect(&context.client).await;
    let node = answer.as_deref().ok();
    let places = places(context.user, chosen, node)?;
    // Units, group and journal belong to the installation; a user's own fnd has none.
    let installed = !context.user && context.client.path() == Path::new(crate::SYSTEM_SOCKET);
    let uid = rustix::process::geteuid();

    let units = if installed { units::inspect().await } else { None };
    let mut findings = daemon::judge(&answer, env!("CARGO_PKG_VERSION"));
    findings.extend(units.iter().flat_map(|units| units::judge(units)));
    if installed {
        findings.extend(access::judge(&access::inspect()));
    }
    findings.extend(kernel::judge(&kernel::inspect()));
    let unit = units.iter().flatten().find(|unit| unit.name == units::SPAWNER);
    findings.extend(cgroups::judge(&cgroups::inspect(unit), node, installed));
    findings.extend(sandbox::judge(node));

    let (judge, configuration) = local::judge(&places.config, &places.runtimes);
    let checked = judge.as_ref().map(|judge| check(judge, &places.functions));
    findings.extend(functions::judge(&functions::FunctionFacts {
        node,
        configuration: &configuration,
        checked: checked.as_ref(),
        root: uid.is_root(),
    }));
    let files = checked.map(|checked| checked.files).unwrap_or_default();
    // Functions are installed by root, except those of a user's own fnd.
    let owner = if installed { 0 } else { uid.as_raw() };
    findings.extend(permissions::judge(&permissions::inspect(&places, &files), owner));
    for runtime in judge.iter().flat_map(|judge| judge.runtimes()) {
        let configuration = judge.as_ref().map(|judge| judge.configuration());
        let settings = configuration.and_then(|found| found.settings.runtimes.get(&runtime.summary.id));
        findings.extend(runtimes::judge(&runtimes::inspect(runtime, settings, owner).await));
    }
    // fnd without `[events.nats]` refuses the question, which costs nothing.
    let servers = match node {
        Some(_) => nats::inspect(&context.client).await,
        None => None,
    };
    findings.extend(nats::judge(servers.as_deref(), node));
    findings.extend(disk::judge(&disk::inspect(&places.state)));
    findings.extend(clock::judge(clock::inspect()));
    if installed {
        findings.extend(journal::judge(&journal::inspect(Path::new(journal::SOCKET))));
    }
    Ok(findings)
}

/// Returns the places to check: those of the options, else those of the daemon, else those of an installation.
fn places(user: bool, chosen: ChosenPlaces, node: Option<&NodeStatus>) -> Result<LocalPlaces, CommandFailure> {
    let reported = node.and_then(|node| node.places.as_ref());
    let paths = |texts: &[String]| texts.iter().map(PathBuf::from).collect();
    let mut places = match reported {
        Some(reported) => LocalPlaces {
            config: PathBuf::from(&reported.config),
            functions: paths(&reported.functions),
            runtimes: paths(&reported.runtimes),
            state: PathBuf::from(&reported.state),
        },
        None => LocalPlaces::of(user)?,
    };
    if !chosen.functions.is_empty() {
        places.functions = chosen.functions;
    }
    if chosen.config.is_some() {
        places.config = local::named_configuration(chosen.config.as_deref(), &places)?;
    }
    places.state = chosen.state.unwrap_or(places.state);
    Ok(places)
}

/// Judges the files in the functions directories; [`permissions`] reports a directory that is missing.
fn check(judge: &fnd_manifest::judge::Judge, directories: &[PathBuf]) -> Checked {
    let mut all = Checked::default();
    for directory in directories.iter().filter(|directory| directory.is_dir()) {
        let checked = fnd_manifest::check::check_functions(judge, &Disk, &directory.display().to_string());
        all.verdicts.extend(checked.verdicts);
        all.diagnostics.extend(checked.diagnostics);
        all.files.extend(checked.files);
        all.unclaimed.extend(checked.unclaimed);
    }
    all
}

/// Helpers of the tests of all areas.
#[cfg(test)]
mod tests {
    use super::finding::Finding;
    use fnd_core::api::NodeStatus;

    /// Returns findings in short form, for tables of tests.
    pub(super) fn brief(findings: &[Finding]) -> Vec<String> {
        let findings = findings.iter();
        findings
            .map(|finding| format!("{} {}", finding.level.as_str(), finding.what))
            .collect()
    }

    /// Returns the answer of a daemon without problems, with the fields of `other` replaced.
    pub(super) fn node(other: &serde_json::Value) -> NodeStatus {
        let mut json = serde_json::json!({
            "version": "1", "spawner_version": "1", "state": "running", "started_at": "", "node": "", "cgroups": "v2",
            "containment": "cgroup", "not_enforced": {}, "memory_bytes": 0, "running": 0, "queued": 0,
            "functions_by_state": {}, "problems": [], "functions": [],
        });
        for (key, value) in other.as_object().expect("an object of fields") {
            json[key] = value.clone();
        }
        serde_json::from_value(json).expect("a status of a node")
    }
}
