//! Resolves checked tables to a [`Manifest`]: applies defaults, size and own keys, and finds impossible combinations.

use super::credentials;
use super::events;
use super::files;
use super::follow_ups;
use super::keys::Build;
use super::pool::pool;
use super::release;
use super::root_defaults;
use super::routes;
use super::sandboxes;
use super::schedules;
use super::server::{http_server, service};
use super::{BuildNetwork, LimitKeys, Manifest, Mode, PollKeys, RetryKeys};
use crate::diagnostic::Diagnostic;
use crate::runtime::Runtime;
use crate::schema::pick::Pick;
use crate::schema::source::Source;
use crate::schema::tree::{self, TomlNode, TomlPosition, TomlTable, TomlValue};
use crate::settings::resolve::{Configuration, unknown_size};
use crate::warning::Warning;
use fnd_wire::units;
use std::collections::BTreeMap;

/// The runtime whose installations can use packages of the machine.
const PYTHON: &str = "python";

/// Problems of a function, with the sources to which they refer.
#[derive(Debug)]
pub struct FunctionProblems<'a> {
    /// The sources, indexed by [`TomlPosition::source`].
    pub sources: &'a [&'a Source],
    /// The problems, in the order in which they were found.
    pub problems: Vec<Diagnostic>,
}

impl FunctionProblems<'_> {
    /// Adds a problem at a value; without a value the problem concerns the whole function.
    pub fn add(&mut self, at: Option<&TomlPosition>, problem: Diagnostic) {
        let source = at.and_then(|at| Some((self.sources.get(at.source)?, at)));
        self.problems.push(match source {
            Some((source, at)) => problem.at(source, at.value.clone()),
            None => problem,
        });
    }

    /// Says whether one of the problems is an error.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.problems.iter().any(Diagnostic::is_error)
    }

    /// Says whether one of the problems means that the author probably expects something else of the file than a script.
    #[must_use]
    pub fn doubtful(&self) -> bool {
        self.problems.iter().any(Diagnostic::is_doubt)
    }
}

/// Returns the entries of a list of tables, as they are written.
pub(super) fn written<'a>(own: &'a TomlTable, list: &str) -> &'a [TomlNode] {
    match own.get(list).map(|node| &node.value) {
        Some(TomlValue::List(items)) => items,
        _ => &[],
    }
}

/// Returns where a key of an entry is written; the entry itself where the key is not.
pub(super) fn place<'a>(entry: Option<&'a TomlNode>, key: &str) -> Option<&'a TomlPosition> {
    let found = match &entry?.value {
        TomlValue::Table(table) => table.get(key),
        _ => None,
    };
    Some(&found.or(entry)?.at)
}

/// Facts about a function that are not keys of its manifest.
#[derive(Debug)]
pub struct ResolvedSubject<'a> {
    /// How the function is run.
    pub mode: Mode,
    /// Whether its runtime serves HTTP for it (`export default { fetch }`).
    pub serves: bool,
    /// The runtime that runs the function.
    pub runtime: &'a Runtime,
    /// The path of the file that runs.
    pub path: &'a str,
    /// The file that runs, relative to the code directory.
    pub entry: String,
    /// Variables of its `env_file`.
    pub env_file: BTreeMap<String, String>,
    /// Whether root owns its code and manifest.
    pub trusted: bool,
}

