//! Reads one functions directory and returns its candidates with the state of their files. Core's [`listing`] decides
//! what a name means; this module reads directories and stat results.
//!
//! A part that cannot be read does not count as missing: it puts in doubt the functions that could be there.

use super::presence::{DirectoryIdentity, Doubts, Observed};
use fnd_core::lifecycle::SourceFiles;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::{self, yaml};
use fnd_manifest::function::forms::{self, Claims, FileForm};
use fnd_manifest::function::listing::{
    DirectoryEntry, EntryKind, ListedDirectory, ListedFunction, ListedYaml, Question, listing, stem,
};
use fnd_manifest::regular_file;
use fnd_manifest::warning::Warning;
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::{BOOTSTRAP, is_foreign};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, Read};
use std::iter;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The code of the diagnostic for a part that cannot be read.
pub(super) const UNREADABLE: &str = "unreadable";

/// The end of the name of a secret that lies encrypted beside functions.
pub(super) const ENCRYPTED: &[u8] = b".age";

/// Most files of a function in directory form that are checked; the spawner refuses more.
const TREE_MAX: usize = 10_000;
/// Most levels of directories in it.
const DEPTH_MAX: u32 = 32;

/// Distinguishes states of a function's files: a digest over the name, inode, size, mode and times of each file. It
/// decides only whether to install again; the spawner's hash decides whether the content changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    digest: u64,
    /// Newest time at which content was modified, Unix milliseconds.
    pub(super) newest_ms: u64,
}

/// A candidate and the state of its files.
#[derive(Debug)]
pub(super) struct CandidateState {
    pub(super) candidate: SourceFiles,
    pub(super) signature: Signature,
}

/// The contents of one directory.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The result of reading the directory itself.
    pub(super) observed: Observed,
    /// Its groups that were read, each with its identity and whether it holds no function.
    pub(super) groups: Vec<(String, DirectoryIdentity, bool)>,
    pub(super) found: Vec<CandidateState>,
    /// Paths of files of other systems that cannot be read: nobody knows which functions they have.
    pub(super) broken: Vec<String>,
    /// At most [`PROBLEMS_MAX`] problems, and one that counts the others.
    pub(super) findings: Findings,
    more_problems: usize,
    /// Encrypted secrets beside functions, each with a digest of its state.
    pub(super) encrypted: Vec<(PathBuf, u64)>,
    /// The unknown parts; `findings` says why they are unknown.
    pub(super) doubts: Doubts,
}

/// All that people have to know about the files of directories besides the functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Problems with names and places.
    pub problems: Vec<Diagnostic>,
    /// Functions that two files claim, with one of the candidates; the version that serves a function continues to serve it.
    pub clashes: Vec<(SourceFiles, Diagnostic)>,
    /// Files that no rule makes a function.
    pub unclaimed: Unclaimed,
    /// Parts that could not be read: functions that are not known may be there.
    pub unread: Vec<Diagnostic>,
}

impl Findings {
    /// Adds those of another directory.
    pub(super) fn extend(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.clashes.extend(other.clashes);
        self.unclaimed.paths.extend(other.unclaimed.paths);
        self.unclaimed.more += other.unclaimed.more;
        self.unread.extend(other.unread);
    }
}

/// Files that no rule makes a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unclaimed {
    /// At most [`PROBLEMS_MAX`] of each functions directory.
    pub paths: Vec<String>,
    /// How many others there are.
    pub more: usize,
}

impl Unclaimed {
    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::try_from(self.paths.len().saturating_add(self.more)).unwrap_or(u64::MAX)
    }
}

/// Returns the directories that a file marks as a Python project.
pub(crate) fn marked(problems: &[Diagnostic]) -> impl Iterator<Item = &str> {
    let projects = problems
        .iter()
        .filter(|problem| problem.kind() == Some(Warning::PythonProject));
    projects.filter_map(|problem| problem.file.as_deref())
}

/// The suffixes that runtimes claim, and whether files without a suffix have a default runtime.
#[derive(Debug, Clone, Default)]
pub struct WalkRules {
    /// The suffixes that runtimes claim.
    pub claims: Claims,
    /// Whether `[defaults] runtime` is set.
    pub default_runtime: bool,
    /// The directory of uploads. A file there makes only the function that it is named for, and the files beside it are of
    /// other uploads; empty: there is none.
    pub uploads: PathBuf,
}

