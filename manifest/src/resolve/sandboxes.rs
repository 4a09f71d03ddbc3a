//! Settles `[sandbox]`: the configured profile, users, keys that exclude each other, and the layers that are asked for.

use super::subject::FunctionProblems;
use super::widening;
use crate::diagnostic::Diagnostic;
use crate::function::network::Network;
use crate::function::sandbox::{Profile, is_within, refused_capability};
use crate::function::{Listen, Manifest, SandboxKeys};
use crate::schema::pick::Pick;
use crate::schema::tree::{TomlNode, TomlPosition, TomlTable, TomlValue, find};
use crate::settings::resolve::Configuration;
use crate::settings::{Missing, UserSettings};
use crate::warning::Warning;
use fnd_wire::plan::is_as_root;
use fnd_wire::sandbox::PATHS_MAX;

/// Settles the sandbox of a manifest, whose other keys are settled already, and reports its problems. `own` is the
/// manifest as it is written, `pick` has the defaults too.
pub(super) fn settle(
    manifest: &mut Manifest,
    (pick, own): (Pick<'_>, &TomlTable),
    configuration: &Configuration,
    trusted: bool,
    report: &mut FunctionProblems<'_>,
) {
    let sandbox = &mut manifest.sandbox;
    if pick.written("sandbox.profile").is_none() {
        sandbox.profile = configuration.profile();
    }
    let SandboxKeys {
        read_only,
        read_write,
        hide,
        ..
    } = &mut *sandbox;
    for path in [read_only, read_write, hide].into_iter().flatten() {
        // The spawner takes no path with a slash at its end.
        path.truncate(path.trim_end_matches('/').len());
    }
    sandbox.asked = asked(sandbox, own, configuration.settings.sandbox.missing);
    check_users(sandbox, pick, &configuration.settings.users, report);
    check_capabilities(sandbox, pick, &configuration.settings.users, report);
    check_counts(manifest, pick, trusted, report);
    check_paths(manifest, pick, report);
    check_network(manifest, pick, report);
    check_effect(manifest, own, report);
    if !trusted {
        widening::check(manifest, (pick, own), configuration, report);
    }
}

/// Returns the names of the layers that must be in force.
fn asked(sandbox: &SandboxKeys, own: &TomlTable, missing: Missing) -> Vec<String> {
    let refuses = missing == Missing::Refuse;
    let is_written = |key: &str| find(own, &format!("sandbox.{key}")).is_some();
    let walls = sandbox.profile != Profile::Off;
    let capable = !sandbox.capabilities.is_empty();
    // The author of a profile relies on all of its layers, and a capability is given for what they show. If only the
    // default names the profile, the machine's administrator decides.
    let profile = walls && (is_written("profile") || refuses || capable);
    let shows = |key: &str, paths: &[String]| is_written(key) && !paths.is_empty();
    let shown = [
        ("hide", &sandbox.hide),
        ("read_only", &sandbox.read_only),
        ("devices", &sandbox.devices),
    ];
    let mounts = walls && shown.iter().any(|(key, paths)| shows(key, paths));
    let calls = profile || is_written("syscalls") || refuses || capable;
    let network = sandbox.network != Network::Host && (is_written("network") || refuses);
    let connect = matches!(sandbox.network, Network::Connect(_));
    let layers = [
        ("mounts", profile || mounts),
        ("pid", profile),
        // `connect:PORT` keeps the machine's network, of which Landlock closes the other ports.
        ("network", network && !connect),
        ("seccomp", calls && sandbox.calls() != Profile::Off),
        ("landlock", network && connect),
    ];
    let names = layers.into_iter().filter(|(_, asked)| *asked);
    names.map(|(layer, _)| layer.to_owned()).collect()
}

/// Returns where a path of a list is written.
fn item<'a>(pick: Pick<'a>, key: &str, number: usize) -> Option<&'a TomlPosition> {
    let node = pick.written(&format!("sandbox.{key}"))?;
    match &node.value {
        TomlValue::List(items) => items.get(number).map(|item| &item.at),
        _ => Some(&node.at),
    }
}

/// The names of Debian for the id that the spawner refuses, also if `[users] allow` has them.
const NOBODY: [&str; 2] = ["nobody", "nogroup"];

