//! One functions directory → the candidates in it with the state of their files. What a name stands for is core's
//! [`listing`] to say; this reads directories and stat results.

use super::scan::Candidate;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::manifest::forms::{self, Claims};
use fnd_core::manifest::listing::{Entry, EntryKind, Found as Listed, Place, listing};
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Most files of a function in directory form that are looked at; the spawner refuses more.
const TREE_MAX: usize = 10_000;
/// Most levels of directories in it.
const DEPTH_MAX: u32 = 32;

/// What tells one state of a function's files from another: a digest over each file's name, inode, size, mode and times.
/// Only whether to look again goes by it; whether content changed is for the spawner's hash to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    digest: u64,
    /// Newest modification of content, Unix milliseconds.
    pub(super) newest_ms: u64,
}

/// A candidate and the state of its files.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) candidate: Candidate,
    pub(super) signature: Signature,
}

/// What one directory holds.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) found: Vec<Found>,
    /// Functions that two files claim, with one of the candidates.
    pub(super) clashes: Vec<Candidate>,
    pub(super) problems: Vec<Diagnostic>,
    pub(super) unclaimed: Vec<String>,
}

/// What runtimes claim, and whether files without a suffix have a runtime by default.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Suffixes.
    pub claims: Claims,
    /// Whether `[defaults] runtime` is set.
    pub default_runtime: bool,
}

/// Walks a functions directory and its groups.
pub(super) fn walk(directory: u16, root: &Path, rules: &Rules) -> Walked {
    let mut walked = Walked::default();
    let mut groups = level(directory, root, None, rules, &mut walked);
    for group in groups.drain(..) {
        level(directory, root, Some(&group), rules, &mut walked);
    }
    walked
}

/// Looks at the root (no group) or at a group's directory; returns the groups in it.
fn level(directory: u16, root: &Path, group: Option<&str>, rules: &Rules, out: &mut Walked) -> Vec<String> {
    let path = group.map_or_else(|| root.to_owned(), |group| root.join(group));
    let items = match items(&path) {
        Ok(items) => items,
        // A functions directory that is not there (yet) has no functions; a group may vanish between two looks.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            let problem = Diagnostic::error("unreadable", format!("failed to read the functions directory: {error}"));
            let help = "let the user fnd runs as read and enter it";
            out.problems
                .push(problem.in_file(&path.display().to_string()).with_help(help));
            return Vec::new();
        }
    };
    let entries: Vec<Entry> = items.iter().map(|(entry, _)| entry.clone()).collect();
    let place = Place {
        path: &path.display().to_string(),
        group,
        claims: &rules.claims,
        default_runtime: rules.default_runtime,
    };
    let listed = listing(place, &entries, |name| is_program(&path.join(name)));
    let found = |name: &str| {
        items
            .binary_search_by(|(entry, _)| entry.name.as_slice().cmp(name.as_bytes()))
            .ok()
    };
    let metadata = |name: &str| found(name).and_then(|at| items.get(at)).map(|(_, metadata)| metadata);
    for function in listed.functions {
        let mut digest = Digest::default();
        if function.directory {
            digest.tree(&path.join(&function.source), "", DEPTH_MAX);
        }
        for name in [Some(&function.source), function.sidecar.as_ref()]
            .into_iter()
            .flatten()
        {
            if let Some(metadata) = metadata(name) {
                digest.add(name, metadata);
            }
        }
        let candidate = candidate(directory, group, function);
        out.found.push(Found {
            candidate,
            signature: digest.finish(),
        });
    }
    for (name, sources) in listed.clashes {
        let source = sources.into_iter().next().unwrap_or_default();
        let listed = Listed {
            name,
            source,
            sidecar: None,
            directory: false,
        };
        out.clashes.push(candidate(directory, group, listed));
    }
    out.problems.extend(listed.problems);
    out.unclaimed
        .extend(listed.unclaimed.iter().map(|name| relative(group, name)));
    listed.groups
}

fn candidate(directory: u16, group: Option<&str>, listed: Listed) -> Candidate {
    Candidate {
        function: listed.name,
        directory,
        source: relative(group, &listed.source),
        sidecar: listed.sidecar.map(|name| relative(group, &name)),
        directory_form: listed.directory,
    }
}

fn relative(group: Option<&str>, name: &str) -> String {
    group.map_or_else(|| name.to_owned(), |group| format!("{group}/{name}"))
}

/// Says whether a file begins as a program does. One that fnd may not read is left to the spawner, which may.
fn is_program(path: &Path) -> bool {
    let mut head = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut head)) {
        Ok(_) => forms::is_program(&head),
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// Returns a directory's entries by name. A symlink counts as what it points to and a dangling one as nothing that could
/// run; where links lead is for the spawner to check. What vanishes meanwhile is left out.
fn items(path: &Path) -> std::io::Result<Vec<(Entry, Metadata)>> {
    let mut items = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Ok(metadata) = fs::metadata(entry.path()).or_else(|_| entry.metadata()) else {
            continue;
        };
        let kind = if metadata.is_dir() {
            EntryKind::Directory {
                manifest: entry.path().join("function.toml").symlink_metadata().is_ok(),
            }
        } else if metadata.is_file() {
            EntryKind::File {
                executable: metadata.mode() & 0o111 != 0,
            }
        } else {
            EntryKind::Other
        };
        items.push((
            Entry {
                name: entry.file_name().into_vec(),
                kind,
            },
            metadata,
        ));
    }
    items.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(items)
}

#[derive(Default)]
struct Digest {
    hasher: DefaultHasher,
    newest_ms: u64,
    files: usize,
}

impl Digest {
    fn add(&mut self, name: &str, metadata: &Metadata) {
        name.hash(&mut self.hasher);
        (
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mode(),
            metadata.uid(),
        )
            .hash(&mut self.hasher);
        (
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        )
            .hash(&mut self.hasher);
        let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
        let millis = u64::try_from(metadata.mtime_nsec()).unwrap_or(0) / 1_000_000;
        self.newest_ms = self.newest_ms.max(seconds.saturating_mul(1_000).saturating_add(millis));
    }

    fn tree(&mut self, path: &Path, prefix: &str, depth: u32) {
        for (entry, metadata) in items(path).unwrap_or_default() {
            self.files += 1;
            if self.files > TREE_MAX {
                return;
            }
            let name = String::from_utf8_lossy(&entry.name);
            let shown = format!("{prefix}/{name}");
            self.add(&shown, &metadata);
            if metadata.is_dir() && depth > 0 && name != "__pycache__" && name != ".git" {
                self.tree(&path.join(&*name), &shown, depth - 1);
            }
        }
    }

    fn finish(self) -> Signature {
        Signature {
            digest: self.hasher.finish(),
            newest_ms: self.newest_ms,
        }
    }
}
