//! Reads `runtime.toml`.

use super::{DEFAULT, Phase, Runtime, RuntimeSummary, RuntimeVersion, rank};
use crate::diagnostic::Diagnostic;
use crate::schema::Kind::{List, Map, Size, Table, Text, Whole, Word};
use crate::schema::pick::Pick;
use crate::schema::read::{Schema, read};
use crate::schema::source::Source;
use crate::schema::tree::{Node, Table as Tree, Value, find};
use crate::schema::{ANY_SIZE, Form, Key, Kind, key, optional, required, table};
use std::collections::BTreeMap;

/// A runtime's `runtime.toml`.
pub const SCHEMA: Schema = Schema {
    keys: RUNTIME,
    not_yet: &[],
    what: "a runtime's description",
};

const TEXTS: Kind = List(&Text(Form::Some));

/// The top of `runtime.toml`.
pub const RUNTIME: &[Key] = &[
    required("id", Text(Form::Name), "\"python\"", "Its name, that of its directory."),
    optional(
        "description",
        Text(Form::Any),
        "\"Python 3\"",
        "What it is, for people.",
    ),
    optional("suffixes", TEXTS, "[\".py\"]", "Suffixes it claims, with the dot."),
    optional("aliases", TEXTS, "[\"py\"]", "Other names of it."),
    optional(
        "names",
        TEXTS,
        "[\"python\", \"python3\"]",
        "Base names of interpreters a `#!` line may name for it.",
    ),
    optional(
        "interpreters",
        List(&Text(Form::Absolute)),
        "[\"/usr/bin/python3\"]",
        "Interpreters tried where no version is asked for.",
    ),
    optional(
        "dependency_file",
        Text(Form::Relative),
        "\"requirements.txt\"",
        "The file that lists what a function needs.",
    ),
    optional(
        "shim",
        Text(Form::Relative),
        "\"shim.py\"",
        "The program that serves handlers, beside this file; `{shim}` in `[phases.handle] command`.",
    ),
    key(
        "text",
        Word(&["as-is", "unix"]),
        "\"as-is\"",
        "\"unix\"",
        "`unix`: byte-order mark and carriage returns are taken out of the entry.",
    ),
    optional(
        "probe",
        TEXTS,
        "[\"{interpreter}\", \"--version\"]",
        "Command that tells the version.",
    ),
    optional("versions", Map(Form::Name, &Table(VERSION)), "", "Versions by name."),
    table("phases", Table(PHASES), "Commands."),
    optional(
        "permissions",
        Map(Form::Permission, &List(&Text(Form::Some))),
        "{ read = [\"{code}\"] }",
        "What it always grants, by permission.",
    ),
    table("floors", Table(FLOORS), "What it needs to start at all."),
];

const VERSION: &[Key] = &[required(
    "interpreter",
    Text(Form::Absolute),
    "\"/usr/bin/python3.11\"",
    "Its interpreter.",
)];

const PHASES: &[Key] = &[
    table("install", Table(PHASE), "Fetches dependencies."),
    table("compile", Table(PHASE), "Compiles."),
    table("check", Table(PHASE), "Checks."),
    table("run", Table(PHASE), "Runs an attempt of a script."),
    table(
        "handle",
        Table(PHASE),
        "Starts a worker of a handler, which speaks the worker protocol. Without it the runtime has no handlers.",
    ),
    table(
        "serve",
        Table(PHASE),
        "Starts a worker of a module with `export default { fetch }`, which serves HTTP. Without it the runtime has none.",
    ),
];

const PHASE: &[Key] = &[
    required(
        "command",
        TEXTS,
        "[\"{interpreter}\", \"{entry}\", \"{args}\"]",
        "Command line; begins with `{interpreter}`, or with `{entry}` where there is none.",
    ),
    optional(
        "env",
        Map(Form::Variable, &Text(Form::Any)),
        "{ PYTHONUNBUFFERED = \"1\" }",
        "Environment.",
    ),
    optional(
        "names",
        TEXTS,
        "[\"bash\"]",
        "Base names of the only interpreters that a `#!` line may ask for here; absent: any of `names`.",
    ),
    optional(
        "permissions",
        Map(Form::Permission, &List(&Text(Form::Some))),
        "{ net = [\"127.0.0.1:0\"] }",
        "What is granted in this phase beside `[permissions]`.",
    ),
];

const FLOORS: &[Key] = &[
    key("memory", Size(ANY_SIZE), "\"1M\"", "\"16M\"", "Memory."),
    key("pids", Whole(1..=4_194_304), "1", "8", "Processes and threads."),
];

/// Names that may be in braces in a command line or environment; `{shim}` is allowed in `[phases.handle]` as well.
const TEMPLATES: &[&str] = &[
    "interpreter",
    "interpreter_args",
    "args",
    "permissions",
    "entry",
    "code",
    "tmp",
    "state",
    "cache",
    "result",
    "credentials",
    "bindings",
];

