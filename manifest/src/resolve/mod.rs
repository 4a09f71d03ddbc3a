//! Resolves checked tables to a [`Manifest`]: applies defaults, size and own keys, and finds impossible combinations.
//!
//! Files:
//! - `environment`: variables that fnd sets itself
//! - `events`: checks subscriptions to events
//! - `files`: directories that cannot be watched, and files that would start their function again
//! - `follow_ups`: what `[hooks]` and `[alert]` exclude
//! - `input`: which functions have no `[input]` and no `mcp`
//! - `nats`: what entries of `[[nats]]` exclude
//! - `pool`: `[pool]`, within what the memory holds
//! - `queue`: what `[queue]` excludes
//! - `release`: where calls cannot be shared between releases
//! - `root_defaults`: which keys of `[defaults]` functions get that do not belong to root
//! - `routes`: what routes of a function exclude
//! - `sandboxes`: settles `[sandbox]`: users, keys that exclude each other, layers that are asked for
//! - `schedules`: what schedules of a function exclude
//! - `secrets`: settles secrets and service bindings
//! - `server`: `[http_server]` and `[service]`
//! - `subject`: facts about a function that are not keys, and its problems
//! - `widening`: keys of `[sandbox]` that only files of root may have

mod environment;
mod events;
mod files;
mod follow_ups;
mod input;
mod nats;
mod pool;
mod queue;
mod release;
mod root_defaults;
mod routes;
mod sandboxes;
mod schedules;
mod secrets;
mod server;
mod subject;
mod widening;

pub(crate) use environment::GIVEN;
pub use subject::{FunctionProblems, ResolvedSubject};

use crate::diagnostic::Diagnostic;
use crate::function::keys::Build;
use crate::function::{BuildNetwork, LimitKeys, Manifest, Mode, PollKeys, RetryKeys};
use crate::runtime::Runtime;
use crate::schema::pick::Pick;
use crate::schema::tree::{self, TomlNode, TomlPosition, TomlTable, TomlValue};
use crate::settings::resolve::{Configuration, unknown_size};
use crate::warning::Warning;
use environment::ReservedVariables;
use fnd_wire::units;

/// The runtime whose installations can use packages of the machine.
const PYTHON: &str = "python";

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
    let pick = Manifest::pick(&merged);
    // The tables lack values with mistakes, so each key can be read: with its default, where its value is refused.
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
            let triggers = triggers + manifest.nats.len();
            // With a schema of its payloads it is called, and without a payload it could not run.
            let is_called = manifest.mcp || pick.written("input").is_some();
            subject.mode == Mode::Script && triggers == 0 && !is_called
        }
    };
    // Where the machine cannot enforce a limit, only a function whose own manifest names the limit is refused: its
    // author relies on it.
    if let Some(asked) = tree::table(own, "limits") {
        manifest.limits.asked = asked.keys().cloned().collect();
    }
    check_limits(&manifest.limits, pick, subject.runtime, report);
    settle_retry(&mut manifest.retry, pick, report);
    // A script asks for a poll by exit code 99, which any program may use for something else, so its manifest must have
    // `[poll]`. A handler asks by an exception of its own, which means nothing else.
    manifest.poll = match subject.mode {
        Mode::Handler => Some(pick.get("poll")),
        Mode::Script => manifest.poll,
        Mode::Http | Mode::Service => {
            server::refuse_poll(own, report);
            None
        }
    };
    if let Some(poll) = &manifest.poll {
        check_poll(poll, pick, report);
    }
    let alone = manifest.on_load || !manifest.schedule.is_empty();
    let about = (&subject, alone, manifest.limits.memory);
    manifest.pool = pool::pool(&manifest.pool, pick, own, about, report);
    queue::check(&manifest.queue, (pick, own), configuration, report);
    let mut env = subject.env_file.clone();
    // `append` replaces equal names, so `[env]` wins over the file.
    env.append(&mut manifest.env);
    let reserved = ReservedVariables::of(pick, &subject);
    environment::check(pick, reserved, &env, report);
    manifest.env = env;
    // After the environment, because names of secrets are compared with those of variables.
    secrets::settle(&mut manifest, (pick, reserved), subject.trusted, report);
    manifest.service = server::service(pick, own, &subject, report);
    if let (Mode::Service, Some(node)) = (subject.mode, own.get("on_load")) {
        let message = "`on_load` has no effect on a service, which always runs";
        report.impossible(Some(&node.at), message, "remove it");
    }
    input::check(&mut manifest, own, subject.mode, report);
    routes::settle(&mut manifest.http, own, &subject);
    routes::check(&manifest.http, own, &subject, report);
    release::check(&manifest.release, own, &subject, report);
    events::check(&manifest.event, own, subject.mode, report);
    let servers = configuration.settings.events.nats.as_ref();
    nats::check(&manifest, own, (subject.mode, servers), report);
    follow_ups::check(&mut manifest, pick, configuration, subject.mode, report);
    schedules::check(&manifest.schedule, own, &subject, report);
    files::check(&manifest.file, own, (subject.mode, subject.path), report);
    manifest.http_server = server::http_server(pick, own, (&subject, &manifest.pool), report);
    sandboxes::settle(&mut manifest, (pick, own), configuration, subject.trusted, report);
    if subject.runtime.is_helped() {
        sandboxes::check_helped(&manifest, pick, report);
    }
    environment::check_build(pick, &manifest.build.env, report);
    settle_build(&mut manifest.build, own, (configuration, subject.runtime), report);
    manifest.permissions = permissions(&manifest.permissions, own, subject.runtime, report);
    manifest.entry = subject.entry;
    manifest
}