/// Returns the manifest. If the report says that the function is refused, the manifest must not be used.
pub fn manifest(
    own: &TomlTable,
    configuration: &Configuration,
    subject: ResolvedSubject<'_>,
    report: &mut FunctionProblems<'_>,
) -> Manifest {
    // The spawner refuses some keys in functions of others, so `[defaults]` must not give them these.
    let (defaults, left_out) = match subject.trusted {
        true => (configuration.defaults.clone(), Vec::new()),
        false => root_defaults::for_others(configuration),
    };
    let merged = merged((&defaults, own), configuration, report);
    let pick = Pick {
        table: &merged,
        keys: Manifest::KEYS,
    };
    let mut manifest = Manifest::read(pick);
    manifest.mode = subject.mode;
    manifest.runtime.clone_from(&subject.runtime.summary.id);
    manifest.written = tree::paths(own);
    manifest.left_out = left_out;
    manifest.on_load = match pick.written("on_load").map(|node| &node.value) {
        // Running it once might do harm. If its own manifest says when it runs, there is no doubt.
        _ if report.doubtful() && !own.contains_key("on_load") => false,
        Some(TomlValue::Bool(on_load)) => *on_load,
        // A script that nothing else would ever run.
        _ => {
            let triggers = manifest.http.len() + manifest.schedule.len() + manifest.event.len() + manifest.file.len();
            subject.mode == Mode::Script && triggers == 0
        }
    };
    if let Some(TomlValue::Table(asked)) = own.get("limits").map(|node| &node.value) {
        manifest.limits.asked = asked.keys().cloned().collect();
    }
    check_limits(&manifest.limits, pick, subject.runtime, report);
    settle_retry(&mut manifest.retry, pick, report);
    manifest.poll = match subject.mode {
        Mode::Handler => Some(pick.get("poll")),
        Mode::Script => manifest.poll,
        Mode::Http | Mode::Service => {
            super::server::refuse_poll(own, report);
            None
        }
    };
    if let Some(poll) = &manifest.poll {
        check_poll(poll, pick, report);
    }
    let alone = manifest.on_load || !manifest.schedule.is_empty();
    let about = (&subject, alone, manifest.limits.memory);
    manifest.pool = pool(&manifest.pool, pick, own, about, report);
    let mut env = subject.env_file.clone();
    // `append` replaces equal names, so `[env]` wins over the file.
    env.append(&mut manifest.env);
    check_environment(pick, subject.mode, &env, report);
    manifest.env = env;
    credentials::settle(&mut manifest, pick, subject.trusted, report);
    manifest.service = service(pick, own, &subject, report);
    if let (Mode::Service, Some(node)) = (subject.mode, own.get("on_load")) {
        let problem = Diagnostic::error("impossible", "`on_load` has no effect on a service, which always runs");
        report.add(Some(&node.at), problem.with_help("remove it"));
    }
    routes::check(&manifest.http, own, &subject, report);
    release::check(&manifest.release, own, &subject, report);
    events::check(&manifest.event, own, subject.mode, report);
    follow_ups::check(&mut manifest, pick, configuration, subject.mode, report);
    schedules::check(&manifest.schedule, own, &subject, report);
    files::check(&manifest.file, own, (subject.mode, subject.path), report);
    manifest.http_server = http_server(pick, own, (&subject, &manifest.pool), report);
    sandboxes::settle(&mut manifest, (pick, own), configuration, subject.trusted, report);
    settle_build(&mut manifest.build, own, (configuration, subject.runtime), report);
    manifest.permissions = permissions(&manifest.permissions, own, subject.runtime, report);
    manifest.entry = subject.entry;
    manifest
}

/// Merges `[defaults]` and its size below the function's own keys and its size. A size fills in `[limits]` of its own
/// layer; explicit values in that layer's `[limits]` have priority.
fn merged(
    (defaults, own): (&TomlTable, &TomlTable),
    configuration: &Configuration,
    report: &mut FunctionProblems<'_>,
) -> TomlTable {
    let mut result = TomlTable::new();
    let mut limits = TomlTable::new();
    for layer in [defaults, own] {
        if let Some(size) = layer.get("size") {
            match configuration.sizes.get(&size.value.text()).map(|preset| &preset.value) {
                Some(TomlValue::Table(preset)) => tree::merge(&mut limits, preset.clone()),
                _ => report.add(Some(&size.at), unknown_size(&size.value.text(), &configuration.sizes)),
            }
        }
        if let Some(TomlValue::Table(own)) = layer.get("limits").map(|node| &node.value) {
            tree::merge(&mut limits, own.clone());
        }
        tree::merge(&mut result, layer.clone());
    }
    let at = TomlPosition {
        // No source has this number: the merged table is in no file.
        source: usize::MAX,
        key: 0..0,
        value: 0..0,
    };
    result.insert(
        "limits".to_owned(),
        TomlNode {
            at,
            value: TomlValue::Table(limits),
        },
    );
    result
}

fn check_limits(limits: &LimitKeys, pick: Pick<'_>, runtime: &Runtime, report: &mut FunctionProblems<'_>) {
    let at = |name: &str| pick.written(&format!("limits.{name}")).map(|node| &node.at);
    let id = &runtime.summary.id;
    if limits.memory < runtime.memory_floor {
        let floor = units::print_size(runtime.memory_floor);
        let message = format!(
            "`limits.memory` is {}, less than runtime `{id}` needs",
            units::print_size(limits.memory)
        );
        let help = format!("give it at least `\"{floor}\"`");
        report.add(at("memory"), Diagnostic::error("impossible", message).with_help(help));
    }
    if limits.pids < runtime.pids_floor {
        let message = format!("`limits.pids` is {}, less than runtime `{id}` needs", limits.pids);
        let help = format!("give it at least {}", runtime.pids_floor);
        report.add(at("pids"), Diagnostic::error("impossible", message).with_help(help));
    }
    if let Some(high) = limits.memory_high.filter(|high| *high > limits.memory) {
        let (high, memory) = (units::print_size(high), units::print_size(limits.memory));
        let message =
            format!("`limits.memory_high` is {high}, more than `limits.memory` ({memory}): it would never be reached");
        report.add(
            at("memory_high"),
            Diagnostic::error("impossible", message).with_help("set it below `memory`"),
        );
    }
    if let (Some(timeout), Some(deadline)) = (limits.timeout, limits.deadline)
        && deadline < timeout
        && at("timeout").is_some()
    {
        let message = format!(
            "`limits.deadline` of {} is shorter than `limits.timeout` of {}",
            units::print_duration(deadline),
            units::print_duration(timeout)
        );
        report.add(at("deadline"), Diagnostic::warning(Warning::Pointless, message));
    }
    debug_assert!(
        limits
            .asked
            .iter()
            .all(|name| LimitKeys::KEYS.iter().any(|key| key.name == name)),
        "only known keys are kept"
    );
}

