//! Judges whole directories without a daemon, for `fnd --check` and `fndctl validate`.
//!
//! It reads through [`CheckedFiles`]; [`Disk`] is the file system that the process sees. Owners and modes are not judged here:
//! only the spawner, which opens the files that will run, can check them reliably.

mod disk;
#[cfg(test)]
mod tests;

pub use disk::{Disk, is_function};

use crate::diagnostic::Diagnostic;
use crate::foreign::{self, yaml};
use crate::function::forms::{Claims, is_program};
use crate::function::listing::{
    DirectoryEntry, EntryKind, ListedDirectory, ListedFunction, ListedYaml, Listing, Question, listing, stem,
};
use crate::function::{calls, project};
use crate::judge::{Judge, Verdict, judged};
use crate::settings::resolve::configuration;
use crate::warning::Warning;
use fnd_wire::archive::{ArchiveRefusal, Format, SUFFIXES};
use fnd_wire::form::Bytes;
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::{BOOTSTRAP, is_foreign, is_manifest};
use fnd_wire::plan::{CODE_MAX, CodeLayout, JudgeFunction, JudgeSettings, JudgedFile, Plan};
use fnd_wire::unpack::Foreign;
use std::collections::HashSet;

/// Access to files. Paths are joined with `/`; links are followed.
pub trait CheckedFiles {
    /// Returns the names in a directory, in any order.
    ///
    /// # Errors
    /// Why the directory cannot be read, for people.
    fn list(&self, directory: &str) -> Result<Vec<DirectoryEntry>, String>;

    /// Returns the first bytes of a file, at most `max`.
    ///
    /// # Errors
    /// Why the file cannot be read, for people.
    fn read(&self, path: &str, max: usize) -> Result<Vec<u8>, String>;

    /// Returns the kind of a path.
    ///
    /// # Errors
    /// Why the kind is unknown: for example, nothing has that path.
    fn kind(&self, path: &str) -> Result<EntryKind, String>;

    /// Returns the files in an archive, sorted by their paths in it, with the first bytes of each as far as there is room.
    ///
    /// # Errors
    /// Why the archive is refused.
    fn unpack(&self, path: &str, format: Format) -> Result<Vec<JudgedFile>, ArchiveRefusal>;

    /// Returns whether the files count as root's: where their owner is not known, they do.
    fn trusted(&self) -> bool {
        true
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Verdicts on functions, in the order in which they were found. Their diagnostics are not in `diagnostics` again.
    pub verdicts: Vec<Verdict>,
    /// The files behind each verdict of [`check`], in the same order; empty after [`text`].
    pub sources: Vec<CheckedSource>,
    /// All other problems: names, clashes, files that cannot be read.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that belong to functions (code and manifests), including those that could not be read.
    pub files: Vec<String>,
    /// Files that belong to no function by any rule.
    pub unclaimed: Vec<String>,
}

/// The files of a judged function.
#[derive(Debug)]
pub struct CheckedSource {
    /// The paths of its files, joined with `/`.
    pub files: Vec<String>,
    /// The files in its archive, by their paths in the archive; empty in other forms.
    pub unpacked: Vec<JudgedFile>,
    /// The plan for the spawner; absent if the function is refused.
    pub plan: Option<Plan>,
}

impl Checked {
    /// Returns all problems: `diagnostics`, then those of each verdict.
    pub fn all(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics
            .iter()
            .chain(self.verdicts.iter().flat_map(|verdict| &verdict.diagnostics))
    }

