//! Finds the dependencies of a function: in its manifest, in the metadata of a Python script (PEP 723), or in a file that
//! its runtime names; [`imports`] finds those that the code itself names. It installs nothing and asks no index. Of a
//! language with a compiler, all files of a function are read by its build.

use super::entry::{MANIFEST, base_name, find, path_in};
use super::{Judge, imports};
use crate::diagnostic::Diagnostic;
use crate::function::{Manifest, Mode, inline};
use crate::resolve::FunctionProblems;
use crate::runtime::Runtime;
use crate::schema::read::list as names;
use crate::schema::tree::{TomlNode, TomlTable, TomlValue};
use fnd_wire::plan::{INPUTS_MAX, JudgeFunction, JudgedFile};
use serde::Serialize;

/// The dependencies of a function, as the installer of its runtime reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Dependencies {
    /// The packages, if they are a list.
    pub(super) list: Vec<String>,
    /// The file that lists them, if they are none.
    pub(super) file: Option<String>,
    /// The versions of the language that they need, `>=3.11`.
    pub(super) language: Option<String>,
    /// Whether a package that the machine has is not installed again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) system_packages: bool,
    /// The program to make of the function's code, in a language with a compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<Program>,
    /// The files that the installer reads, `file` among them.
    #[serde(skip)]
    pub(super) inputs: Vec<String>,
}

/// The facts about a function that a compiler needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Program {
    /// The file that runs.
    entry: String,
    /// The name of the handler that the manifest gives; empty: there is one in the code.
    handler: String,
    /// `handler` or `script`.
    mode: &'static str,
}

impl Dependencies {
    /// Adds the program of a function: all of its files are read.
    pub(super) fn with_program(
        mut self,
        function: &JudgeFunction,
        manifest: &Manifest,
        report: &mut FunctionProblems<'_>,
    ) -> Self {
        // An edit of the manifest alone compiles nothing, because the manifest is no input of the build.
        let code = function.files.iter().filter(|file| file.path != MANIFEST);
        self.inputs = code.map(|file| path_in(function, file).to_owned()).collect();
        let count = self.inputs.len();
        if count > INPUTS_MAX {
            let message = format!("it has {count} files, and at most {INPUTS_MAX} are compiled");
            report.add(None, Diagnostic::error("too-many-files", message));
        }
        let named = manifest.handler.as_deref().and_then(|handler| handler.split_once('.'));
        self.program = Some(Program {
            entry: manifest.entry.clone(),
            handler: named.map(|(_, name)| name.to_owned()).unwrap_or_default(),
            mode: match manifest.mode {
                Mode::Handler => "handler",
                Mode::Script | Mode::Http | Mode::Service => "script",
            },
        });
        self
    }
}

impl Judge {
    /// Returns the dependencies of a function; nothing if none are to be installed.
    pub(super) fn dependencies(
        &self,
        function: &JudgeFunction,
        (entry, runtime): (&JudgedFile, &Runtime),
        own: &TomlTable,
        report: &mut FunctionProblems<'_>,
    ) -> Option<Dependencies> {
        let written = own.get("dependencies");
        if let Some(node) = written.or_else(|| self.configuration.defaults.get("dependencies")) {
            let named = of_manifest(function, runtime, node, report)?;
            return match runtime.dependencies.imports.is_empty() {
                true => Some(named),
                // The code says what else it needs.
                false => imports::of(function, runtime, named, report),
            };
        }
        runtime.build()?;
        // Only Python has a standard for lists of packages in the code (PEP 723).
        if runtime.summary.id == "python"
            && let Some(block) = inline::metadata_of_script(&entry.path, &entry.bytes.0)
        {
            return match block.toml.parse::<toml::Table>() {
                Ok(table) => listed(&table),
                Err(error) => {
                    let message = format!("the block `# /// script` (PEP 723) is not valid: {}", error.message());
                    let at = error.span().unwrap_or(0..block.toml.len());
                    let problem = Diagnostic::error("script-metadata", message).at(&block, at);
                    let help = "write TOML, such as `dependencies = [\"requests\"]`";
                    report.problems.push(problem.with_help(help));
                    None
                }
            };
        }
        let copied = runtime.dependencies.copied.as_ref().map(|name| format!("{name}/"));
        let is_copied = |file: &JudgedFile| copied.as_ref().is_some_and(|copied| file.path.starts_with(copied));
        // The function brings its installed packages with it (such as `node_modules`).
        if function.files.iter().any(is_copied) {
            return None;
        }
        if !runtime.dependencies.imports.is_empty() {
            return imports::of(function, runtime, Dependencies::default(), report);
        }
        // A file beside a single file of code is no part of the function.
        if !function.form.is_tree() {
            return None;
        }
        let files = runtime.dependencies.files.iter();
        files
            .filter_map(|name| find(function, name))
            .find_map(|file| of_file(function, runtime, file))
    }
}