/// Most problems and unclaimed files that are kept of a directory: a problem is some 500 bytes, and any number of files
/// may have bad names.
const PROBLEMS_MAX: usize = 100;

/// Walks a functions directory and its groups.
pub(super) fn walk(directory: u16, root: &Path, rules: &WalkRules) -> Walked {
    let mut walked = Walked::default();
    let read = identity(root).and_then(|before| Ok((before, level(directory, root, None, rules, &mut walked)?)));
    let (before, groups) = match read {
        Ok(read) => read,
        Err(error) => {
            walked.observed = failed(&error);
            return walked;
        }
    };
    let functions_in =
        |walked: &Walked| walked.found.len() + walked.findings.clashes.len() + walked.doubts.functions.len();
    for group in groups {
        let path = root.join(&group);
        // A group with nothing but clashes or unreadable files is not empty: people have functions in it.
        let functions = functions_in(&walked);
        let observed = identity(&path).and_then(|identity| {
            level(directory, &path, Some(&group), rules, &mut walked)?;
            Ok(identity)
        });
        match observed {
            Ok(identity) => {
                let is_empty = functions_in(&walked) == functions;
                walked.groups.push((group, identity, is_empty));
            }
            // The group was removed after it was listed.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                walked.findings.unread.push(unread(&path, &error));
                walked.doubts.groups.insert(group);
            }
        }
    }
    // If the directory was replaced or unmounted in the meantime, the contents come partly from one and partly from the
    // other.
    walked.observed = match identity(root) {
        Ok(after) if after == before => Observed::Read {
            identity: before,
            empty: walked.found.is_empty() && walked.findings.clashes.is_empty() && walked.doubts.is_empty(),
        },
        Ok(_) => Observed::Unreadable("it was replaced while it was read".into()),
        Err(error) => failed(&error),
    };
    if walked.more_problems > 0 {
        let message = format!("{} more problems with names in this directory", walked.more_problems);
        let problem = Diagnostic::error("more", message).with_help("`fndctl doctor` lists them all");
        walked
            .findings
            .problems
            .push(problem.in_file(&root.display().to_string()));
    }
    walked
}