    /// Says whether there is no error.
    #[must_use]
    pub fn valid(&self) -> bool {
        !self.all().any(Diagnostic::is_error)
    }
}

/// Largest TOML file that is read. The limit of the judge is lower, and the judge reports a larger file itself.
const TOML_MAX: usize = 1 << 20;

/// Returns configuration and runtimes as input for the judge: `fnd.toml` and `conf.d/*.toml` beside it, in name order,
/// as far as they exist; then `ID/runtime.toml` of each directory of runtimes, in order.
///
/// # Errors
/// Files that exist and cannot be read.
pub fn settings(
    files: &dyn CheckedFiles,
    configuration: &str,
    runtimes: &[String],
) -> Result<JudgeSettings, Vec<Diagnostic>> {
    let mut problems = Vec::new();
    let mut read = |path: &str| match files.read(path, TOML_MAX) {
        Ok(bytes) => Some(judged(path, bytes, false)),
        Err(error) => {
            problems.push(unreadable(path, &error));
            None
        }
    };
    let mut result = JudgeSettings {
        files: Vec::new(),
        runtimes: Vec::new(),
    };
    if files.kind(configuration).is_ok() {
        result.files.extend(read(configuration));
    }
    let directory = configuration.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let conf_d = format!("{directory}/conf.d");
    let mut names = names(files, &conf_d);
    names.retain(|name| name.ends_with(".toml") && !name.starts_with('.'));
    result
        .files
        .extend(names.iter().filter_map(|name| read(&format!("{conf_d}/{name}"))));
    for directory in runtimes {
        for id in self::names(files, directory) {
            let path = format!("{directory}/{id}/runtime.toml");
            if files.kind(&path).is_ok() {
                result.runtimes.extend(read(&path));
            }
        }
    }
    if problems.is_empty() { Ok(result) } else { Err(problems) }
}

/// Returns a judge with the configuration and runtimes of files, and their problems. The judge is absent where the
/// configuration is refused.
pub fn judge(files: &dyn CheckedFiles, configuration: &str, runtimes: &[String]) -> (Option<Judge>, Vec<Diagnostic>) {
    let settings = match settings(files, configuration, runtimes) {
        Ok(settings) => settings,
        Err(problems) => return (None, problems),
    };
    let mut judge = Judge::new();
    let (policy, document) = judge.settings(&settings);
    (policy.map(|_| judge), document.diagnostics)
}

/// Judges a text that is in no directory, by the name that it would have there: code; `NAME.toml` as a manifest without
/// known code; `fnd.toml` as configuration.
#[must_use]
pub fn text(judge: &Judge, name: &str, bytes: &[u8]) -> Checked {
    let mut result = Checked::default();
    if name.rsplit('/').next() == Some("fnd.toml") {
        result.diagnostics = configuration([(name, bytes)]).err().unwrap_or_default();
        return result;
    }
    if name.ends_with(".toml") {
        result.diagnostics = judge.manifest(name, bytes);
        return result;
    }
    if Format::of(name).is_some() {
        let problem = Diagnostic::error("archive", "an archive is judged where it lies, not as a text");
        let help = "run `fndctl validate` with its path";
        result.diagnostics.push(problem.in_file(name).with_help(help));
        return result;
    }
    let base = name.rsplit('/').next().unwrap_or(name);
    let claimed = judge.claims().split(base).map(|(stem, _)| stem);
    match FunctionName::new(claimed.unwrap_or_else(|| stem(base))) {
        Ok(function) => {
            // fnd gives the judge no more of a file, either.
            let code = bytes.get(..CODE_MAX).unwrap_or(bytes).to_vec();
            // A text has no mode. A program is judged as if it could be executed, because without that it would be no
            // function.
            let files = vec![judged(name, code, is_program(bytes))];
            let function = JudgeFunction {
                name: function,
                files,
                manifest: None,
                form: CodeLayout::File,
            };
            result.verdicts.push(judge.function(&function).verdict);
        }
        Err(error) => {
            let problem = Diagnostic::error("bad-name", error.to_string());
            result.diagnostics.push(problem.in_file(name));
        }
    }
    result
}

fn names(files: &dyn CheckedFiles, directory: &str) -> Vec<String> {
    // A directory that does not exist, such as `conf.d`, has no files.
    let entries = files.list(directory).unwrap_or_default();
    let names = entries
        .into_iter()
        .filter_map(|entry| String::from_utf8(entry.name).ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Judges a path: a directory of functions, a function in directory form, a code file, or a manifest.
#[must_use]
pub fn check(judge: &Judge, files: &dyn CheckedFiles, path: &str) -> Checked {
    let mut check = DirectoryCheck::new(judge, files);
    let path = without_end(path);
    match files.kind(path) {
        Err(error) => check.result.diagnostics.push(unreadable(path, &error)),
        Ok(EntryKind::Directory { function: true }) if !is_of_archive(files, path) => check.one(path),
        Ok(EntryKind::Directory { .. }) => check.functions(path),
        Ok(EntryKind::File { .. }) => match path.strip_suffix("/function.toml") {
            Some(directory) if !is_of_archive(files, directory) => check.one(directory),
            Some(_) | None => check.one(path),
        },
        Ok(EntryKind::Other) => {
            let problem = Diagnostic::error("not-a-file", "not a regular file or a directory");
            check.result.diagnostics.push(problem.in_file(path));
        }
    }
    check.result
}

/// Judges a directory of functions. A `function.toml` in it is the manifest of the function `function`, as for the daemon, and
/// does not make the directory one function.
#[must_use]
pub fn check_functions(judge: &Judge, files: &dyn CheckedFiles, directory: &str) -> Checked {
    let mut check = DirectoryCheck::new(judge, files);
    check.functions(without_end(directory));
    check.result
}

/// Names are joined to a path with `/`, so a `/` at its end would be there twice.
fn without_end(path: &str) -> &str {
    path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path)
}

/// Says whether the `function.toml` of a directory is the manifest of an archive, such as `function.zip`, which is the only other
/// file there.
fn is_of_archive(files: &dyn CheckedFiles, directory: &str) -> bool {
    let mut others = names(files, directory);
    others.retain(|name| !name.starts_with('.') && name != "function.toml");
    let is_its = |name: &String| {
        let end = name.strip_prefix("function");
        end.is_some_and(|end| SUFFIXES.iter().any(|(suffix, _)| end == *suffix))
    };
    others.len() == 1 && others.iter().all(is_its)
}

struct DirectoryCheck<'a> {
    judge: &'a Judge,
    files: &'a dyn CheckedFiles,
    result: Checked,
    claims: Claims,
}

impl<'a> DirectoryCheck<'a> {
    fn new(judge: &'a Judge, files: &'a dyn CheckedFiles) -> Self {
        Self {
            judge,
            files,
            result: Checked::default(),
            claims: judge.claims(),
        }
    }