fn check_users(sandbox: &SandboxKeys, pick: Pick<'_>, users: &UserSettings, report: &mut FunctionProblems<'_>) {
    let (user, groups) = (pick.at("sandbox.user"), pick.at("sandbox.groups"));
    let user = sandbox.user.iter().map(|name| ("user", name, user));
    for (what, name, at) in user.chain(sandbox.groups.iter().map(|name| ("group", name, groups))) {
        let is_root = name == "root";
        let allowed = is_root && users.allow_root || !is_root && users.allow.contains(name);
        if name.bytes().all(|b| b.is_ascii_digit()) || name.contains('/') {
            let message = format!("expected the name of a {what}, found `{name}`");
            report.add(at, Diagnostic::error("bad-value", message));
        } else if NOBODY.contains(&name.as_str()) {
            let message = format!("the {what} `{name}` is never given to a function");
            let help = "leave it out: a function has a user and a group of its own, which have no more rights";
            report.error(at, "not-allowed", message, help);
        } else if !allowed {
            let help = match is_root {
                true => "set `allow_root = true` in `[users]` of `fnd.toml`".to_owned(),
                false => format!("add `{name}` to `allow` in `[users]` of `fnd.toml`"),
            };
            let message = format!("the {what} `{name}` is not allowed for functions");
            report.error(at, "not-allowed", message, help);
        }
    }
}

fn check_capabilities(sandbox: &SandboxKeys, pick: Pick<'_>, users: &UserSettings, report: &mut FunctionProblems<'_>) {
    for (number, name) in sandbox.capabilities.iter().enumerate() {
        if let Some(problem) = refused_capability(name).or_else(|| withheld_capability(name, users)) {
            report.add(item(pick, "capabilities", number), problem);
        }
    }
    if !sandbox.capabilities.is_empty() && sandbox.syscalls == Some(Profile::Off) {
        let message = "a function with `sandbox.capabilities` always has a filter of system calls";
        let help = "remove `syscalls`, or write `syscalls = \"standard\"`";
        report.impossible(pick.at("sandbox.syscalls"), message, help);
    }
    let evades = |name: &&String| ["net_admin", "net_raw"].contains(&name.as_str());
    if let (Network::Connect(_), Some(name)) = (&sandbox.network, sandbox.capabilities.iter().find(evades)) {
        let message = format!("with the capability `{name}`, `connect:` would close no port");
        report.impossible(pick.at("sandbox.network"), message, "remove one of them");
    }
}

/// Returns why the configuration gives no function this capability; absent if it does.
fn withheld_capability(name: &str, users: &UserSettings) -> Option<Diagnostic> {
    let refused = |message: String, help: String| Some(Diagnostic::error("not-allowed", message).with_help(help));
    if !users.capabilities.iter().any(|allowed| allowed == name) {
        let message = format!("the capability `{name}` is not allowed for functions");
        refused(
            message,
            format!("add `{name}` to `capabilities` in `[users]` of `fnd.toml`"),
        )
    } else if is_as_root(name) && !users.allow_root {
        let message = format!("a function with the capability `{name}` is as good as root");
        refused(message, "set `allow_root = true` in `[users]` of `fnd.toml`".to_owned())
    } else {
        None
    }
}

/// Reports lists that the spawner would refuse because they are too long.
fn check_counts(manifest: &Manifest, pick: Pick<'_>, trusted: bool, report: &mut FunctionProblems<'_>) {
    let sandbox = &manifest.sandbox;
    let shown = sandbox.shown(&manifest.file, trusted);
    let ports = match &sandbox.network {
        Network::Connect(ports) => ports.len(),
        _ => 0,
    };
    let at = |key: &str| pick.at(&format!("sandbox.{key}"));
    for (key, count) in [
        ("read_only", shown.read_only.len()),
        ("read_write", shown.read_write.len()),
        ("hide", sandbox.hide.len()),
        ("devices", sandbox.devices.len()),
        ("network", ports),
    ] {
        if count > PATHS_MAX {
            let from = if at(key).is_none() { " from `[[file]]`" } else { "" };
            let message = format!("`sandbox.{key}` has {count} entries{from}; at most {PATHS_MAX} are possible");
            report.impossible(at(key), message, "name a directory that contains several of them");
        }
    }
    if matches!(&sandbox.network, Network::Connect(ports) if ports.is_empty()) {
        let help = "name one such as `connect:443`, or write `\"none\"`";
        report.impossible(at("network"), "`sandbox.network` names no port", help);
    }
}

