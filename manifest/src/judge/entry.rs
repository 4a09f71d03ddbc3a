//! Finds the file of a function that runs.

use super::Judge;
use crate::diagnostic::Diagnostic;
use crate::schema::read::list;
use crate::schema::source::Source;
use crate::schema::tree::TomlTable;
use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgedFile};

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
        if let Some(node) = own.get("entry") {
            let name = node.value.text();
            let holder = function.form.word();
            let found = find(function, &name);
            if found.is_none() {
                let names: Vec<&str> = function.files.iter().map(|file| file.path.as_str()).take(20).collect();
                let problem = Diagnostic::error("no-entry", format!("the entry `{name}` is not in the {holder}"));
                let help = format!("the {holder} has: {}", list(&names));
                problems.push(at_entry(problem.with_help(help)));
            }
            return found;
        }
        let fetched = || function.files.iter().filter(|file| file.path != MANIFEST);
        if function.form == CodeLayout::Source && fetched().count() == 1 {
            return fetched().next(); // one file of a web server, whatever its name is
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
        let (message, named) = match candidates.as_slice() {
            [one] => return Some(one),
            [] => {
                let expected = match module {
                    Some(module) => format!("`{module}.*`, the module of `handler`,"),
                    None => "one of `main.*`, `handler.*`, `index.*`".to_owned(),
                };
                let message = format!("no file to run: expected {expected} with a known suffix, or an executable file");
                (message, "...")
            }
            several @ [first, ..] => {
                let names: Vec<&str> = several.iter().map(|file| file.path.as_str()).collect();
                let message = format!("more than one file could be run: {}", list(&names));
                (message, first.path.as_str())
            }
        };
        let problem = Diagnostic::error("no-entry", message);
        let problem = problem.with_help(format!("name the file with `entry = \"{named}\"`"));
        problems.push(match source {
            Some(source) => problem.in_file(&source.file),
            None => problem,
        });
        None
    }
}

/// Says whether a file can be the entry without being named: the module's file, else `main.*`, `handler.*` or
/// `index.*`, at the top of the directory.
fn is_candidate(path: &str, module: Option<&str>) -> bool {
    let stem = path.split('.').next().unwrap_or_default();
    module.map_or_else(|| ["main", "handler", "index"].contains(&stem), |module| module == stem)
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
