//! Reads `runtime.toml`.

use super::keys::{Description, SCHEMA, TextForm, VersionKeys};
use super::{DEFAULT, HELPER, Runtime, RuntimeSummary, RuntimeVersion, rank};
use crate::diagnostic::Diagnostic;
use crate::schema::read::read;
use crate::schema::source::Source;
use crate::schema::tree::{TomlNode, TomlTable as Tree, find};
use fnd_wire::archive::Format;

/// Names that may be in braces in a command line or environment. `{shim}` and `{socket}` are allowed in `[phases.handle]` as well,
/// `{installer}` in the commands of [`BUILDS`], `{entries}` as the last item of [`CHECK`], `{program}` where a function that was compiled is started, and `{file}` in
/// the arguments of a function with dependencies.
const TEMPLATES: &[&str] = &[
    "interpreter",
    "interpreter_args",
    "args",
    "concurrency",
    "permissions",
    "dependencies",
    "entry",
    "code",
    "tmp",
    "state",
    "cache",
    "result",
    "credentials",
    "bindings",
    "deps",
];

/// The command of scripts.
const RUN: &str = "phases.run.command";
/// The command of handlers.
const HANDLE: &str = "phases.handle.command";
/// The command of checks.
const CHECK: &str = "phases.check.command";

const BUILDS: [&str; 3] = [
    "phases.install.command",
    "phases.compile.command",
    "phases.fetch.command",
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
    let pick = Description::pick(tree);
    let bad =
        |node: &TomlNode, message: String| Diagnostic::error("bad-value", message).at(source, node.at.value.clone());
    let first = |path: &str| pick.get::<Vec<String>>(path).into_iter().next();
    let start = if pick.written(RUN).is_none() && pick.written(HANDLE).is_some() {
        HANDLE
    } else {
        RUN
    };
    match pick.written(start) {
        None => {
            problems.push(Diagnostic::error("missing-key", "`[phases.run] command` is missing").in_file(&source.file));
        }
        Some(node) => {
            let compiled = pick.written("phases.compile").is_some();
            let message = match first(start).as_deref() {
                Some("{program}") if compiled => None,
                _ if compiled => Some("expected `{program}` as the first item, which `[phases.compile]` makes"),
                Some("{interpreter}" | "{entry}") => None,
                Some(HELPER) if start == HANDLE => None,
                _ => Some("expected `{interpreter}` or `{entry}` as the first item"),
            };
            problems.extend(message.map(|message| bad(node, format!("`{start}`: {message}"))));
        }
    }
    let helped = first(start).as_deref() == Some(HELPER);
    if let Some(node) = pick.written("interpreters").filter(|_| helped) {
        let message = format!("`interpreters` has no effect beside `{HELPER}`");
        problems.push(bad(node, message));
    }
    if let Some(node) = pick.written("suffixes") {
        let mut suffixes = pick.get::<Vec<String>>("suffixes").into_iter();
        if let Some(archive) = suffixes.find(|suffix| Format::of(&format!("x{suffix}")).is_some()) {
            let message =
                format!("`suffixes`: `{archive}` is the suffix of archives, which are functions of any runtime");
            problems.push(bad(node, message));
        }
    }
    if let Some(node) = pick.written("min_version") {
        let version = node.value.text();
        let is_number = version.split('.').all(|part| part.parse::<u32>().is_ok());
        let message = match pick.written("probe") {
            None => Some("expected `probe` beside it, which prints the version"),
            Some(_) if !is_number => Some("expected numbers with a dot between them, such as `2.9`"),
            Some(_) => None,
        };
        problems.extend(message.map(|message| bad(node, format!("`min_version`: {message}"))));
    }
    for path in [HANDLE, "phases.serve.command"] {
        let Some(node) = pick.written(path) else { continue };
        // The interpreter, and whether the entry must be executable, are decided once for all phases.
        if first(path) != first(start) {
            let message = format!("`{path}`: expected the first item of `{start}`");
            problems.push(bad(node, message));
        }
        let shim = pick.written("shim").is_some();
        // A shim that no command names would never run, and without a shim `{shim}` would stand for nothing.
        if node.value.text().contains("{shim}") != shim {
            let message = format!("`shim` and `{{shim}}` in `{path}`: expected both or none");
            problems.push(bad(node, message));
        }
    }
    for path in BUILDS.into_iter().chain([CHECK]) {
        let Some(node) = pick.written(path) else { continue };
        let installer = pick.written("installer").is_some();
        if path != CHECK && node.value.text().contains("{installer}") != installer {
            let message = format!("`installer` and `{{installer}}` in `{path}`: expected both or none");
            problems.push(bad(node, message));
        }
        // The spawner starts a program by its path and searches no `PATH`.
        if !first(path).is_some_and(|first| first == "{interpreter}" || first.starts_with('/')) {
            let message = format!("`{path}`: expected `{{interpreter}}` or a path as the first item");
            problems.push(bad(node, message));
        }
    }
    for path in [
        "phases.install.command",
        "phases.install.env",
        "phases.compile.command",
        "phases.compile.env",
        "phases.fetch.command",
        "phases.fetch.env",
        "phases.check.command",
        "phases.check.env",
        "dependencies.env",
        "dependencies.args",
        "dependencies.args_without",
        RUN,
        "phases.run.env",
        HANDLE,
        "phases.handle.env",
        "phases.handle.permissions",
        "phases.serve.command",
        "phases.serve.env",
        "permissions",
    ] {
        let Some(node) = find(tree, path) else { continue };
        let is_handle = path == HANDLE;
        let text = node.value.text();
        // The judge replaces it where it is the first item.
        let text = text.strip_prefix(HELPER).filter(|_| is_handle).unwrap_or(&text);
        let started = path.ends_with(".command") && path != CHECK && !BUILDS.contains(&path);
        let here = [
            ("shim", is_handle || path == "phases.serve.command"),
            ("socket", is_handle || path == "phases.handle.permissions"),
            ("installer", BUILDS.contains(&path)),
            ("entries", path == CHECK),
            ("program", started),
            ("file", path == "dependencies.args"),
        ];
        let here = here.iter().filter(|(_, is_known)| *is_known).map(|(name, _)| *name);
        let known: Vec<&str> = TEMPLATES.iter().copied().chain(here).collect();
        for piece in text.split('{').skip(1) {
            let name = piece.split('}').next().unwrap_or_default();
            if !known.contains(&name) && piece.contains('}') {
                let help = format!("known templates: {}", crate::schema::read::list(&known));
                problems.push(bad(node, format!("`{path}`: unknown template `{{{name}}}`")).with_help(help));
            }
        }
    }
    problems
}

