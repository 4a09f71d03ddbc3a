//! Judges the files of an upload before they replace others, as `fndctl validate` does, so that a mistake touches nothing.
//! The spawner decides afterwards: it alone sees modes, owners and interpreters.

use fnd_manifest::check::{Checked, CheckedFiles, Disk, check_functions, judge};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::{self, yaml};
use fnd_manifest::function::listing::{DirectoryEntry, EntryKind, ListedYaml};
use fnd_wire::archive::{ArchiveRefusal, Format};
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::is_foreign;
use fnd_wire::plan::JudgedFile;
use std::path::Path;

/// Most functions that an upload should not make and that are named.
const OTHERS_MAX: usize = 10;

/// Reads files of the disk and says of each that it is not trusted, so that an uploaded manifest cannot grant itself more.
struct Untrusted;

impl CheckedFiles for Untrusted {
    fn list(&self, directory: &str) -> Result<Vec<DirectoryEntry>, String> {
        Disk.list(directory)
    }

    fn read(&self, path: &str, max: usize) -> Result<Vec<u8>, String> {
        Disk.read(path, max)
    }

    fn kind(&self, path: &str) -> Result<EntryKind, String> {
        Disk.kind(path)
    }

    fn unpack(&self, path: &str, format: Format) -> Result<Vec<JudgedFile>, ArchiveRefusal> {
        Disk.unpack(path, format)
    }

    fn trusted(&self) -> bool {
        false
    }
}

/// Returns the problems of the only function in a directory, with the paths that its files will have below `root`.
/// Without errors, the files are those of that function. If fnd may not read the configuration, the spawner alone judges.
pub(crate) fn problems(
    (config, runtimes): &(String, Vec<String>),
    function: &FunctionName,
    staged: &Path,
    root: &Path,
) -> Vec<Diagnostic> {
    // The spawner judges the files again in any case, so nothing is admitted by this.
    let (Some(judge), _) = judge(&Disk, config, runtimes) else {
        return Vec::new();
    };
    let (staged, root) = (staged.display().to_string(), root.display().to_string());
    let files = foreign_files(function, &staged);
    let mut problems = others(function, &files);
    // Each function of a file is judged with all of it, so a file of many would cost much.
    if problems.is_empty() {
        let checked = check_functions(&judge, &Untrusted, &staged);
        problems.extend(checked.all().cloned());
        let is_it = checked.verdicts.iter().any(|verdict| verdict.function == *function);
        if !is_it && !problems.iter().any(Diagnostic::is_error) {
            problems.push(unclaimed(&checked));
        }
        if !problems.iter().any(Diagnostic::is_error) {
            problems.extend(unattached(function, &files));
        }
    }
    for problem in &mut problems {
        let texts = [problem.file.as_mut(), problem.help.as_mut(), Some(&mut problem.message)];
        texts
            .into_iter()
            .flatten()
            .for_each(|text| *text = text.replace(&staged, &root));
    }
    problems
}

/// Returns the files of other systems in an upload: path and content.
fn foreign_files(function: &FunctionName, staged: &str) -> Vec<(String, Vec<u8>)> {
    let directory = match function.group() {
        Some(group) => format!("{staged}/{group}"),
        None => staged.to_owned(),
    };
    let entries = Disk.list(&directory).unwrap_or_default().into_iter();
    let names = entries.filter_map(|entry| String::from_utf8(entry.name).ok());
    let paths = names
        .filter(|name| is_foreign(name))
        .map(|name| format!("{directory}/{name}"));
    // Judging one that cannot be read says why.
    let read = |path: String| Disk.read(&path, yaml::FILE_MAX + 1).ok().map(|bytes| (path, bytes));
    paths.filter_map(read).collect()
}

/// Returns the problems of a file that makes functions which it is not named for: its sender may perhaps not change them, and
/// they would have no upload of their own.
fn others(function: &FunctionName, files: &[(String, Vec<u8>)]) -> Vec<Diagnostic> {
    let own = function.as_str().rsplit('/').next().unwrap_or_default();
    let mut problems = Vec::new();
    for (path, bytes) in files {
        if let ListedYaml::Functions(found) = foreign::listed(path, bytes) {
            let others = found.iter().filter(|other| *other != own).take(OTHERS_MAX);
            problems.extend(others.map(|other| another(function, other).in_file(path)));
        }
    }
    problems
}

/// Returns the problems of objects that name a function outside of the upload, such as an `HTTPTrigger`: they would have no
/// effect, because an upload changes one function.
fn unattached(function: &FunctionName, files: &[(String, Vec<u8>)]) -> Vec<Diagnostic> {
    let documents = files
        .iter()
        .filter_map(|(path, bytes)| yaml::documents(path, bytes).ok());
    let (_, report) = foreign::functions(&documents.flatten().collect::<Vec<_>>());
    let help = format!(
        "an upload changes only `{function}`: upload this object with the function that it names, or remove it"
    );
    let problems = report.diagnostics().into_iter().filter(Diagnostic::is_error);
    problems.map(|problem| problem.with_help(&help)).collect()
}

fn another(function: &FunctionName, other: &str) -> Diagnostic {
    let message = format!("the upload of `{function}` also makes the function `{other}`");
    let help = format!("upload `{other}` by itself; `fndctl deploy FILE.yaml` uploads each function of a file");
    Diagnostic::error("other-function", message).with_help(&help)
}

fn unclaimed(checked: &Checked) -> Diagnostic {
    let help = "name the file with a suffix of a runtime (`fndctl runtimes`), or begin it with a `#!` line";
    let problem = Diagnostic::error(
        "no-function",
        "by its name and its first line, this file is no function",
    )
    .with_help(help);
    match checked.unclaimed.first() {
        Some(file) => problem.in_file(file),
        None => problem,
    }
}
