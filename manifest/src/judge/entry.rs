//! Finds the file of a function that runs.

use super::Judge;
use super::choose::{LAMBDA, PROVIDED};
use crate::diagnostic::Diagnostic;
use crate::schema::read::list;
use crate::schema::source::Source;
use crate::schema::tree::TomlTable;
use crate::warning::Warning;
use fnd_wire::naming::BOOTSTRAP;
use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgedFile};

/// The file that AWS Lambda's console makes for Python.
const AWS_PYTHON: &str = "lambda_function.py";

/// The manifest in a directory or an archive.
pub(super) const MANIFEST: &str = "function.toml";

impl Judge {
    /// Returns the file that runs.
    pub(super) fn entry<'f>(
        &self,
        function: &'f JudgeFunction,
        own: &TomlTable,
        source: Option<&Source>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<&'f JudgedFile> {
        let at_entry = |problem: Diagnostic| match (own.get("entry"), source) {
            (Some(node), Some(source)) => problem.at(source, node.at.value.clone()),
            _ => problem,
        };
        if !function.form.is_tree() {
            if own.contains_key("entry") {
                let message = "`entry` is only for the directory form (`NAME/function.toml`)";
                let problem = Diagnostic::error("impossible", message).with_help("remove it");
                problems.push(at_entry(problem));
            }
            return function.files.first();
        }
        let holder = function.form.word();
        if let Some(node) = own.get("entry") {
            let name = node.value.text();
            let found = find(function, &name);
            if found.is_none() {
                let names: Vec<&str> = function.files.iter().map(|file| file.path.as_str()).take(20).collect();
                let problem = Diagnostic::error("no-entry", format!("the entry `{name}` is not in the {holder}"));
                let help = format!("the {holder} has: {}", list(&names));
                problems.push(at_entry(problem.with_help(help)));
            }
            return found;
        }
        // `choose` refuses the names of AWS, with the one to write.
        let is_lambda = own.get("runtime").map(|node| node.value.text());
        let is_lambda = is_lambda.map(|name| name == LAMBDA || PROVIDED.contains(&&*name));
        // One that is named and cannot be executed is an error, which `choose` reports.
        let is_meant = |file: &&JudgedFile| is_lambda.unwrap_or_else(|| is_bootstrap(function, file));
        if let Some(bootstrap) = find(function, BOOTSTRAP).filter(is_meant) {
            return Some(bootstrap);
        }
        let fetched = || function.files.iter().filter(|file| file.path != MANIFEST);
        if function.form == CodeLayout::Source && fetched().count() == 1 {
            return fetched().next(); // one file of a web server, whatever its name is
        }
        // Without a manifest a directory is a function only because of its `bootstrap`.
        let is_bare = function.form == CodeLayout::Directory && function.manifest.is_none();
        if is_bare || is_lambda == Some(true) {
            let message = format!("the {holder} has no executable `{BOOTSTRAP}`, which runtime `{LAMBDA}` runs");
            let help = format!("put it at the top of the {holder}, or name the program with `entry = \"...\"`");
            let (message, help) = in_folder(function).unwrap_or((message, help));
            let problem = Diagnostic::error("no-entry", message);
            problems.push(match (own.get("runtime"), source) {
                (Some(node), Some(source)) => problem.at(source, node.at.value.clone()).with_help(help),
                _ => problem.with_help(help),
            });
            return None;
        }
        let claims = self.claims();
        // The module of `handler` names the file, as in Kubeless.
        let handler = own.get("handler").map(|node| node.value.text());
        let module = handler.as_deref().and_then(handler_parts).map(|(module, _)| module);
        let candidates: Vec<&JudgedFile> = function
            .files
            .iter()
            .filter(|file| {
                is_candidate(&file.path, module) && (claims.split(&file.path).is_some() || file.mode & 0o111 != 0)
            })
            .collect();
        let nested = in_folder(function);
        let by_name = |name: &str| format!("name the file with `entry = \"{name}\"`");
        let (message, help) = match candidates.as_slice() {
            [one] => return Some(one),
            [] if find(function, BOOTSTRAP).is_some_and(|file| file.mode & 0o111 == 0) => {
                let message = format!("no file to run: `{BOOTSTRAP}` is not executable");
                let again = match &function.form {
                    CodeLayout::Archive(path) if path.ends_with(".zip") => {
                        ", and pack it again, on Linux or macOS: a zip of Windows says it of no file"
                    }
                    CodeLayout::Archive(_)
                    | CodeLayout::Directory
                    | CodeLayout::File
                    | CodeLayout::Source
                    | CodeLayout::Foreign(_) => "",
                };
                (message, format!("chmod +x {BOOTSTRAP}{again}"))
            }
            [] if nested.is_some() => nested.unwrap_or_default(),
            [] if module.is_none() && find(function, AWS_PYTHON).is_some() => {
                let message = format!("no file to run: `{AWS_PYTHON}` has a name of AWS Lambda's console");
                let help = "name its function, `handler = \"lambda_function.lambda_handler\"` (`fndctl deploy` has `--handler` for it); \
                            the payload is `event[\"data\"]`";
                (message, help.to_owned())
            }
            [] => {
                let expected = match module {
                    Some(module) => format!("`{module}.*`, the module of `handler`,"),
                    None => "one of `main.*`, `handler.*`, `index.*`".to_owned(),
                };
                let message = format!("no file to run: expected {expected} with a known suffix, or an executable file");
                (message, by_name("..."))
            }
            several @ [first, ..] => {
                let names: Vec<&str> = several.iter().map(|file| file.path.as_str()).collect();
                let message = format!("more than one file could be run: {}", list(&names));
                (message, by_name(&first.path))
            }
        };
        let problem = Diagnostic::error("no-entry", message);
        let problem = problem.with_help(help);
        problems.push(match source {
            Some(source) => problem.in_file(&source.file),
            None => problem,
        });
        None
    }

    /// Returns the warning about a directory that is one function because of its `bootstrap`, and looks like a group: it has code
    /// with a manifest of the same name beside it.
    pub(super) fn looks_like_a_group(&self, function: &JudgeFunction) -> Option<Diagnostic> {
        if function.form != CodeLayout::Directory || function.manifest.is_some() {
            return None;
        }
        let claims = self.claims();
        let is_code = |path: &&str| !path.contains('/') && (claims.split(path).is_some() || *path == BOOTSTRAP);
        let mut code = function.files.iter().map(|file| &*file.path).filter(is_code);
        let found = code.find_map(|path| find(function, &format!("{}.toml", path.split('.').next()?)));
        let manifest = &found?.path;
        let message = format!(
            "`{manifest}` is no manifest here: with an executable `{BOOTSTRAP}`, the directory is one function and no group"
        );
        let help = format!("if it is a group, rename `{BOOTSTRAP}`; else add a `{MANIFEST}`, which may be empty");
        Some(Diagnostic::warning(Warning::Pointless, message).with_help(help))
    }
}