fn settle_retry(retry: &mut RetryKeys, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    let RetryKeys {
        interval, max_interval, ..
    } = *retry;
    if let Some(node) = pick.written("retry.max_interval") {
        if max_interval < interval {
            let (max, interval) = (units::print_duration(max_interval), units::print_duration(interval));
            let message = format!("`retry.max_interval` is {max}, less than `retry.interval` ({interval})");
            let help = format!("set it to `\"{interval}\"` or more");
            report.add(Some(&node.at), Diagnostic::error("impossible", message).with_help(help));
        }
    } else {
        // A manifest with ten minutes between attempts does not mean the default limit of five.
        retry.max_interval = max_interval.max(interval);
    }
    retry.on.sort_unstable();
    retry.on.dedup();
}

fn check_poll(poll: &PollKeys, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    if poll.until < poll.repeat {
        let (repeat, until) = (units::print_duration(poll.repeat), units::print_duration(poll.until));
        let message = format!("`poll.until` of {until} is shorter than `poll.repeat` of {repeat}");
        let node = pick.written("poll.until").or_else(|| pick.written("poll.repeat"));
        report.add(node.map(|node| &node.at), Diagnostic::error("impossible", message));
    }
}

/// Applies what the configuration says about every installation, and refuses what the runtime cannot do.
fn settle_build(
    build: &mut Build,
    own: &TomlTable,
    (configuration, runtime): (&Configuration, &Runtime),
    report: &mut FunctionProblems<'_>,
) {
    // fnd.toml can only take the network away: a manifest cannot get it back.
    if configuration.settings.build.network == BuildNetwork::None {
        build.network = BuildNetwork::None;
    }
    if build.system_packages && runtime.summary.id != PYTHON {
        build.system_packages = false;
        // In `[defaults]` it is meant for the functions that can have it.
        if let Some(node) = tree::find(own, "build.system_packages") {
            let message = format!(
                "`build.system_packages` has no effect with runtime `{}`",
                runtime.summary.id
            );
            let help = "remove it: only functions in Python can have it";
            report.add(Some(&node.at), Diagnostic::error("impossible", message).with_help(help));
        }
    }
}

/// Returns the permissions with presets expanded. Permissions in `[defaults]` apply only to runtimes that have some.
fn permissions(
    written: &[String],
    own: &TomlTable,
    runtime: &Runtime,
    report: &mut FunctionProblems<'_>,
) -> Vec<String> {
    if runtime.permissions.is_none() {
        if let Some(node) = own.get("permissions") {
            let id = &runtime.summary.id;
            let message = format!("`permissions` has no effect for runtime `{id}`: only deno has permissions");
            report.add(
                Some(&node.at),
                Diagnostic::error("impossible", message).with_help("remove it"),
            );
        }
        return Vec::new();
    }
    let mut result = Vec::new();
    for permission in written {
        let spelled: &[&str] = if permission == "keptn" {
            &["net", "read", "write"]
        } else {
            &[permission.as_str()]
        };
        for one in spelled {
            if !result.iter().any(|known| known == one) {
                result.push((*one).to_owned());
            }
        }
    }
    result
}

/// Variables that fnd sets itself; a manifest's value would have no effect.
pub(super) const RESERVED: [&str; 15] = [
    "DATA",
    "SECURE_DATA",
    "KEPTN_CONTEXT",
    "CONTEXT",
    "SCRIPT",
    "CMD_ARGS",
    "RUNTIME",
    "TRACEPARENT",
    "TRACESTATE",
    "B3",
    "TMPDIR",
    "STATE_DIRECTORY",
    "CACHE_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "SERVICE_BINDING_ROOT",
];

fn check_environment(pick: Pick<'_>, mode: Mode, env: &BTreeMap<String, String>, report: &mut FunctionProblems<'_>) {
    let reserved = |name: &&String| credentials::is_reserved(name, mode);
    for name in env.keys().filter(reserved) {
        let node = pick
            .written(&format!("env.{name}"))
            .or_else(|| pick.written("env_file"));
        let problem = Diagnostic::error("reserved", format!("the variable `{name}` is set by fnd itself"));
        report.add(node.map(|node| &node.at), problem.with_help("use another name"));
    }
}
