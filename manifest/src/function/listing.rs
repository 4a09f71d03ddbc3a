//! Finds the functions of a directory by the names in it: pairs manifests with code and finds clashes. The daemon's
//! scan and `fnd --check` share it.
//!
//! It opens no file; the caller lists the directory and follows symbolic links.

use super::forms::{self, Claims, FileForm};
use super::project;
use crate::diagnostic::Diagnostic;
use crate::warning::Warning;
use fnd_wire::ids::{FunctionName, NameError};
use fnd_wire::naming::is_foreign;
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
        /// Whether the directory contains `function.toml`.
        manifest: bool,
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
    let mut result = Listing::default();
    let mut sources: BTreeMap<FunctionName, Vec<(String, bool)>> = BTreeMap::new();
    let mut manifests: BTreeMap<FunctionName, String> = BTreeMap::new();
    let manifest_stems: HashSet<&[u8]> = entries
        .iter()
        .filter_map(|entry| entry.name.strip_suffix(b".toml"))
        .collect();
    let is_project =
        |entry: &DirectoryEntry| entry.name == project::FILE.as_bytes() && matches!(entry.kind, EntryKind::File { .. });
    if entries.iter().any(is_project) {
        result.problems.push(project::by_file(place.path));
    }
    let has_manifest = |stem: &str| manifest_stems.contains(stem.as_bytes());
    // `pyproject.toml` is skipped: it would count as the manifest of a function `pyproject`.
    for entry in entries.iter().filter(|entry| !is_project(entry)) {
        let shown = String::from_utf8_lossy(&entry.name).into_owned();
        let path = format!("{}/{shown}", place.path);
        let named = |name: Result<String, NameError>, problems: &mut Vec<Diagnostic>| match name {
            // In a group the whole name is another one: names of fnd's own functions have no group.
            Ok(name) if is_own(&name) && place.group.is_none() => {
                let message = format!("`{name}` is the name of a function of fnd's own");
                problems.push(
                    Diagnostic::error("bad-name", message)
                        .in_file(&path)
                        .with_help("rename it"),
                );
                None
            }
            Ok(name) => full(place.group, &name),
            Err(error) => {
                let problem = Diagnostic::error("bad-name", error.to_string()).in_file(&path);
                problems.push(problem.with_help("rename it"));
                None
            }
        };
        let form = match entry.kind {
            EntryKind::File { .. } => forms::file(&entry.name, place.claims),
            EntryKind::Directory { manifest } => {
                match forms::directory(&entry.name) {
                    None => {}
                    Some(name) if manifest => {
                        if let Some(name) = named(name, &mut result.problems) {
                            sources.entry(name).or_default().push((shown, true));
                        }
                    }
                    Some(_) if place.group.is_some() => {
                        let problem = Diagnostic::error("bad-name", "a group in a group: groups have only one level")
                            .in_file(&path);
                        result.problems.push(
                            problem.with_help("move it one directory up, or add `function.toml` if it is a function"),
                        );
                    }
                    Some(Ok(group)) => result.groups.push(group),
                    // No group can have this name, so the directory holds no functions. That is no error: it may be a
                    // directory of data.
                    Some(Err(_)) => result.unclaimed.push(shown),
                }
                continue;
            }
            EntryKind::Other => {
                if matches!(
                    forms::file(&entry.name, place.claims),
                    FileForm::Code(_) | FileForm::Archive(_) | FileForm::Manifest(_)
                ) {
                    let problem =
                        Diagnostic::error("not-a-file", "it is not a regular file, or is a link without target");
                    result
                        .problems
                        .push(problem.in_file(&path).with_help("remove it, or replace it by a file"));
                }
                continue;
            }
        };
        match form {
            FileForm::Ignored => {}
            FileForm::Code(name) | FileForm::Archive(name) => {
                if let Some(name) = named(name, &mut result.problems) {
                    sources.entry(name).or_default().push((shown, false));
                }
            }
            FileForm::Program { name, bare } => {
                let executable = entry.kind == EntryKind::File { executable: true };
                // A file whose name is not UTF-8 cannot be opened by its name here, so its first bytes are not checked.
                let unnameable = str::from_utf8(&entry.name).is_err();
                let claimed = (executable && (unnameable || ask(&shown, Question::IsProgram)))
                    || (bare && (place.default_runtime || name.as_ref().is_ok_and(|name| has_manifest(name))));
                if !claimed {
                    result.unclaimed.push(shown);
                // In another encoding the name may be fine, so its author expects a function.
                } else if unnameable {
                    let problem = Diagnostic::error("bad-name", "the name of this program is not UTF-8").in_file(&path);
                    result.problems.push(problem.with_help("rename it"));
                } else if let Some(name) = named(name, &mut result.problems) {
                    sources.entry(name).or_default().push((shown, false));
                }
            }
            FileForm::Manifest(name) => {
                if let Some(name) = named(name, &mut result.problems) {
                    manifests.insert(name, shown);
                }
            }
            FileForm::Foreign => {
                let names = match foreign(&shown) {
                    ListedYaml::Functions(names) => names,
                    ListedYaml::Broken => {
                        // Nobody knows its functions. Under its own name the file is installed, and the answer says
                        // what is wrong with it.
                        result.broken.push(shown.clone());
                        vec![stem(&shown).to_owned()]
                    }
                    ListedYaml::Other => {
                        result.unclaimed.push(shown);
                        continue;
                    }
                };
                for name in names {
                    if let Some(name) = named(forms::part(&name), &mut result.problems) {
                        sources.entry(name).or_default().push((shown.clone(), false));
                    }
                }
            }
            FileForm::Unclaimed => result.unclaimed.push(shown),
        }
    }
    for (name, mut found) in sources {
        let sidecar = manifests.remove(&name);
        // The order of a directory is any order; the message about a clash has always the same one.
        found.sort();
        match (found.as_slice(), &sidecar) {
            ([(file, directory)], None) | ([(file, directory @ false)], Some(_))
                // A file of another system says the manifest itself, so one beside it is a clash.
                if sidecar.is_none() || !is_foreign(file) =>
            {
                let directory = *directory;
                let source = found.swap_remove(0).0;
                result.functions.push(ListedFunction {
                    name,
                    source,
                    sidecar,
                    directory,
                });
            }
            _ => {
                let files: Vec<String> = found.into_iter().map(|(source, _)| source).chain(sidecar).collect();
                let problem = clash(place.path, &name, &files);
                result.clashes.push(Clash {
                    function: name,
                    files,
                    problem,
                });
            }
        }
    }
    for (name, manifest) in manifests {
        if ask(&manifest, Question::NamesSource) {
            result.functions.push(ListedFunction {
                name,
                source: manifest,
                sidecar: None,
                directory: false,
            });
            continue;
        }
        let problem =
            Diagnostic::error("no-code", "this manifest has no code").in_file(&format!("{}/{manifest}", place.path));
        let stem = manifest.strip_suffix(".toml").unwrap_or(&manifest);
        result.problems.push(problem.with_help(format!(
            "add the code beside it, such as `{stem}.py`, or `[source]` if it comes from elsewhere, or remove the manifest"
        )));
    }
    result.functions.sort();
    result.groups.sort();
    result.unclaimed.sort();
    result
}