    fn functions(&mut self, path: &str) {
        self.directory(path, None);
        self.calls();
    }

    /// Adds the warnings about calls of functions that are not in the directory.
    fn calls(&mut self) {
        let names: HashSet<&FunctionName> = self.result.verdicts.iter().map(|verdict| &verdict.function).collect();
        let exists = |called: &FunctionName| names.contains(called);
        let node = &self.judge.settings_now().alert.call;
        let of_node = node.iter().filter(|called| !exists(called)).map(calls::node_to_nobody);
        let manifests = self.result.verdicts.iter();
        let manifests = manifests.filter_map(|verdict| Some((&verdict.function, verdict.manifest.as_ref()?)));
        let of_functions = manifests.flat_map(|(name, manifest)| calls::to_nobody(name, manifest, exists));
        let elsewhere = |problem: Diagnostic| problem.with_note("functions of other directories are not known here");
        let problems: Vec<_> = of_node.chain(of_functions).map(elsewhere).collect();
        self.result.diagnostics.extend(problems);
    }

    fn listing(&mut self, path: &str, group: Option<&str>) -> Option<Listing> {
        let mut entries = match self.files.list(path) {
            Ok(entries) => entries,
            Err(error) => {
                self.result.diagnostics.push(unreadable(path, &error));
                return None;
            }
        };
        // A directory has no order of its own, and the problems of two checks should be in the same one.
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        let place = ListedDirectory {
            path,
            group,
            claims: &self.claims,
            default_runtime: self.judge.settings_now().default_runtime.is_some(),
        };
        let answer = |name: &str, question: Question| {
            let head = self.files.read(&format!("{path}/{name}"), question.bytes());
            head.is_ok_and(|head| question.answer(&head))
        };
        let foreign = |name: &str| {
            let path = format!("{path}/{name}");
            // One byte more than is allowed, so that a file that is too large is seen as such.
            let bytes = self.files.read(&path, yaml::FILE_MAX + 1);
            bytes.map_or(ListedYaml::Other, |bytes| foreign::listed(&path, &bytes))
        };
        Some(listing(place, &entries, answer, foreign))
    }

    fn directory(&mut self, path: &str, group: Option<&str>) {
        let Some(listing) = self.listing(path, group) else {
            return;
        };
        self.result.diagnostics.extend(listing.problems);
        let clashes = listing.clashes.into_iter().map(|clash| clash.problem);
        self.result.diagnostics.extend(clashes);
        let unclaimed = listing.unclaimed.iter().map(|name| format!("{path}/{name}"));
        self.result.unclaimed.extend(unclaimed);
        let first = self.result.verdicts.len();
        for found in &listing.functions {
            self.function(path, found);
        }
        self.warn_of_project(path, first, &listing.functions);
        for name in &listing.groups {
            self.directory(&format!("{path}/{name}"), Some(name));
        }
    }