/// Reports the mistakes that a manifest has whatever its code and its runtime are: for a function of which they are not known, so
/// that a person sees these mistakes together with that.
pub fn without_runtime(own: &TomlTable, configuration: &Configuration, report: &mut FunctionProblems<'_>) {
    let merged = merged((&configuration.defaults, own), configuration, report);
    let pick = Manifest::pick(&merged);
    let mut manifest = Manifest::read(pick);
    settle_retry(&mut manifest.retry, pick, report);
    if let Some(poll) = &manifest.poll {
        check_poll(poll, pick, report);
    }
    queue::check(&manifest.queue, (pick, own), configuration, report);
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
        if let Some(own) = tree::table(layer, "limits") {
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
    let value = TomlValue::Table(limits);
    result.insert("limits".to_owned(), TomlNode { at, value });
    result
}

fn check_limits(limits: &LimitKeys, pick: Pick<'_>, runtime: &Runtime, report: &mut FunctionProblems<'_>) {
    let at = |name: &str| pick.at(&format!("limits.{name}"));
    let id = &runtime.summary.id;
    let memory = units::print_size(limits.memory);
    if limits.memory < runtime.memory_floor {
        let message = format!("`limits.memory` is {memory}, less than runtime `{id}` needs");
        let help = format!("give it at least `\"{}\"`", units::print_size(runtime.memory_floor));
        report.impossible(at("memory"), message, help);
    }
    if limits.pids < runtime.pids_floor {
        let message = format!("`limits.pids` is {}, less than runtime `{id}` needs", limits.pids);
        let help = format!("give it at least {}", runtime.pids_floor);
        report.impossible(at("pids"), message, help);
    }
    if let Some(high) = limits.memory_high.filter(|high| *high > limits.memory) {
        let high = units::print_size(high);
        let message =
            format!("`limits.memory_high` is {high}, more than `limits.memory` ({memory}): it would never be reached");
        report.impossible(at("memory_high"), message, "set it below `memory`");
    }
    if let (Some(timeout), Some(deadline)) = (limits.timeout, limits.deadline)
        && deadline < timeout
        // The default timeout may be longer than a deadline: a manifest that names only the deadline has no mistake.
        && at("timeout").is_some()
    {
        let message = format!(
            "`limits.deadline` of {} is shorter than `limits.timeout` of {}",
            units::print_duration(deadline),
            units::print_duration(timeout)
        );
        report.add(at("deadline"), Diagnostic::warning(Warning::Pointless, message));
    }
}

fn settle_retry(retry: &mut RetryKeys, pick: Pick<'_>, report: &mut FunctionProblems<'_>) {
    let RetryKeys {
        interval, max_interval, ..
    } = *retry;
    if let Some(node) = pick.written("retry.max_interval") {
        if max_interval < interval {
            let (max, interval) = (units::print_duration(max_interval), units::print_duration(interval));
            let message = format!("`retry.max_interval` is {max}, less than `retry.interval` ({interval})");
            report.impossible(Some(&node.at), message, format!("set it to `\"{interval}\"` or more"));
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
        let at = pick.at("poll.until").or_else(|| pick.at("poll.repeat"));
        report.impossible(at, message, format!("set it to `\"{repeat}\"` or more"));
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
            let id = &runtime.summary.id;
            let message = format!("`build.system_packages` has no effect with runtime `{id}`");
            let help = "remove it: only functions in Python can have it";
            report.impossible(Some(&node.at), message, help);
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
            report.impossible(Some(&node.at), message, "remove it");
        }
        return Vec::new();
    }
    let mut result = Vec::new();
    for permission in written {
        // Besides some variables, Keptn gives its functions in deno these permissions.
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
