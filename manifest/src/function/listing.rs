//! Finds the functions of a directory by the names in it: pairs manifests with code and finds clashes. The daemon's
//! scan and `fnd --check` share it.
//!
//! It opens no file; the caller lists the directory and follows symbolic links.

#[cfg(test)]
mod tests;

use super::forms::{self, Claims, FileForm};
use super::project;
use crate::diagnostic::Diagnostic;
use crate::warning::Warning;
use fnd_wire::ids::{FunctionName, NameError};
use fnd_wire::naming::{BOOTSTRAP, is_foreign};
use fnd_wire::plan::is_own;
use std::collections::{BTreeMap, HashSet};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The entry's name.
    pub name: Vec<u8>,
    /// The kind of the entry, after links were followed.
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Whether any user may execute it.
        executable: bool,
    },
    /// A directory.
    Directory {
        /// Whether it is a function, and no group: it has `function.toml`, or an executable `bootstrap`.
        function: bool,
    },
    /// A FIFO, a socket, a device, or a dangling link.
    Other,
}

/// A function of the directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedFunction {
    /// Its name; a name that several files claim is in `clashes`.
    pub name: FunctionName,
    /// Name of its entry in the directory: the code file, the archive, the directory in directory form, or the manifest if
    /// that says where the code comes from.
    pub source: String,
    /// Name of the manifest beside the code; only in file form.
    pub sidecar: Option<String>,
    /// Whether it is the directory form.
    pub directory: bool,
}

/// The content of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Functions, by name.
    pub functions: Vec<ListedFunction>,
    /// Groups, by name; each is listed separately.
    pub groups: Vec<String>,
    /// Files that no rule claims: they are no functions and no errors.
    pub unclaimed: Vec<String>,
    /// Files of other systems that cannot be read. Each is in `functions`, under its own name: its functions are not known.
    pub broken: Vec<String>,
    /// Functions that several files claim. They are not in `functions`; a version that already serves goes on serving.
    pub clashes: Vec<Clash>,
    /// All other problems.
    pub problems: Vec<Diagnostic>,
}

/// A function that several files claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The name that the files claim.
    pub function: FunctionName,
    /// The names of the files.
    pub files: Vec<String>,
    /// The problem, with its help.
    pub problem: Diagnostic,
}

/// The kind of a YAML file in the list of a directory, which may have functions of another system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedYaml {
    /// It has nothing to do with fnd.
    Other,
    /// The names of its functions; none if it has only what functions name, such as a ConfigMap.
    Functions(Vec<String>),
    /// It seems to have functions, but cannot be read.
    Broken,
}

impl ListedYaml {
    /// Returns what an upload of the function `name` may make of its file: that function and no other one, because its
    /// sender may perhaps not change the others.
    #[must_use]
    pub fn of_upload(self, name: &str) -> Self {
        match self {
            Self::Functions(mut names) => {
                names.retain(|found| found == name);
                Self::Functions(names)
            }
            Self::Other | Self::Broken => self,
        }
    }
}

/// Returns the name of a YAML file without directory and suffix.
#[must_use]
pub fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or_default()
}

/// The advice about an unclaimed file.
pub const UNCLAIMED_HELP: &str =
    "give it a known suffix (`fndctl runtimes`), or a `#!` line and `chmod +x`; if it is not a function, move it away";

/// Returns the warning about a file that no rule makes a function.
#[must_use]
pub fn unclaimed(path: &str) -> Diagnostic {
    let problem = Diagnostic::warning(Warning::NoFunction, "no rule makes it a function");
    problem.in_file(path).with_help(UNCLAIMED_HELP)
}

/// The directory, and the facts that apply to all of its entries.
#[derive(Debug, Clone, Copy)]
pub struct ListedDirectory<'a> {
    /// Its path, for diagnostics.
    pub path: &'a str,
    /// Name of the group that the directory is; absent at the top.
    pub group: Option<&'a str>,
    /// Suffixes that runtimes claim.
    pub claims: &'a Claims,
    /// Whether `[defaults] runtime` is set.
    pub default_runtime: bool,
}

/// A question about the content of a file, which its name does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Of an executable file without a known suffix: whether its first bytes are [`forms::is_program`].
    IsProgram,
    /// Of a manifest without code: whether its first bytes say where the code comes from ([`forms::names_source`]).
    NamesSource,
}