    /// Judges the function to which a file or directory belongs.
    fn one(&mut self, path: &str) {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        // The names beside it count: a manifest, and other files of the same function.
        let Some(listing) = self.listing(directory, None) else {
            return;
        };
        let is_its = |found: &&ListedFunction| found.source == name || found.sidecar.as_deref() == Some(name);
        let mut its = listing.functions.iter().filter(is_its).peekable();
        if its.peek().is_some() {
            let first = self.result.verdicts.len();
            its.for_each(|found| self.function(directory, found));
            return self.warn_of_project(directory, first, &listing.functions);
        }
        let mut problems = listing.problems;
        problems.retain(|problem| problem.file.as_deref() == Some(path));
        let clashes = listing
            .clashes
            .into_iter()
            .filter(|clash| clash.files.iter().any(|file| file == name));
        problems.extend(clashes.map(|clash| clash.problem));
        if problems.is_empty() {
            let problem = Diagnostic::error("no-function", "no rule makes it a function");
            let help = "`fndctl runtimes` lists the known suffixes; any other file must be an executable program";
            self.result.diagnostics.push(problem.in_file(path).with_help(help));
        }
        self.result.diagnostics.extend(problems);
    }

    /// Adds a warning if one of the verdicts from `first` on imports another file of the directory. A directory has at most
    /// one such warning.
    fn warn_of_project(&mut self, directory: &str, first: usize, listed: &[ListedFunction]) {
        let is_beside = |file: &str| listed.iter().any(|found| !found.directory && found.source == file);
        let warning = self.result.verdicts.iter().skip(first).find_map(|verdict| {
            let found = listed.iter().find(|found| found.name == verdict.function)?;
            project::by_import(directory, (&found.source, &verdict.imports), is_beside)
        });
        let is_known = |known: &Diagnostic| {
            known.kind() == Some(Warning::PythonProject) && known.file.as_deref() == Some(directory)
        };
        if !self.result.diagnostics.iter().any(is_known) {
            self.result.diagnostics.extend(warning);
        }
    }

    fn function(&mut self, directory: &str, found: &ListedFunction) {
        let path = format!("{directory}/{}", found.source);
        let first = self.result.files.len();
        let (mut files, mut manifest) = (Vec::new(), None);
        let renamed = |file: &JudgedFile, path: &str| JudgedFile {
            path: path.to_owned(),
            ..file.clone()
        };
        let form = if found.directory {
            self.tree(&path, "", &mut files);
            if holds(&files, "function.toml") || !holds(&files, BOOTSTRAP) {
                manifest = self.read(&format!("{path}/function.toml"), TOML_MAX, false);
            }
            CodeLayout::Directory
        } else if is_manifest(&found.source) {
            // As in a directory of which fnd has only the manifest.
            manifest = self.read(&path, TOML_MAX, false);
            files.extend(manifest.iter().map(|file| renamed(file, "function.toml")));
            CodeLayout::Directory
        } else if is_foreign(&found.source) {
            files = self.foreign(directory, found);
            CodeLayout::Foreign(path.clone())
        } else if let Some(format) = Format::of(&found.source) {
            files = self.unpack(&path, format);
            CodeLayout::Archive(path.clone())
        } else {
            let executable = self.files.kind(&path) == Ok(EntryKind::File { executable: true });
            files.extend(self.read(&path, CODE_MAX, executable));
            CodeLayout::File
        };
        if let Some(sidecar) = &found.sidecar {
            manifest = self.read(&format!("{directory}/{sidecar}"), TOML_MAX, false);
        }
        // `read` and `unpack` have reported the reason already.
        let needs_manifest = found.sidecar.is_some() || (found.directory && !holds(&files, BOOTSTRAP));
        let unread = files.is_empty() || (manifest.is_none() && needs_manifest);
        if unread {
            return;
        }
        let is_packed = matches!(form, CodeLayout::Archive(_) | CodeLayout::Foreign(_));
        if is_packed && manifest.is_none() {
            let inside = files.iter().find(|file| file.path == "function.toml");
            manifest = inside.map(|file| renamed(file, &format!("{path}/function.toml")));
        }
        let function = JudgeFunction {
            name: found.name.clone(),
            files,
            manifest,
            form,
        };
        let judged = self.judge.function(&function);
        self.result.verdicts.push(judged.verdict);
        let files = self.result.files.get(first..).unwrap_or_default().to_vec();
        self.result.sources.push(CheckedSource {
            files,
            unpacked: if is_packed { function.files } else { Vec::new() },
            plan: judged.plan,
        });
    }