/// Returns the diagnostic for several files that claim one function.
fn clash(directory: &str, name: &FunctionName, sources: &[String]) -> Diagnostic {
    let quoted: Vec<String> = sources.iter().map(|source| format!("`{source}`")).collect();
    let problem = Diagnostic::error(
        "name-clash",
        format!(
            "several files have the name of function `{name}`: {}",
            quoted.join(", ")
        ),
    );
    problem.in_file(directory).with_help("remove all but one")
}

fn full(group: Option<&str>, name: &str) -> Option<FunctionName> {
    let text = group.map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"));
    FunctionName::new(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims::of(&[".sh".to_owned(), ".py".to_owned()])
    }

    /// Lists entries by name. The end of a name sets the kind: `*` executable file, `/` directory, `/+` directory with
    /// a manifest, `|` FIFO.
    fn list(names: &[&str], group: Option<&str>) -> Listing {
        let entries: Vec<DirectoryEntry> = names
            .iter()
            .map(|name| {
                let kinds = [
                    ("/+", EntryKind::Directory { manifest: true }),
                    ("/", EntryKind::Directory { manifest: false }),
                    ("*", EntryKind::File { executable: true }),
                    ("|", EntryKind::Other),
                ];
                let found = kinds
                    .into_iter()
                    .find_map(|(end, kind)| Some((name.strip_suffix(end)?, kind)));
                let (name, kind) = found.unwrap_or((name, EntryKind::File { executable: false }));
                DirectoryEntry {
                    name: name.as_bytes().to_vec(),
                    kind,
                }
            })
            .collect();
        let place = ListedDirectory {
            path: "/f",
            group,
            claims: &claims(),
            default_runtime: false,
        };
        let answer = |name: &str, question| match question {
            Question::IsProgram => name != "data.bin",
            Question::NamesSource => name.contains("from"),
        };
        // A file of another system has the functions between the dots of its name.
        let foreign = |name: &str| {
            let names: Vec<&str> = name.split('.').collect();
            let names = names
                .split_last()
                .map_or(&[][..], |(_, names)| names)
                .iter()
                .map(|name| (*name).to_owned());
            match name {
                name if name.contains("none") => ListedYaml::Other,
                name if name.contains("broken") => ListedYaml::Broken,
                _ => ListedYaml::Functions(names.collect()),
            }
        };
        listing(place, &entries, answer, foreign)
    }

    fn found(listing: &Listing) -> Vec<String> {
        let one = |found: &ListedFunction| {
            format!(
                "{}={}{}",
                found.name,
                found.source,
                found.sidecar.as_deref().map_or(String::new(), |s| format!("+{s}"))
            )
        };
        listing.functions.iter().map(one).collect()
    }

    #[test]
    fn files_and_manifests_are_paired() {
        let listing = list(
            &[
                "a.sh",
                "a.toml",
                "b.py",
                "c/+",
                "ops/",
                "README.md",
                "tool*",
                "data.bin*",
                "lib.txt",
                "d",
                "d.toml",
                ".x.sh",
                "z.tar.gz",
                "z.toml",
                "zip.zip",
            ],
            None,
        );
        let expected = [
            "a=a.sh+a.toml",
            "b=b.py",
            "c=c",
            "d=d+d.toml",
            "tool=tool",
            "z=z.tar.gz+z.toml",
            "zip=zip.zip",
        ];
        assert_eq!(found(&listing), expected);
        assert_eq!(listing.groups, ["ops"]);
        assert_eq!(listing.unclaimed, ["README.md", "data.bin", "lib.txt"]);
        assert_eq!(listing.problems, []);
        assert_eq!(found(&list(&["a.sh"], Some("ops"))), ["ops/a=a.sh"]);
    }

    #[test]
    fn a_manifest_without_code_is_a_function_if_it_names_a_source() {
        let names = [
            "z.sh",
            "from.toml",
            "from-code.py",
            "from-code.toml",
            "alone.toml",
            "From.toml",
        ];
        let listing = list(&names, Some("ops"));
        let expected = [
            "ops/from=from.toml",
            "ops/from-code=from-code.py+from-code.toml",
            "ops/z=z.sh",
        ];
        assert_eq!(found(&listing), expected);
        let problems: Vec<&str> = listing.problems.iter().map(|problem| problem.code.as_str()).collect();
        assert_eq!(problems, ["bad-name", "no-code"]);
        let clash = list(&["from.toml", "from/+"], None);
        assert_eq!((clash.clashes.len(), clash.functions.len()), (1, 0));
    }

    /// The name may be valid in another encoding, so the person who put the file there expects a function.
    #[test]
    fn a_program_whose_name_is_not_utf_8_is_reported() {
        let entry = |name: &[u8], executable| DirectoryEntry {
            name: name.to_vec(),
            kind: EntryKind::File { executable },
        };
        let entries = [
            entry(b"caf\xe9", true),
            entry(b"caf\xe9.bin", true),
            // The part before the dot alone would be a valid name.
            entry(b"tool.s\xb7ml", true),
            entry(b"th\xe9", false),
        ];
        let place = ListedDirectory {
            path: "/f",
            group: None,
            claims: &claims(),
            default_runtime: false,
        };
        let listing = listing(
            place,
            &entries,
            |_, _| panic!("its path is not known"),
            |_| ListedYaml::Other,
        );
        let reported: Vec<_> = listing.problems.iter().map(|problem| problem.file.as_deref()).collect();
        let expected = ["/f/caf\u{fffd}", "/f/caf\u{fffd}.bin", "/f/tool.s\u{fffd}ml"];
        assert_eq!(reported, expected.map(Some));
        assert!(listing.problems.iter().all(|problem| problem.code == "bad-name"));
        assert_eq!(
            (listing.functions, listing.unclaimed),
            (vec![], vec!["th\u{fffd}".to_owned()])
        );
    }

    #[test]
    fn a_file_of_another_system_has_the_functions_that_it_names() {
        let listing = list(
            &[
                "a.b.yaml",
                "c.yml",
                "none.yaml",
                ".d.yaml",
                "e.yaml~",
                "c.toml",
                "Bad.yaml",
                "a.sh",
                "x.broken.yaml",
            ],
            Some("ops"),
        );
        assert_eq!(found(&listing), ["ops/b=a.b.yaml", "ops/x=x.broken.yaml"]);
        assert_eq!(listing.broken, ["x.broken.yaml"]);
        assert_eq!(listing.unclaimed, ["none.yaml"]);
        let clashes: Vec<_> = listing.clashes.iter().map(|clash| clash.files.clone()).collect();
        // It has no manifest beside it, and no other file has its name.
        assert_eq!(
            clashes,
            [
                vec!["a.b.yaml".to_owned(), "a.sh".to_owned()],
                vec!["c.yml".to_owned(), "c.toml".to_owned()]
            ]
        );
        assert_eq!(
            listing
                .problems
                .iter()
                .map(|problem| problem.code.as_str())
                .collect::<Vec<_>>(),
            ["bad-name"]
        );
    }

    #[test]
    fn a_python_project_is_one_warning() {
        let listing = list(&["a.py", "pyproject.toml"], Some("ops"));
        assert_eq!(found(&listing), ["ops/a=a.py"]);
        let [warning] = &listing.problems[..] else {
            panic!("{:?}", listing.problems);
        };
        assert_eq!(warning.kind(), Some(Warning::PythonProject));
        assert_eq!(warning.file.as_deref(), Some("/f"));
    }

    #[test]
    fn problems_are_reported() {
        let listing = list(
            &[
                "a.sh", "a.py", "b.toml", "C.sh", "d.sh|", "e.zip", "e.tgz", "f.py", "f/+", "g.sh", "H.zip", "i.tar|",
            ],
            None,
        );
        assert_eq!(found(&listing), ["g=g.sh"]);
        let lines: Vec<String> = listing
            .problems
            .iter()
            .map(|problem| format!("{} {}", problem.code, problem.file.clone().unwrap_or_default()))
            .collect();
        assert_eq!(
            lines,
            [
                "bad-name /f/C.sh",
                "not-a-file /f/d.sh",
                "bad-name /f/H.zip",
                "not-a-file /f/i.tar",
                "no-code /f/b.toml",
            ]
        );
        assert_eq!(listing.clashes[0].files, ["a.py", "a.sh"]);
        let clashes: Vec<&str> = listing
            .clashes
            .iter()
            .map(|clash| clash.problem.code.as_str())
            .collect();
        assert_eq!(clashes, ["name-clash", "name-clash", "name-clash"]);
        assert_eq!(list(&["x/"], Some("ops")).problems[0].code, "bad-name");
        assert_eq!(list(&["a/+", "a.toml"], None).clashes[0].problem.code, "name-clash");
    }
}