/// Reports paths of which two keys say the opposite, and those that nobody can write to.
fn check_paths(manifest: &Manifest, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    let sandbox = &manifest.sandbox;
    for (key, paths) in [("read_only", &sandbox.read_only), ("read_write", &sandbox.read_write)] {
        for (number, path) in paths.iter().enumerate().filter(|(_, path)| sandbox.hide.contains(path)) {
            let message = format!("`{path}` is both in `sandbox.hide` and in `sandbox.{key}`");
            report.impossible(item(pick, key, number), message, "remove one of the two");
        }
    }
    for (number, path) in sandbox.read_write.iter().enumerate() {
        let at = item(pick, "read_write", number);
        if sandbox.read_only.contains(path) {
            let message = format!("`{path}` is both in `sandbox.read_only` and in `sandbox.read_write`");
            report.impossible(at, message, "remove one of the two");
        }
        if is_within(path, &["/proc", "/sys"]) {
            let message = format!("`{path}` belongs to the kernel: no function may write to it");
            report.impossible(at, message, "remove it");
        }
    }
    for file in &manifest.file {
        let directory = file.directory();
        if let Some(number) = sandbox.hide.iter().position(|path| *path == directory) {
            let message = format!("`sandbox.hide` hides `{directory}`, which `[[file]]` watches");
            report.impossible(item(pick, "hide", number), message, "remove one of the two");
        }
        let same = |path: &String| file.acts() && *path == directory;
        if let Some(number) = sandbox.read_only.iter().position(same) {
            let message = format!("`{directory}` is read-only, but `[[file]]` moves or deletes its files");
            let help = "move it from `read_only` to `read_write`";
            report.impossible(item(pick, "read_only", number), message, help);
        }
    }
}

/// Reports programs whose port fnd could not reach.
fn check_network(manifest: &Manifest, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    let apart = matches!(manifest.sandbox.network, Network::None | Network::Loopback);
    let Some(node) = pick.written("sandbox.network").filter(|_| apart) else {
        return;
    };
    let help = match manifest.http_server.as_ref().map(|server| server.listen) {
        // A Unix socket needs no network.
        None | Some(Listen::Unix) => return,
        Some(Listen::Free | Listen::Port(_)) => {
            "let the program listen on `$FND_SOCKET_PATH` and write `listen = \"unix\"` in `[http_server]`, or remove \
             `network`"
        }
        Some(Listen::Told) => {
            "call `Deno.serve` for `$FND_SOCKET_PATH` in the code and write `listen = \"unix\"` in `[http_server]`, or \
             remove `network`"
        }
    };
    let message = format!(
        "with `sandbox.network = \"{}\"` fnd cannot reach the port of the program, which lies in another network",
        node.value.text()
    );
    report.impossible(Some(&node.at), message, help);
}

/// Refuses networks in which a program of AWS Lambda cannot ask for its calls.
pub(super) fn check_helped(manifest: &Manifest, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    let closes = matches!(manifest.sandbox.network, Network::None | Network::Connect(_));
    if let Some(node) = pick.written("sandbox.network").filter(|_| closes) {
        let message = "this `sandbox.network` closes the port of `127.0.0.1` at which the program asks for its calls";
        report.impossible(Some(&node.at), message, "write `network = \"loopback\"`, or remove it");
    }
}

/// Warns of keys that the function's own manifest sets although its profile hides nothing.
fn check_effect(manifest: &Manifest, own: &TomlTable, report: &mut FunctionProblems<'_>) {
    if manifest.sandbox.profile != Profile::Off {
        return;
    }
    let without = [
        "sandbox.devices",
        "sandbox.read_only",
        "sandbox.read_write",
        "sandbox.proc",
        "limits.tmp",
    ];
    let has_value = |node: &&TomlNode| !matches!(&node.value, TomlValue::List(items) if items.is_empty());
    // Nothing is hidden without a sandbox. What the other keys ask for is there anyway, so they are only pointless; a
    // place that `hide` names would be open although the manifest says the opposite.
    if let Some(node) = find(own, "sandbox.hide").filter(has_value) {
        let message = "`sandbox.hide` hides nothing with the profile `off`";
        let help = "write `profile = \"standard\"` or `\"strict\"`, or remove it";
        report.impossible(Some(&node.at), message, help);
    }
    for path in without {
        if let Some(node) = find(own, path).filter(has_value) {
            let message =
                format!("`{path}` has no effect with the profile `off`: the function sees the machine as it is");
            let help = "remove it, or name another `profile`";
            let problem = Diagnostic::warning(Warning::Pointless, message).with_help(help);
            report.add(Some(&node.at), problem);
        }
    }
}