fn build(file: &str, tree: &Tree) -> Runtime {
    let description = Description::read(Description::pick(tree));
    let mut interpreters = description.interpreters;
    let mut versions = Vec::new();
    for (name, VersionKeys { interpreter }) in description.versions {
        // An interpreter of no certain version is also one for functions that ask for none.
        if name == DEFAULT {
            interpreters.push(interpreter.clone());
        }
        versions.push(RuntimeVersion::new(name, interpreter));
    }
    versions.sort_by_key(|version| std::cmp::Reverse(rank(&version.name)));
    let beside = |program: String| match file.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/{program}"),
        None => program,
    };
    Runtime {
        summary: RuntimeSummary {
            id: description.id,
            description: description.description,
            suffixes: description.suffixes,
            aliases: description.aliases,
            versions,
            enabled: true,
            probe: description.probe,
        },
        interpreters,
        names: description.names,
        run: description.phases.run,
        handle: description.phases.handle,
        serve: description.phases.serve,
        shim: description.shim.map(beside),
        install: description.phases.install,
        compile: description.phases.compile,
        check: description.phases.check,
        fetch: description.phases.fetch,
        installer: description.installer.map(beside),
        dependencies: description.dependencies,
        min_version: description.min_version,
        permissions: description.permissions,
        unix_text: description.text == TextForm::Unix,
        memory_floor: description.floors.memory,
        pids_floor: description.floors.pids,
    }
}