/// Returns the runtime that a file describes.
///
/// # Errors
/// All diagnostics; at least one of them is an error.
pub fn runtime(file: &str, bytes: &[u8]) -> Result<Runtime, Vec<Diagnostic>> {
    let source = Source::whole(file, bytes).map_err(|problem| vec![*problem])?;
    let (tree, mut problems) = read(&source, 0, SCHEMA);
    problems.extend(check(&source, &tree));
    if problems.iter().any(Diagnostic::is_error) {
        return Err(problems);
    }
    Ok(build(file, &tree))
}

fn check(source: &Source, tree: &Tree) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let pick = Pick {
        table: tree,
        keys: RUNTIME,
    };
    let bad = |node: &Node, message: String| Diagnostic::error("bad-value", message).at(source, node.at.value.clone());
    let first = |path: &str| pick.texts(path).into_iter().next();
    match pick.written("phases.run.command") {
        None => {
            problems.push(Diagnostic::error("missing-key", "`[phases.run] command` is missing").in_file(&source.file));
        }
        Some(node) => {
            let first = first("phases.run.command");
            if first.as_deref() != Some("{interpreter}") && first.as_deref() != Some("{entry}") {
                let message = "`phases.run.command`: expected `{interpreter}` or `{entry}` as the first item";
                problems.push(bad(node, message.to_owned()));
            }
        }
    }
    for path in ["phases.handle.command", "phases.serve.command"] {
        let Some(node) = pick.written(path) else { continue };
        // The interpreter, and whether the entry must be executable, are decided once for all phases.
        if first(path) != first("phases.run.command") {
            let message = format!("`{path}`: expected the first item of `phases.run.command`");
            problems.push(bad(node, message));
        }
        let shim = pick.text_if("shim").is_some();
        if node.value.text().contains("{shim}") != shim {
            let message = format!("`shim` and `{{shim}}` in `{path}`: expected both or none");
            problems.push(bad(node, message));
        }
    }
    for path in [
        "phases.run.command",
        "phases.run.env",
        "phases.handle.command",
        "phases.handle.env",
        "phases.serve.command",
        "phases.serve.env",
        "permissions",
    ] {
        let Some(node) = find(tree, path) else { continue };
        let text = node.value.text();
        let shim = ["phases.handle.command", "phases.serve.command"].contains(&path);
        let known = |name: &str| TEMPLATES.contains(&name) || (name == "shim" && shim);
        for piece in text.split('{').skip(1) {
            let name = piece.split('}').next().unwrap_or_default();
            if !known(name) && piece.contains('}') {
                let help = format!("known templates: {}", crate::schema::read::list(TEMPLATES));
                problems.push(bad(node, format!("`{path}`: unknown template `{{{name}}}`")).with_help(help));
            }
        }
    }
    problems
}

fn build(file: &str, tree: &Tree) -> Runtime {
    let pick = Pick {
        table: tree,
        keys: RUNTIME,
    };
    let tables = |path: &str| match find(tree, path).map(|node| &node.value) {
        Some(Value::Table(table)) => table.clone(),
        _ => Tree::new(),
    };
    let mut versions: Vec<RuntimeVersion> = tables("versions")
        .into_iter()
        .filter_map(|(name, node)| match node.value {
            Value::Table(version) => Some(RuntimeVersion {
                name,
                interpreter: version.get("interpreter")?.value.text(),
            }),
            _ => None,
        })
        .collect();
    versions.sort_by_key(|version| std::cmp::Reverse(rank(&version.name)));
    let mut interpreters = pick.texts("interpreters");
    interpreters.extend(
        versions
            .iter()
            .filter(|version| version.name == DEFAULT)
            .map(|v| v.interpreter.clone()),
    );
    let lists = |path: &str| {
        let lists = tables(path).into_iter().map(|(name, node)| {
            let items = match node.value {
                Value::List(items) => items.iter().map(|item| item.value.text()).collect(),
                _ => Vec::new(),
            };
            (name, items)
        });
        lists.collect::<BTreeMap<String, Vec<String>>>()
    };
    let phase = |name: &str| Phase {
        command: pick.texts(&format!("phases.{name}.command")),
        environment: pick.text_map(&format!("phases.{name}.env")).into_iter().collect(),
        names: pick.texts(&format!("phases.{name}.names")),
        permissions: lists(&format!("phases.{name}.permissions")),
    };
    Runtime {
        summary: RuntimeSummary {
            id: pick.text("id"),
            description: pick.text_if("description").unwrap_or_default(),
            suffixes: pick.texts("suffixes"),
            aliases: pick.texts("aliases"),
            versions,
            enabled: true,
        },
        interpreters,
        names: pick.texts("names"),
        run: phase("run"),
        handle: pick.written("phases.handle").map(|_| phase("handle")),
        serve: pick.written("phases.serve").map(|_| phase("serve")),
        shim: pick.text_if("shim").map(|shim| match file.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{shim}"),
            None => shim,
        }),
        probe: pick.texts("probe"),
        permissions: find(tree, "permissions").map(|_| lists("permissions")),
        unix_text: pick.text("text") == "unix",
        memory_floor: pick.size("floors.memory"),
        pids_floor: pick.small("floors.pids"),
    }
}