impl Question {
    /// Returns how many of the file's first bytes decide.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            // Enough for `#!` behind a byte-order mark, and for the mark of ELF.
            Self::IsProgram => 8,
            // No manifest is longer.
            Self::NamesSource => 1 << 20,
        }
    }

    /// Returns the answer; `head` is the beginning of the file.
    #[must_use]
    pub fn answer(self, head: &[u8]) -> bool {
        match self {
            Self::IsProgram => forms::is_program(head),
            Self::NamesSource => forms::names_source(head),
        }
    }
}

/// Lists the functions of a directory; `ask` must answer a question about a file, and `foreign` find the functions in a
/// file of another system.
pub fn listing(
    place: ListedDirectory<'_>,
    entries: &[DirectoryEntry],
    mut ask: impl FnMut(&str, Question) -> bool,
    mut foreign: impl FnMut(&str) -> ListedYaml,
) -> Listing {
    let mut claimed = ClaimedNames {
        place,
        listing: Listing::default(),
        sources: BTreeMap::new(),
        manifests: BTreeMap::new(),
    };
    let stems = entries.iter().filter_map(|entry| entry.name.strip_suffix(b".toml"));
    let stems: HashSet<&[u8]> = stems.collect();
    let is_project =
        |entry: &DirectoryEntry| entry.name == project::FILE.as_bytes() && matches!(entry.kind, EntryKind::File { .. });
    if entries.iter().any(is_project) {
        claimed.listing.problems.push(project::by_file(place.path));
    }
    // `pyproject.toml` is skipped: it would count as the manifest of a function `pyproject`.
    for entry in entries.iter().filter(|entry| !is_project(entry)) {
        let shown = String::from_utf8_lossy(&entry.name).into_owned();
        let form = forms::file(&entry.name, place.claims);
        match (entry.kind, form) {
            (EntryKind::Directory { function }, _) => claimed.directory(&entry.name, shown, function),
            (EntryKind::Other, form) => claimed.other(&shown, &form),
            (EntryKind::File { executable }, FileForm::Program { name, bare }) => {
                // A file whose name is not UTF-8 cannot be opened by its name here, so its first bytes are not checked.
                let unnameable = str::from_utf8(&entry.name).is_err();
                let has_manifest = name.as_ref().is_ok_and(|name| stems.contains(name.as_bytes()));
                let is_code = (executable && (unnameable || ask(&shown, Question::IsProgram)))
                    || (bare && (place.default_runtime || has_manifest));
                // The directory of an executable one is a function, and is not listed.
                if shown == BOOTSTRAP && place.group.is_some() && !is_code {
                    let message = "it is not executable, so its directory is a group of functions and no function";
                    claimed.refuse(
                        &shown,
                        "not-executable",
                        message,
                        format!("chmod +x {}/{shown}", place.path),
                    );
                } else if !is_code {
                    claimed.listing.unclaimed.push(shown);
                // In another encoding the name may be fine, so its author expects a function.
                } else if unnameable {
                    claimed.refuse(&shown, "bad-name", "the name of this program is not UTF-8", "rename it");
                } else {
                    claimed.code(name, shown, false);
                }
            }
            (EntryKind::File { .. }, FileForm::Foreign) => {
                let yaml = foreign(&shown);
                claimed.foreign(yaml, shown);
            }
            (EntryKind::File { .. }, form) => claimed.file(form, shown),
        }
    }
    claimed.paired(ask)
}

/// The names that entries of a directory claim, so far.
struct ClaimedNames<'a> {
    place: ListedDirectory<'a>,
    listing: Listing,
    /// The entries with the code of each function, and whether each is a directory.
    sources: BTreeMap<FunctionName, Vec<(String, bool)>>,
    manifests: BTreeMap<FunctionName, String>,
}