    /// Makes the files of a function of another system. The files beside its own count, too.
    fn foreign(&mut self, directory: &str, found: &ListedFunction) -> Vec<JudgedFile> {
        let mut names = names(self.files, directory);
        // The order of the files and their limit are those of the spawner, so that both make the same function of them.
        names.retain(|name| is_foreign(name) && *name != found.source);
        let path = format!("{directory}/{}", found.source);
        let read = |path: &str| self.files.read(path, yaml::FILE_MAX + 1).ok().map(Bytes);
        let mut set = Foreign {
            function: found.name.as_str().rsplit('/').next().unwrap_or_default().to_owned(),
            files: read(&path).map(|bytes| (path.clone(), bytes)).into_iter().collect(),
            path: path.clone(),
        };
        for beside in names.iter().map(|name| format!("{directory}/{name}")) {
            let Some(bytes) = read(&beside) else { continue };
            if !set.has_room(&beside, bytes.0.len() as u64) {
                break;
            }
            set.files.push((beside, bytes));
        }
        set.files.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.result.files.push(path);
        let files = foreign::placed::files(set).into_iter();
        let files = files.map(|file| judged(&file.path, file.bytes, file.executable));
        self.owned(files.collect())
    }

    /// Returns files with what is known about their owner.
    fn owned(&self, mut files: Vec<JudgedFile>) -> Vec<JudgedFile> {
        let trusted = self.files.trusted();
        files.iter_mut().for_each(|file| file.trusted &= trusted);
        files
    }

    fn unpack(&mut self, path: &str, format: Format) -> Vec<JudgedFile> {
        self.result.files.push(path.to_owned());
        let files = self.files.unpack(path, format).unwrap_or_else(|refusal| {
            let (message, help) = refusal.words();
            let problem = Diagnostic::error("archive", message).in_file(path);
            self.result.diagnostics.push(problem.with_help(help));
            Vec::new()
        });
        self.owned(files)
    }

    /// Adds every file of `below` and of the directories below that, with its bytes. `below` is relative to `path` and
    /// empty, or ends with `/`.
    fn tree(&mut self, path: &str, below: &str, files: &mut Vec<JudgedFile>) {
        let mut entries = self
            .files
            .list(format!("{path}/{below}").trim_end_matches('/'))
            .unwrap_or_default();
        entries.sort_by(|one, two| one.name.cmp(&two.name));
        for entry in entries {
            let Ok(name) = String::from_utf8(entry.name) else {
                continue;
            };
            match entry.kind {
                EntryKind::File { executable } => {
                    let relative = format!("{below}{name}");
                    let file = self.read(&format!("{path}/{relative}"), CODE_MAX, executable);
                    files.extend(file.map(|file| JudgedFile { path: relative, ..file }));
                }
                // Sources are not nested deeper than this, and links may form a circle.
                EntryKind::Directory { .. } if below.matches('/').count() < 16 && !name.starts_with('.') => {
                    self.tree(path, &format!("{below}{name}/"), files);
                }
                // Hidden and very deep directories are left out, as sockets and the like are.
                EntryKind::Directory { .. } | EntryKind::Other => {}
            }
        }
    }

    fn read(&mut self, path: &str, max: usize, executable: bool) -> Option<JudgedFile> {
        self.result.files.push(path.to_owned());
        match self.files.read(path, max) {
            Ok(bytes) => Some(JudgedFile {
                trusted: self.files.trusted(),
                ..judged(path, bytes, executable)
            }),
            Err(error) => {
                self.result.diagnostics.push(unreadable(path, &error));
                None
            }
        }
    }
}

/// Says whether one of the files has this path in its function.
fn holds(files: &[JudgedFile], path: &str) -> bool {
    files.iter().any(|file| file.path == path)
}

fn unreadable(path: &str, error: &str) -> Diagnostic {
    Diagnostic::error("unreadable", format!("it cannot be read: {error}")).in_file(path)
}