/// Returns the dependencies that a manifest names.
fn of_manifest(
    function: &JudgeFunction,
    runtime: &Runtime,
    node: &TomlNode,
    report: &mut FunctionProblems<'_>,
) -> Option<Dependencies> {
    let (at, list) = (Some(&node.at), node.value.texts());
    let is_list = matches!(node.value, TomlValue::List(_));
    if list.is_empty() {
        return None;
    }
    if runtime.build().is_none() {
        let message = format!("fnd installs no dependencies for runtime `{}`", runtime.summary.id);
        report.impossible(at, message, "remove the key");
        return None;
    }
    if is_list {
        if let Some(option) = list.iter().find(|item| !is_package(item)) {
            let message = format!("`dependencies`: `{}` is no package", option.escape_debug());
            report.error(at, "bad-value", message, "name packages only, such as `name>=1.2`");
            return None;
        }
        return Some(Dependencies {
            list,
            ..Dependencies::default()
        });
    }
    let name = node.value.text();
    if !function.form.is_tree() {
        let message = "a file of `dependencies` is only for the directory form (`NAME/function.toml`)";
        let help = "write the packages as a list, or make the function a directory";
        report.impossible(at, message, help);
        return None;
    }
    let Some(file) = find(function, &name) else {
        let form = function.form.word();
        let message = format!("`dependencies`: there is no file `{name}` in the {form}");
        let lists: Vec<&str> = runtime.dependencies.files.iter().map(String::as_str).collect();
        let lists = names(&lists);
        let help = format!("add the file, or write the packages as a list; without the key fnd reads {lists}");
        report.error(at, "no-dependencies", message, help);
        return None;
    };
    of_file(function, runtime, file)
}

/// Says whether an item names a package. The installers pass it on to programs: an option could name any file or index.
fn is_package(item: &str) -> bool {
    !item.starts_with('-') && !item.contains(['\n', '\r', '\0'])
}

/// Returns the dependencies that a file lists; nothing if it lists none.
fn of_file(function: &JudgeFunction, runtime: &Runtime, file: &JudgedFile) -> Option<Dependencies> {
    let text = String::from_utf8_lossy(&file.bytes.0);
    let base = base_name(&file.path);
    let is_item = |line: &str| !line.is_empty() && !line.starts_with('#');
    let lists_some = match base {
        // Only the packages that a project names are installed, not the project itself.
        "pyproject.toml" => return listed(text.parse::<toml::Table>().ok()?.get("project")?.as_table()?),
        "package.json" | "composer.json" | "deno.json" | "deno.jsonc" => lists_packages(base, &text),
        _ => text.lines().map(str::trim).any(is_item),
    };
    if !lists_some {
        return None;
    }
    let mut inputs = vec![file.path.clone()];
    // Requirements may name further files: `-r base.txt`, `-c constraints.txt`.
    let mut next = 0;
    while let Some(file) = inputs.get(next).and_then(|path| find(function, path)) {
        next += 1;
        let text = String::from_utf8_lossy(&file.bytes.0);
        for name in text.lines().filter_map(included) {
            add_input(&mut inputs, function, name);
        }
    }
    // A list of requirements says everything itself.
    if !base.ends_with(".txt") {
        add_beside(&mut inputs, function, runtime);
    }
    Some(Dependencies {
        file: Some(file.path.clone()),
        inputs,
        ..Dependencies::default()
    })
}

/// Adds the files beside the first input that its runtime names.
pub(super) fn add_beside(inputs: &mut Vec<String>, function: &JudgeFunction, runtime: &Runtime) {
    for name in &runtime.dependencies.beside {
        add_input(inputs, function, name);
    }
}

/// Adds a file beside the first input, if the function has it. Lists may include each other in a circle, so each file is
/// added once.
fn add_input(inputs: &mut Vec<String>, function: &JudgeFunction, name: &str) {
    let dir = inputs.first().and_then(|file| file.rsplit_once('/'));
    let name = dir.map_or_else(|| name.to_owned(), |(dir, _)| format!("{dir}/{name}"));
    if !inputs.contains(&name) && find(function, &name).is_some() && inputs.len() < INPUTS_MAX {
        inputs.push(name);
    }
}

/// Returns the dependencies in the metadata of a script, or in `[project]` of `pyproject.toml`.
fn listed(table: &toml::Table) -> Option<Dependencies> {
    let items = table.get("dependencies").and_then(toml::Value::as_array);
    let items = items.into_iter().flatten().filter_map(|item| item.as_str());
    let list: Vec<String> = items.filter(|item| is_package(item)).map(str::to_owned).collect();
    let language = table.get("requires-python").and_then(toml::Value::as_str);
    (!list.is_empty()).then(|| Dependencies {
        list,
        language: language.map(str::to_owned),
        ..Dependencies::default()
    })
}

/// Says whether a JSON file lists packages. A file that cannot be read is left to the installer, which says why.
fn lists_packages(base: &str, text: &str) -> bool {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(text) else {
        return true;
    };
    let names = |key: &str| {
        let table = json.get(key).and_then(serde_json::Value::as_object);
        table.into_iter().flat_map(|table| table.keys())
    };
    match base {
        // npm is told to leave out what is only for development.
        "package.json" => ["dependencies", "optionalDependencies"]
            .iter()
            .any(|key| names(key).next().is_some()),
        // PHP itself and its extensions are the machine's.
        "composer.json" => names("require").any(|name| name.contains('/')),
        _ => names("imports").next().is_some(),
    }
}

/// Returns the file that a line of requirements includes.
fn included(line: &str) -> Option<&str> {
    let line = line.trim();
    let options = ["-r", "-c", "--requirement", "--constraint"];
    let rest = options.iter().find_map(|option| line.strip_prefix(option))?;
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim();
    // The judge has only the function's own files.
    (!rest.is_empty() && !rest.starts_with('/') && !rest.contains("..")).then_some(rest)
}