impl ClaimedNames<'_> {
    fn refuse(&mut self, entry: &str, code: &str, message: impl Into<String>, help: impl Into<String>) {
        let path = format!("{}/{entry}", self.place.path);
        let problem = Diagnostic::error(code, message).in_file(&path);
        self.listing.problems.push(problem.with_help(help));
    }

    /// Returns the whole name of a function, or reports that it is none.
    fn named(&mut self, name: Result<String, NameError>, entry: &str) -> Option<FunctionName> {
        let message = match name {
            // In a group the whole name is another one: names of fnd's own functions have no group.
            Ok(name) if is_own(&name) && self.place.group.is_none() => {
                format!("`{name}` is the name of a function of fnd's own")
            }
            Ok(name) => return full(self.place.group, &name),
            Err(error) => error.to_string(),
        };
        self.refuse(entry, "bad-name", message, "rename it");
        None
    }

    fn code(&mut self, name: Result<String, NameError>, entry: String, directory: bool) {
        if let Some(name) = self.named(name, &entry) {
            self.sources.entry(name).or_default().push((entry, directory));
        }
    }

    fn directory(&mut self, name: &[u8], shown: String, is_function: bool) {
        match forms::directory(name) {
            None => {}
            Some(name) if is_function => self.code(name, shown, true),
            Some(_) if self.place.group.is_some() => {
                let help = "move it one directory up, or add `function.toml` if it is a function";
                self.refuse(
                    &shown,
                    "bad-name",
                    "a group in a group: groups have only one level",
                    help,
                );
            }
            Some(Ok(group)) => self.listing.groups.push(group),
            // No group can have this name, so the directory holds no functions. That is no error: it may be a directory
            // of data.
            Some(Err(_)) => self.listing.unclaimed.push(shown),
        }
    }

    fn other(&mut self, shown: &str, form: &FileForm) {
        if matches!(form, FileForm::Code(_) | FileForm::Archive(_) | FileForm::Manifest(_)) {
            let message = "it is not a regular file, or is a link without target";
            self.refuse(shown, "not-a-file", message, "remove it, or replace it by a file");
        }
    }

    /// Takes a regular file whose name says all about it.
    fn file(&mut self, form: FileForm, shown: String) {
        match form {
            FileForm::Code(name) | FileForm::Archive(name) => self.code(name, shown, false),
            FileForm::Manifest(name) => {
                if let Some(name) = self.named(name, &shown) {
                    self.manifests.insert(name, shown);
                }
            }
            FileForm::Unclaimed => self.listing.unclaimed.push(shown),
            FileForm::Ignored | FileForm::Program { .. } | FileForm::Foreign => {}
        }
    }

    fn foreign(&mut self, yaml: ListedYaml, shown: String) {
        let names = match yaml {
            ListedYaml::Functions(names) => names,
            ListedYaml::Broken => {
                // Nobody knows its functions. Under its own name the file is installed, and the answer says what is
                // wrong with it.
                self.listing.broken.push(shown.clone());
                vec![stem(&shown).to_owned()]
            }
            ListedYaml::Other => return self.listing.unclaimed.push(shown),
        };
        for name in names {
            self.code(forms::part(&name), shown.clone(), false);
        }
    }

    /// Returns the list: code with its manifest, clashes, and manifests without code.
    fn paired(mut self, mut ask: impl FnMut(&str, Question) -> bool) -> Listing {
        for (name, mut found) in std::mem::take(&mut self.sources) {
            let sidecar = self.manifests.remove(&name);
            // The order of a directory is any order; the message about a clash has always the same one.
            found.sort();
            match (found.as_slice(), &sidecar) {
                ([(file, directory)], None) | ([(file, directory @ false)], Some(_))
                    // A file of another system says the manifest itself, so one beside it is a clash.
                    if sidecar.is_none() || !is_foreign(file) =>
                {
                    let directory = *directory;
                    let source = found.swap_remove(0).0;
                    self.listing.functions.push(ListedFunction {
                        name,
                        source,
                        sidecar,
                        directory,
                    });
                }
                _ => {
                    let files: Vec<String> = found.into_iter().map(|(source, _)| source).chain(sidecar).collect();
                    let problem = clash(self.place.path, &name, &files);
                    self.listing.clashes.push(Clash {
                        function: name,
                        files,
                        problem,
                    });
                }
            }
        }
        for (name, manifest) in std::mem::take(&mut self.manifests) {
            if ask(&manifest, Question::NamesSource) {
                self.listing.functions.push(ListedFunction {
                    name,
                    source: manifest,
                    sidecar: None,
                    directory: false,
                });
                continue;
            }
            let stem = manifest.strip_suffix(".toml").unwrap_or(&manifest);
            let help = format!(
                "add the code beside it, such as `{stem}.py`, or `[source]` if it comes from elsewhere, or remove the manifest"
            );
            self.refuse(&manifest, "no-code", "this manifest has no code", help);
        }
        self.listing.functions.sort();
        self.listing.groups.sort();
        self.listing.unclaimed.sort();
        self.listing
    }
}

/// Returns the diagnostic for several files that claim one function.
fn clash(directory: &str, name: &FunctionName, sources: &[String]) -> Diagnostic {
    let quoted: Vec<String> = sources.iter().map(|source| format!("`{source}`")).collect();
    let quoted = quoted.join(", ");
    let message = format!("several files have the name of function `{name}`: {quoted}");
    let problem = Diagnostic::error("name-clash", message);
    problem.in_file(directory).with_help("remove all but one")
}

fn full(group: Option<&str>, name: &str) -> Option<FunctionName> {
    let text = group.map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"));
    FunctionName::new(&text).ok()
}