/// Says whether a file makes its function one of the runtime `lambda`, if no manifest names another runtime.
pub(super) fn is_bootstrap(function: &JudgeFunction, file: &JudgedFile) -> bool {
    function.form.is_tree() && file.path == BOOTSTRAP && file.mode & 0o111 != 0
}

/// Says whether a file can be the entry without being named: the module's file, else `main.*`, `handler.*` or
/// `index.*`, at the top of the directory.
fn is_candidate(path: &str, module: Option<&str>) -> bool {
    let stem = path.split('.').next().unwrap_or_default();
    module.map_or_else(|| ["main", "handler", "index"].contains(&stem), |module| module == stem)
}

/// Returns the problem of a `bootstrap` in a folder, and what to do: in most cases the folder was packed, and not its content.
fn in_folder(function: &JudgeFunction) -> Option<(String, String)> {
    let mut paths = function.files.iter().map(|file| file.path.as_str());
    if find(function, BOOTSTRAP).is_some() {
        return None;
    }
    let path = paths.find(|path| base_name(path) == BOOTSTRAP)?;
    let (folder, _) = path.rsplit_once('/')?;
    let holder = function.form.word();
    let message = format!("`{path}` is inside a folder, and `{BOOTSTRAP}` must be at the top of the {holder}");
    let help = match &function.form {
        CodeLayout::Archive(archive) if archive.ends_with(".zip") => {
            let up = "../".repeat(folder.split('/').count());
            format!(
                "pack the content of the folder: `cd {folder} && zip -r {up}{} .`",
                base_name(archive)
            )
        }
        _ => format!("use the content of `{folder}`, without the folder around it"),
    };
    Some((message, help))
}

/// Returns module and function of `handler = "module.function"`; nothing for other forms.
pub(super) fn handler_parts(handler: &str) -> Option<(&str, &str)> {
    let name = |text: &str, more: &[u8]| {
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || more.contains(&b))
    };
    let (module, function) = handler.split_once('.')?;
    // A name of a file may have `-`, and a name in JavaScript may have `$`.
    (name(module, b"-") && name(function, b"$")).then_some((module, function))
}

pub(super) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the file of a function with this path.
pub(super) fn find<'f>(function: &'f JudgeFunction, path: &str) -> Option<&'f JudgedFile> {
    function.files.iter().find(|file| file.path == path)
}

/// Returns the path of a file in its function. In file form the function has one file, which is known by its whole path.
pub(super) fn path_in<'f>(function: &JudgeFunction, file: &'f JudgedFile) -> &'f str {
    match function.form.is_tree() {
        true => &file.path,
        false => base_name(&file.path),
    }
}

/// Returns a file's path as people know it; in directory form it is beside the manifest.
pub(super) fn shown(function: &JudgeFunction, file: &JudgedFile) -> String {
    let manifest = function.manifest.as_ref();
    match (
        &function.form,
        manifest.and_then(|manifest| manifest.path.rsplit_once('/')),
    ) {
        (CodeLayout::Archive(archive) | CodeLayout::Foreign(archive), _) => format!("{archive}/{}", file.path),
        (CodeLayout::Directory, Some((directory, _))) => format!("{directory}/{}", file.path),
        (CodeLayout::Directory | CodeLayout::File | CodeLayout::Source, _) => file.path.clone(),
    }
}

/// Returns the problem that an archive has a manifest, and that there is one beside it.
pub(super) fn two_manifests(function: &JudgeFunction) -> Option<Diagnostic> {
    let CodeLayout::Archive(archive) = &function.form else {
        return None;
    };
    let sidecar = function.manifest.as_ref()?;
    let inside = find(function, MANIFEST)?;
    if sidecar.path == shown(function, inside) {
        return None;
    }
    let message = format!("the archive has a `{MANIFEST}`, but there is also `{}`", sidecar.path);
    let problem = Diagnostic::error("two-manifests", message).in_file(archive);
    Some(problem.with_help("remove one of the two"))
}
