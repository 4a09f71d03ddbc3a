//! What the functions of a directory are, from the names in it (contract, section 2): pairs manifests with code, finds
//! clashes. The daemon's scan and `fnd --check` share it.
//!
//! It opens nothing; whoever lists the directory has followed symbolic links.

use super::forms::{self, Claims, FileForm};
use crate::diagnostic::Diagnostic;
use fnd_wire::ids::{FunctionName, NameError};
use std::collections::{BTreeMap, HashSet};

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// What has that name, links followed.
    pub kind: EntryKind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Whether somebody may execute it.
        executable: bool,
    },
    /// A directory.
    Directory {
        /// Whether it holds `function.toml`.
        manifest: bool,
    },
    /// A FIFO, a socket, a device, a link that leads nowhere.
    Other,
}

/// A function that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name.
    pub name: FunctionName,
    /// The name in the directory: code, or the directory of the directory form.
    pub source: String,
    /// The name of the manifest beside it; of the file form only.
    pub sidecar: Option<String>,
    /// Whether it is the directory form.
    pub directory: bool,
}

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Functions, by name.
    pub functions: Vec<Listed>,
    /// Groups, by name; listed by themselves.
    pub groups: Vec<String>,
    /// Files no rule claims: no functions, and no errors.
    pub unclaimed: Vec<String>,
    /// Functions several files claim: names of the sources of each. None of them is in `functions`, the one already serving
    /// keeps serving.
    pub clashes: Vec<(FunctionName, Vec<String>)>,
    /// What is wrong, clashes included.
    pub problems: Vec<Diagnostic>,
}

/// Where a directory is, and what is known for all of it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its path, for diagnostics.
    pub path: &'a str,
    /// The group it is; none at the top.
    pub group: Option<&'a str>,
    /// What runtimes claim.
    pub claims: &'a Claims,
    /// Whether `[defaults] runtime` is set.
    pub default_runtime: bool,
}

/// Returns what a directory holds. `is_program` is asked for executable files of no known suffix whether their first bytes
/// are [`forms::is_program`].
pub fn listing(place: Place<'_>, entries: &[Entry], mut is_program: impl FnMut(&str) -> bool) -> Listing {
    let mut result = Listing::default();
    let mut sources: BTreeMap<FunctionName, Vec<(String, bool)>> = BTreeMap::new();
    let mut manifests: BTreeMap<FunctionName, String> = BTreeMap::new();
    let manifest_stems: HashSet<&[u8]> = entries
        .iter()
        .filter_map(|entry| entry.name.strip_suffix(b".toml"))
        .collect();
    let has_manifest = |stem: &str| manifest_stems.contains(stem.as_bytes());
    for entry in entries {
        let shown = String::from_utf8_lossy(&entry.name).into_owned();
        let path = format!("{}/{shown}", place.path);
        let named = |name: Result<String, NameError>, problems: &mut Vec<Diagnostic>| match name {
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
                        let problem =
                            Diagnostic::error("bad-name", "a group in a group: groups have one level").in_file(&path);
                        result
                            .problems
                            .push(problem.with_help("move it up, or add `function.toml` if it is a function"));
                    }
                    Some(Ok(group)) => result.groups.push(group),
                    // Not a group anybody could name: no function in it, and no error of a directory full of data.
                    Some(Err(_)) => result.unclaimed.push(shown),
                }
                continue;
            }
            EntryKind::Other => {
                if matches!(
                    forms::file(&entry.name, place.claims),
                    FileForm::Code(_) | FileForm::Manifest(_)
                ) {
                    let problem =
                        Diagnostic::error("not-a-file", "it is not a regular file, or a link that leads nowhere");
                    result.problems.push(
                        problem
                            .in_file(&path)
                            .with_help("remove it, or put a file in its place"),
                    );
                }
                continue;
            }
        };
        match form {
            FileForm::Ignored => {}
            FileForm::Code(name) => {
                if let Some(name) = named(name, &mut result.problems) {
                    sources.entry(name).or_default().push((shown, false));
                }
            }
            FileForm::Program { name, bare } => {
                let executable = entry.kind == EntryKind::File { executable: true };
                // Nobody can open a file by a name that is not UTF-8: whether it is a program is not looked at.
                let unnameable = str::from_utf8(&entry.name).is_err();
                let claimed = (executable && (unnameable || is_program(&shown)))
                    || (bare && (place.default_runtime || name.as_ref().is_ok_and(|name| has_manifest(name))));
                if !claimed {
                    result.unclaimed.push(shown);
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
            FileForm::Archive(_) => {
                let problem = Diagnostic::error("not-supported-yet", "archives are not supported yet").in_file(&path);
                result
                    .problems
                    .push(problem.with_help("unpack it into a directory with `function.toml`"));
            }
            FileForm::Unclaimed => result.unclaimed.push(shown),
        }
    }
    for (name, mut found) in sources {
        let sidecar = manifests.remove(&name);
        found.sort();
        match (found.as_slice(), &sidecar) {
            ([(_, directory)], None) | ([(_, directory @ false)], Some(_)) => {
                let directory = *directory;
                let source = found.swap_remove(0).0;
                result.functions.push(Listed {
                    name,
                    source,
                    sidecar,
                    directory,
                });
            }
            _ => {
                let names: Vec<String> = found.into_iter().map(|(source, _)| source).chain(sidecar).collect();
                result.problems.push(clash(place.path, &name, &names));
                result.clashes.push((name, names));
            }
        }
    }
    for (_, manifest) in manifests {
        let problem = Diagnostic::error("no-code", "there is no code for this manifest")
            .in_file(&format!("{}/{manifest}", place.path));
        let stem = manifest.strip_suffix(".toml").unwrap_or(&manifest);
        result
            .problems
            .push(problem.with_help(format!("put it beside, such as `{stem}.py`, or remove the manifest")));
    }
    result.groups.sort();
    result.unclaimed.sort();
    result
}