/// Returns the identity of the directory at a path; follows links.
pub(super) fn identity(path: &Path) -> io::Result<DirectoryIdentity> {
    let metadata = fs::metadata(path)?;
    Ok(DirectoryIdentity {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

fn failed(error: &io::Error) -> Observed {
    match error.kind() {
        ErrorKind::NotFound => Observed::Missing,
        _ => Observed::Unreadable(error.to_string()),
    }
}

fn unread(path: &Path, error: &io::Error) -> Diagnostic {
    let problem = Diagnostic::error(UNREADABLE, format!("failed to read it: {error}"));
    let help = "give the user of fnd the right to read and enter it, and check its file system; known functions stay until then";
    problem.in_file(&path.display().to_string()).with_help(help)
}

/// Reads the root (no group) or the directory `path` of a group; returns the groups in it.
fn level(
    directory: u16,
    path: &Path,
    group: Option<&str>,
    rules: &WalkRules,
    out: &mut Walked,
) -> io::Result<Vec<String>> {
    let Items { items, mut unknown } = items(path)?;
    for (entry, metadata) in &items {
        if entry.name.ends_with(ENCRYPTED) && metadata.is_file() {
            let mut digest = Digest::default();
            digest.add("", metadata);
            let path = path.join(OsStr::from_bytes(&entry.name));
            out.encrypted.push((path, digest.finish().digest));
        }
    }
    let entries: Vec<DirectoryEntry> = items.iter().map(|(entry, _)| entry.clone()).collect();
    let place = ListedDirectory {
        path: &path.display().to_string(),
        group,
        claims: &rules.claims,
        default_runtime: rules.default_runtime,
    };
    let ask = |name: &str, question| {
        answer(&path.join(name), question).unwrap_or_else(|error| {
            unknown.push((name.as_bytes().to_vec(), error));
            false
        })
    };
    // Nobody knows which functions an unreadable file has, so the whole directory counts as unreadable.
    let mut failed = None;
    let uploads = is_of_uploads(path, group, rules);
    let foreign = |name: &str| match functions_of(&path.join(name)) {
        Ok(listed) if uploads => listed.of_upload(stem(name)),
        Ok(listed) => listed,
        Err(error) => {
            failed = Some(error);
            ListedYaml::Other
        }
    };
    let listed = listing(place, &entries, ask, foreign);
    if let Some(error) = failed {
        return Err(error);
    }
    let metadata = |name: &str| {
        let found = items.binary_search_by(|(entry, _)| entry.name.as_slice().cmp(name.as_bytes()));
        found.ok().and_then(|at| items.get(at)).map(|(_, metadata)| metadata)
    };
    for function in listed.functions {
        let mut digest = Digest::default();
        if function.directory
            && let Err(error) = digest.tree(&path.join(&function.source), "", DEPTH_MAX)
        {
            unknown.push((function.source.clone().into_bytes(), error));
        }
        // A function of such a file may refer to objects in the files beside it.
        if !function.directory && is_foreign(&function.source) && !uploads {
            for (entry, metadata) in &items {
                digest.add_foreign(entry, metadata);
            }
        }
        for name in iter::once(&function.source).chain(&function.sidecar) {
            if let Some(metadata) = metadata(name) {
                digest.add(name, metadata);
            }
        }
        let candidate = candidate(directory, group, function);
        out.found.push(CandidateState {
            candidate,
            signature: digest.finish(),
        });
    }
    out.broken
        .extend(listed.broken.iter().map(|name| relative(group, name)));
    let findings = &mut out.findings;
    for clash in listed.clashes {
        let listed = ListedFunction {
            name: clash.function,
            source: clash.files.into_iter().next().unwrap_or_default(),
            sidecar: None,
            directory: false,
        };
        findings
            .clashes
            .push((candidate(directory, group, listed), clash.problem));
    }
    let room = PROBLEMS_MAX.saturating_sub(findings.problems.len());
    out.more_problems += listed.problems.len().saturating_sub(room);
    findings.problems.extend(listed.problems.into_iter().take(room));
    let room = PROBLEMS_MAX.saturating_sub(findings.unclaimed.paths.len());
    findings.unclaimed.more += listed.unclaimed.len().saturating_sub(room);
    let unclaimed = listed.unclaimed.iter().take(room);
    let shown = |name: &String| format!("{}/{name}", place.path);
    findings.unclaimed.paths.extend(unclaimed.map(shown));
    // A name that cannot belong to a function, such as `lost+found`, does not matter.
    unknown.retain(|(name, _)| doubt(name, group, rules, &mut out.doubts));
    unknown.sort_by(|(a, _), (b, _)| a.cmp(b));
    // Report one for all: a failing disk can cause one for each file.
    if let Some((name, error)) = unknown.first() {
        let mut problem = unread(&path.join(OsStr::from_bytes(name)), error);
        if let Some(others) = unknown.len().checked_sub(1).filter(|others| *others > 0) {
            problem.message = format!("{} ({others} more beside it)", problem.message);
        }
        findings.unread.push(problem);
    }
    Ok(listed.groups)
}

/// Puts in doubt every function that a name could belong to; returns whether there is one.
fn doubt(name: &[u8], group: Option<&str>, rules: &WalkRules, doubts: &mut Doubts) -> bool {
    let of_file = match forms::file(name, &rules.claims) {
        FileForm::Code(name) | FileForm::Archive(name) | FileForm::Program { name, .. } | FileForm::Manifest(name) => {
            name.ok()
        }
        FileForm::Ignored | FileForm::Unclaimed | FileForm::Foreign => None,
    };
    let of_directory = forms::directory(name).and_then(Result::ok);
    let any = of_file.is_some() || of_directory.is_some();
    let full = |name: &String| FunctionName::new(&relative(group, name)).ok();
    let names = [&of_file, &of_directory].into_iter().flatten();
    doubts.functions.extend(names.filter_map(full));
    if group.is_none() {
        doubts.groups.extend(of_directory);
    }
    any
}

fn candidate(directory: u16, group: Option<&str>, listed: ListedFunction) -> SourceFiles {
    SourceFiles {
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

/// Says whether a level is of the directory of uploads.
fn is_of_uploads(path: &Path, group: Option<&str>, rules: &WalkRules) -> bool {
    let root = if group.is_some() { path.parent() } else { Some(path) };
    root == Some(&rules.uploads)
}

/// Returns the state of a candidate's files, as [`walk`] would return it.
pub(super) fn signature(root: &Path, candidate: &SourceFiles, rules: &WalkRules) -> io::Result<Signature> {
    let mut digest = Digest::default();
    if candidate.directory_form {
        digest.tree(&root.join(&candidate.source), "", DEPTH_MAX)?;
    }
    if !candidate.directory_form && is_foreign(&candidate.source) && root != rules.uploads {
        let place = candidate.source.rsplit_once('/').map_or("", |(group, _)| group);
        for (entry, metadata) in &items(&root.join(place))?.items {
            digest.add_foreign(entry, metadata);
        }
    }
    for path in iter::once(&candidate.source).chain(&candidate.sidecar) {
        let name = path.rsplit('/').next().unwrap_or(path);
        digest.add(name, &fs::metadata(root.join(path))?);
    }
    Ok(digest.finish())
}

/// Answers a question about a file. If fnd may not read it, the answer is yes: the spawner may read it, and checks.
fn answer(path: &Path, question: Question) -> io::Result<bool> {
    let mut head = Vec::new();
    let most = u64::try_from(question.bytes()).unwrap_or(u64::MAX);
    match regular_file::open(path).and_then(|file| file.take(most).read_to_end(&mut head)) {
        Ok(_) => Ok(question.answer(&head)),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(true),
        Err(error) if is_absent(&error) || is_exchanged(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds the functions in a file of another system; there are none if fnd may not read it.
fn functions_of(path: &Path) -> io::Result<ListedYaml> {
    let mut bytes = Vec::new();
    // One byte more than the limit shows that the file is too large.
    let most = u64::try_from(yaml::FILE_MAX).unwrap_or(u64::MAX).saturating_add(1);
    match regular_file::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Ok(_) => Ok(foreign::listed(&path.display().to_string(), &bytes)),
        // The owner of one file must not put the whole directory in doubt: its functions stay as they were.
        Err(error) if error.kind() == ErrorKind::WouldBlock || is_exchanged(&error) => Ok(ListedYaml::Broken),
        Err(error) if error.kind() == ErrorKind::PermissionDenied || is_absent(&error) => Ok(ListedYaml::Other),
        Err(error) => Err(error),
    }
}

/// The entries of a directory.
#[derive(Default)]
struct Items {
    /// Sorted by name.
    items: Vec<(DirectoryEntry, Metadata)>,
    /// Names that could not be read.
    unknown: Vec<(Vec<u8>, io::Error)>,
}

/// Returns a directory's entries. A symlink counts as its target, and a dangling symlink as an entry that cannot run;
/// the spawner checks where links lead. Entries that vanish in the meantime are left out.
fn items(path: &Path) -> io::Result<Items> {
    let mut found = Items::default();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().into_vec();
        match item(&entry.path()) {
            Ok(Some((kind, metadata))) => found.items.push((DirectoryEntry { name, kind }, metadata)),
            Ok(None) => {}
            Err(error) => found.unknown.push((name, error)),
        }
    }
    // The digest of a tree must not depend on the order of a directory, and `level` searches by name.
    found.items.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(found)
}

/// Reads one entry; nothing if it does not exist any more.
fn item(path: &Path) -> io::Result<Option<(EntryKind, Metadata)>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            return match fs::symlink_metadata(path) {
                Ok(link) if link.is_symlink() && is_absent(&error) => Ok(Some((EntryKind::Other, link))),
                Err(gone) if is_absent(&gone) => Ok(None),
                // The entry exists, but its kind cannot be read.
                Ok(_) | Err(_) => Err(error),
            };
        }
    };
    let kind = if metadata.is_dir() {
        EntryKind::Directory {
            // A link that leads nowhere is a manifest that cannot be read, and not a missing one.
            function: match path.join("function.toml").symlink_metadata() {
                Ok(_) => true,
                Err(error) if is_absent(&error) => is_program(&path.join(BOOTSTRAP))?,
                Err(error) => return Err(error),
            },
        }
    } else if metadata.is_file() {
        EntryKind::File {
            executable: metadata.mode() & 0o111 != 0,
        }
    } else {
        EntryKind::Other
    };
    Ok(Some((kind, metadata)))
}

/// Says whether an executable file is there.
fn is_program(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file() && metadata.mode() & 0o111 != 0),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether an error means that a regular file became something else after it was listed.
fn is_exchanged(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

/// Returns whether an error means that the file does not exist, not that it cannot be reached.
fn is_absent(error: &io::Error) -> bool {
    // The standard library's name for `ELOOP` is not stable.
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
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
            // The spawner refuses a file because of its owner or its mode, so a change of one of them is a change of
            // the function.
            metadata.mode(),
            metadata.uid(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            // A program can set the time of modification, but not this one (inode(7)).
            metadata.ctime(),
            metadata.ctime_nsec(),
        )
            .hash(&mut self.hasher);
        let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
        let millis = u64::try_from(metadata.mtime_nsec()).unwrap_or(0) / 1_000_000;
        self.newest_ms = self.newest_ms.max(seconds.saturating_mul(1_000).saturating_add(millis));
    }

    /// Adds an entry that a function of another system may name.
    fn add_foreign(&mut self, entry: &DirectoryEntry, metadata: &Metadata) {
        if let Ok(name) = str::from_utf8(&entry.name)
            && is_foreign(name)
        {
            self.add(name, metadata);
        }
    }

    /// Adds the contents of a directory. Leaves out entries that fnd may not read: the spawner may, and compares
    /// content.
    fn tree(&mut self, path: &Path, prefix: &str, depth: u32) -> io::Result<()> {
        let Items { items, unknown } = match items(path) {
            Err(error) if is_absent(&error) || error.kind() == ErrorKind::PermissionDenied => return Ok(()),
            read => read?,
        };
        let is_denied = |(_, error): &(_, io::Error)| error.kind() == ErrorKind::PermissionDenied;
        if let Some((_, error)) = unknown.into_iter().find(|unknown| !is_denied(unknown)) {
            return Err(error);
        }
        for (entry, metadata) in items {
            self.files += 1;
            if self.files > TREE_MAX {
                return Ok(());
            }
            let name = String::from_utf8_lossy(&entry.name);
            let shown = format!("{prefix}/{name}");
            self.add(&shown, &metadata);
            // The spawner leaves these two directories out of a function, so a change in them changes nothing.
            if metadata.is_dir() && depth > 0 && name != "__pycache__" && name != ".git" {
                self.tree(&path.join(&*name), &shown, depth - 1)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Signature {
        Signature {
            digest: self.hasher.finish(),
            newest_ms: self.newest_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_that_became_a_fifo_holds_up_no_scan() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["f.py", "f.yaml"] {
            mkfifoat(CWD, directory.path().join(name), Mode::RUSR | Mode::WUSR).unwrap();
        }
        for question in [Question::IsProgram, Question::NamesSource] {
            assert!(!answer(&directory.path().join("f.py"), question).unwrap());
        }
        let listed = functions_of(&directory.path().join("f.yaml")).unwrap();
        assert!(matches!(listed, ListedYaml::Broken));
    }

    #[test]
    fn a_directory_is_a_function_by_its_manifest_or_by_an_executable_bootstrap() {
        let directory = tempfile::tempdir().unwrap();
        for (file, mode, expected) in [
            ("function.toml", 0o644, true),
            ("bootstrap", 0o755, true),
            ("bootstrap", 0o644, false),
            ("main.sh", 0o755, false),
        ] {
            let path = directory.path().join(format!("{file}-{mode:o}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join(file), "").unwrap();
            fs::set_permissions(path.join(file), fs::Permissions::from_mode(mode)).unwrap();
            let (kind, _) = item(&path).unwrap().unwrap();
            assert_eq!(kind, EntryKind::Directory { function: expected }, "{file}");
        }
    }
}
