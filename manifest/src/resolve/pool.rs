//! Resolves `[pool]`: the number of workers, limited by what the function's memory can hold.

use super::subject::{FunctionProblems, ResolvedSubject};
use crate::function::{Isolation, Manifest, Mode, PoolKeys};
use crate::schema::pick::{FromValue, Pick, key_at};
use crate::schema::read::constant;
use crate::schema::tree::{TomlNode, TomlTable, find};
use fnd_wire::units::print_size;

/// Keys that only apply to workers that stay: those of handlers and of programs that serve HTTP.
const OF_WORKERS: [&str; 7] = [
    "pool.min",
    "pool.concurrency",
    "pool.idle",
    "pool.max_invocations",
    "pool.max_age",
    "pool.isolation",
    "pool.spare",
];

/// Returns the pool. Values of `[defaults]` that are impossible here are reduced; impossible values of the manifest are
/// errors.
pub(super) fn pool(
    asked: &PoolKeys,
    pick: Pick<'_>,
    own: &TomlTable,
    (subject, alone_by_default, memory): (&ResolvedSubject<'_>, bool, u64),
    report: &mut FunctionProblems<'_>,
) -> PoolKeys {
    // The description of a runtime may say `memory = "0"`.
    let floor = subject.runtime.memory_floor.max(1);
    // Memory for less than one worker is an error of its own (`check_limits`), so here it counts as room for one.
    let fit = u32::try_from(memory / floor).unwrap_or(u32::MAX).max(1);
    if subject.mode == Mode::Service {
        let replicas: u32 = pick.get("service.replicas");
        if let Some(node) = find(own, "service.replicas").filter(|_| replicas > fit) {
            let id = &subject.runtime.summary.id;
            let message = format!(
                "`service.replicas` is {replicas}, but `limits.memory` of {} has room for {fit} processes of runtime `{id}` with {} each",
                print_size(memory),
                print_size(floor)
            );
            let needed = print_size(floor.saturating_mul(replicas.into()));
            let help = format!("set it to {fit} or less, or `limits.memory` to `\"{needed}\"` or more");
            report.impossible(Some(&node.at), message, help);
        }
        return PoolKeys {
            max: replicas,
            ..unwritten(fit)
        };
    }
    if subject.mode == Mode::Script {
        return of_script(pick, own, (alone_by_default, fit), report);
    }
    let asked = PoolKeys { fit, ..asked.clone() };
    let alone = asked.isolation == Isolation::Invocation;
    let mut refuse = |path: &str, wrong: bool, message: String, help: String| {
        if let Some(node) = find(own, path).filter(|_| wrong) {
            report.impossible(Some(&node.at), message, help);
        }
    };
    let id = &subject.runtime.summary.id;
    let (holds, each) = (print_size(memory), print_size(floor));
    let spare = if alone { asked.spare } else { 0 };
    for (path, count) in [("pool.min", asked.min), ("pool.max", asked.max), ("pool.spare", spare)] {
        let message = format!(
            "`{path}` is {count}, but `limits.memory` of {holds} has room for {fit} workers of runtime `{id}` with {each} each"
        );
        let needed = print_size(floor.saturating_mul(count.into()));
        let help = format!("set `{path}` to {fit} or less, or `limits.memory` to `\"{needed}\"` or more");
        refuse(path, count > fit, message, help);
    }
    let PoolKeys {
        min, max, concurrency, ..
    } = asked;
    let message = format!("`pool.min` is {min}, more than `pool.max`, which is {max}");
    let help = format!("set `pool.max` to {min} or more");
    // A `min` that does not fit into the memory has its message already.
    refuse("pool.min", max < min && min <= fit, message, help);
    let message = format!(
        "`pool.concurrency` is {concurrency}, but with `isolation = \"invocation\"` a worker serves only one invocation"
    );
    let help = "remove one of the two".to_owned();
    refuse("pool.concurrency", alone && concurrency > 1, message, help);
    // Only one worker can have a port.
    let alone_on_port = subject.mode == Mode::Http && find(own, "http_server.port").is_some();
    let max = if alone_on_port && find(own, "pool.max").is_none() {
        1
    } else {
        max.min(fit)
    };
    PoolKeys {
        min: min.min(max),
        max,
        concurrency: if alone { 1 } else { concurrency },
        spare: asked.spare.min(fit),
        ..asked
    }
}

fn of_script(
    pick: Pick<'_>,
    own: &TomlTable,
    (alone_by_default, fit): (bool, u32),
    report: &mut FunctionProblems<'_>,
) -> PoolKeys {
    // A value that equals the default changes nothing. So a copy of the shipped `function.toml`, which has all
    // defaults, is good for a script, too.
    let changes = |path: &str, node: &TomlNode| {
        key_at(Manifest::KEYS, path).is_some_and(|key| !constant(&key.kind, key.default).same(&node.value))
    };
    for path in OF_WORKERS {
        if let Some(node) = find(own, path).filter(|node| changes(path, node)) {
            let message =
                format!("`{path}` is only for handlers and HTTP programs: a script has one process for each attempt");
            report.impossible(Some(&node.at), message, "remove it, or write the code as a handler");
        }
    }
    // Work that runs once per content, or at times, must not run several times at once unless the manifest asks for it.
    let max = if pick.written("pool.max").is_none() && alone_by_default {
        1
    } else {
        pick.get("pool.max")
    };
    PoolKeys { max, ..unwritten(fit) }
}

fn unwritten(fit: u32) -> PoolKeys {
    let pool = PoolKeys::from_value(None).expect("every key has a default");
    PoolKeys { fit, ..pool }
}
