//! The keys that only files of root may widen: the spawner refuses the same keys (`Sandbox::widens` in `wire/src/sandbox.rs`).
//! `root_defaults` has taken such keys of `[defaults]` away before.

use super::subject::FunctionProblems;
use crate::function::file::FileAction;
use crate::function::sandbox::{Profile, is_within};
use crate::function::{Manifest, SandboxKeys};
use crate::schema::pick::Pick;
use crate::schema::tree::{TomlTable, entries, place};
use crate::settings::resolve::Configuration;

/// Reports keys of a function whose files do not belong to root, with which it would see more than the configuration says.
pub(super) fn check(
    manifest: &Manifest,
    (pick, own): (Pick<'_>, &TomlTable),
    configuration: &Configuration,
    report: &mut FunctionProblems<'_>,
) {
    check_access(manifest, pick, report);
    check_keys(&manifest.sandbox, pick, configuration, report);
    check_files(manifest, own, report);
}

/// Returns the keys with which a sandbox gives more than the configuration does.
fn wider(sandbox: &SandboxKeys, configuration: &Configuration) -> Vec<&'static str> {
    let default = configuration.sandbox();
    let keys = [
        ("user", sandbox.user.is_some()),
        ("groups", !sandbox.groups.is_empty()),
        ("profile", sandbox.profile > default.profile),
        ("syscalls", sandbox.syscalls > Some(default.profile)),
        ("proc", sandbox.proc.is_some() && default.profile != Profile::Off),
        ("read_only", !sandbox.read_only.is_empty()),
        ("read_write", !sandbox.read_write.is_empty()),
        ("devices", !sandbox.devices.is_empty()),
        ("capabilities", !sandbox.capabilities.is_empty()),
        // These two only matter where `[defaults]` has them.
        ("network", !default.network.contains(&sandbox.network)),
        ("hide", default.hide.iter().any(|path| !is_within(path, &sandbox.hide))),
    ];
    let found = keys.into_iter().filter(|(_, wider)| *wider);
    found.map(|(key, _)| key).collect()
}

/// Reports what it wants to do at fnd.
fn check_access(manifest: &Manifest, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    let access = &manifest.access;
    let keys = [
        ("invoke", &access.invoke),
        ("emit", &access.emit),
        ("state", &access.state),
    ];
    for (key, _) in keys.into_iter().filter(|(_, allowed)| !allowed.is_empty()) {
        let path = format!("access.{key}");
        let message = format!("`{path}` is only for functions whose code and manifest belong to root");
        report.error(pick.at(&path), "not-trusted", message, HELP);
    }
}

const HELP: &str = "let root own the files (`chown root:root`; for an upload, ask root), or remove the setting";

fn check_keys(sandbox: &SandboxKeys, pick: Pick<'_>, configuration: &Configuration, report: &mut FunctionProblems<'_>) {
    for key in wider(sandbox, configuration) {
        let path = format!("sandbox.{key}");
        let node = pick.written(&path);
        let message = match (key, node) {
            ("profile" | "syscalls", Some(node)) => format!(
                "`{path} = \"{}\"` is weaker than the configured profile `{}`: it is only for functions whose code and \
                 manifest belong to root",
                node.value.text(),
                configuration.profile().as_str()
            ),
            ("network" | "hide", _) => format!(
                "`{path}` gives more than `[defaults]` of `fnd.toml`: it is only for functions whose code and manifest \
                 belong to root"
            ),
            _ => format!("`{path}` is only for functions whose code and manifest belong to root"),
        };
        report.error(pick.at(&path), "not-trusted", message, HELP);
    }
}

/// Reports watched directories that the profile hides: to watch them would show what lies in them.
fn check_files(manifest: &Manifest, own: &TomlTable, report: &mut FunctionProblems<'_>) {
    let sandbox = &manifest.sandbox;
    let hides = sandbox.profile.hides();
    for (number, file) in manifest.file.iter().enumerate() {
        let node = entries(own, "file").get(number);
        let directory = file.directory();
        // A recursive watch would name the files of directories below that are hidden.
        let below = |place: &&&str| file.recursive && is_within(place, &[&directory]);
        let hidden = if is_within(&directory, hides) || is_within(&directory, &sandbox.hide) {
            Some(format!("`{directory}`"))
        } else {
            let hidden = hides.iter().find(below);
            hidden.map(|place| format!("`{place}` in `{directory}`"))
        };
        if let Some(hidden) = hidden {
            let message = format!(
                "the sandbox hides {hidden}: only functions whose code and manifest belong to root may watch it"
            );
            let help =
                "let root own the files (`chown root:root`; for an upload, ask root), or watch another directory";
            report.error(place(node, "path"), "not-trusted", message, help);
        // With the profile `off` no place is read-only: the modes of the files alone decide.
        } else if file.acts() && sandbox.profile != Profile::Off {
            let is_failed = file.then == FileAction::Keep;
            let key = if is_failed { "failed" } else { "then" };
            let message = format!(
                "`{key}` needs a directory that the function may write to: only functions whose code and manifest \
                 belong to root get one"
            );
            report.error(place(node, key), "not-trusted", message, HELP);
        }
    }
}