/// Returns the diagnostic of several files for one function.
fn clash(directory: &str, name: &FunctionName, sources: &[String]) -> Diagnostic {
    let quoted: Vec<String> = sources.iter().map(|source| format!("`{source}`")).collect();
    let problem = Diagnostic::error(
        "name-clash",
        format!("function `{name}` is there more than once: {}", quoted.join(", ")),
    );
    problem.in_file(directory).with_help("keep one of them")
}

fn full(group: Option<&str>, name: &str) -> Option<FunctionName> {
    let text = group.map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"));
    FunctionName::new(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::RuntimeSummary;

    fn claims() -> Claims {
        let runtime = RuntimeSummary {
            id: "any".into(),
            description: String::new(),
            suffixes: vec![".sh".into(), ".py".into()],
            aliases: vec![],
            versions: vec![],
            enabled: true,
        };
        Claims::of([&runtime])
    }

    /// Names: `*` behind one is executable, `/` a directory, `/+` one with a manifest, `|` a FIFO.
    fn list(names: &[&str], group: Option<&str>) -> Listing {
        let entries: Vec<Entry> = names
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
                Entry {
                    name: name.as_bytes().to_vec(),
                    kind,
                }
            })
            .collect();
        let place = Place {
            path: "/f",
            group,
            claims: &claims(),
            default_runtime: false,
        };
        listing(place, &entries, |name| name != "data.bin")
    }

    fn found(listing: &Listing) -> Vec<String> {
        let one = |found: &Listed| {
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
            ],
            None,
        );
        assert_eq!(
            found(&listing),
            ["a=a.sh+a.toml", "b=b.py", "c=c", "d=d+d.toml", "tool=tool"]
        );
        assert_eq!(listing.groups, ["ops"]);
        assert_eq!(listing.unclaimed, ["README.md", "data.bin", "lib.txt"]);
        assert_eq!(listing.problems, []);
        assert_eq!(found(&list(&["a.sh"], Some("ops"))), ["ops/a=a.sh"]);
    }

    /// Its name may be right in another encoding, so whoever put it there expects a function.
    #[test]
    fn a_program_whose_name_is_not_utf_8_is_told() {
        let entry = |name: &[u8], executable| Entry {
            name: name.to_vec(),
            kind: EntryKind::File { executable },
        };
        let entries = [
            entry(b"caf\xe9", true),
            entry(b"caf\xe9.bin", true),
            // The part before the dot alone would be a name.
            entry(b"tool.s\xb7ml", true),
            entry(b"th\xe9", false),
        ];
        let place = Place {
            path: "/f",
            group: None,
            claims: &claims(),
            default_runtime: false,
        };
        let listing = listing(place, &entries, |_| panic!("its path is not known"));
        let told: Vec<_> = listing.problems.iter().map(|problem| problem.file.as_deref()).collect();
        let expected = ["/f/caf\u{fffd}", "/f/caf\u{fffd}.bin", "/f/tool.s\u{fffd}ml"];
        assert_eq!(told, expected.map(Some));
        assert!(listing.problems.iter().all(|problem| problem.code == "bad-name"));
        assert_eq!(
            (listing.functions, listing.unclaimed),
            (vec![], vec!["th\u{fffd}".to_owned()])
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        let listing = list(
            &[
                "a.sh", "a.py", "b.toml", "C.sh", "d.sh|", "e.zip", "f.py", "f/+", "g.sh",
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
                "not-supported-yet /f/e.zip",
                "name-clash /f",
                "name-clash /f",
                "no-code /f/b.toml",
            ]
        );
        assert_eq!(listing.clashes[0].1, ["a.py", "a.sh"]);
        assert_eq!(list(&["x/"], Some("ops")).problems[0].code, "bad-name");
        assert_eq!(list(&["a/+", "a.toml"], None).problems[0].code, "name-clash");
    }
}
