//! Checks on the files themselves, as fnd-spawner makes them: who can write to them, where links lead, and which interpreter
//! is installed. The rules and the words are the same.

use crate::health::permissions::insecure_above;
use crate::health::runtimes::is_shim;
use crate::local::LocalPlaces;
use fnd_manifest::check::{Checked, CheckedSource, is_function};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::warning::Warning;
use fnd_wire::plan::Plan;
use fnd_wire::trust::{refusal, secure};
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The directories of functions, without links, and the user that installs them.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The functions directories of the installation.
    installed: Vec<PathBuf>,
    /// The directory that is judged, or that of the judged file.
    judged: Option<PathBuf>,
    /// Uid of the spawner.
    spawner: u32,
}

impl Ground {
    /// Returns the directories for a judged path.
    pub(crate) fn of(path: &Path, places: &LocalPlaces, user: bool) -> Self {
        // Else a directory is one function in directory form.
        let is_functions_directory = path.is_dir() && !is_function(path);
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let judged = if is_functions_directory {
            Some(absolute)
        } else {
            let inside = if path.ends_with("function.toml") {
                absolute.parent()
            } else {
                Some(absolute.as_path())
            };
            inside.and_then(Path::parent).map(Path::to_path_buf)
        };
        Self {
            installed: places
                .functions
                .iter()
                .filter_map(|directory| fs::canonicalize(directory).ok())
                .collect(),
            judged: judged.and_then(|directory| fs::canonicalize(directory).ok()),
            spawner: if user { rustix::process::geteuid().as_raw() } else { 0 },
        }
    }

    /// Returns the problems of files and interpreters.
    pub(crate) fn problems(&self, checked: &Checked) -> Vec<Diagnostic> {
        let mut problems = Vec::new();
        let mut told = BTreeSet::new();
        for source in &checked.sources {
            for file in &source.files {
                problems.extend(self.of_file(file, &mut told));
            }
            problems.extend(self.of_interpreter(source).err().map(|problem| *problem));
        }
        problems
    }

    fn of_file(&self, file: &str, told: &mut BTreeSet<PathBuf>) -> Option<Diagnostic> {
        let real = fs::canonicalize(file).ok()?;
        let mut bases = self.installed.iter().chain(&self.judged);
        let Some(base) = bases.find(|base| real.starts_with(base)) else {
            let (message, help) = refusal::leads_out(&real.display().to_string());
            return Some(Diagnostic::error("link", message).in_file(file).with_help(help));
        };
        let about = fs::metadata(&real).ok()?;
        let is_installed = self.installed.contains(base);
        let insecure = if about.mode() & 0o022 != 0 {
            Some(real.clone())
        } else if is_installed {
            insecure_above(real.parent()?, &[0, self.spawner, about.uid()])
        } else {
            // Directories above the judged one are not those of the place where the function will be.
            let above = real.ancestors().skip(1).take_while(|above| above.starts_with(base));
            let is_open = |about: Metadata| !secure(about.mode(), about.is_dir(), about.uid());
            above
                .filter(|above| fs::metadata(above).is_ok_and(is_open))
                // The outermost one, since its mode opens everything below it.
                .last()
                .map(Path::to_path_buf)
        }?;
        // One insecure directory is above many files, and is reported once.
        if !told.insert(insecure.clone()) {
            return None;
        }
        let (message, help) = refusal::insecure(&insecure.display().to_string());
        // In a working copy of a team, files of the group are usual, and copying them as root changes the mode.
        let is_usual = !is_installed && fs::metadata(&insecure).is_ok_and(|about| about.mode() & 0o002 == 0);
        let problem = if is_usual {
            Diagnostic::warning(Warning::InsecureMode, message)
        } else {
            Diagnostic::error("insecure-mode", message)
        };
        Some(problem.in_file(&insecure.display().to_string()).with_help(help))
    }

    /// Returns the interpreter that fnd would choose; nothing where the file is executed itself.
    pub(crate) fn of_interpreter(&self, source: &CheckedSource) -> Result<Option<PathBuf>, Box<Diagnostic>> {
        let Some(plan) = source.plan.as_ref().filter(|plan| !plan.interpreters.is_empty()) else {
            return Ok(None);
        };
        let file = source.files.first().map(String::as_str).unwrap_or_default();
        let owner = fs::metadata(file).map_or(self.spawner, |about| about.uid());
        match interpreter(plan, self.spawner, owner) {
            Ok(path) => Ok(Some(path)),
            Err(why_not) => {
                let message = refusal::no_interpreter(&plan.runtime, &why_not);
                let problem = Diagnostic::error("no-interpreter", message).in_file(file);
                Err(Box::new(problem.with_help(plan.interpreter_help.clone())))
            }
        }
    }
}

/// Returns the first interpreter that can be used, or why each one cannot.
fn interpreter(plan: &Plan, spawner: u32, owner: u32) -> Result<PathBuf, Vec<String>> {
    let mut why_not = Vec::new();
    for (at, path) in (0..).zip(&plan.interpreters) {
        // The interpreter of a `#!` line may belong to the owner of the file, any other one only to root or the
        // spawner's user.
        let owner = if at < plan.asked_interpreters { owner } else { spawner };
        match usable(Path::new(path), &[0, owner]) {
            Ok(()) => return Ok(PathBuf::from(path)),
            Err(why) => why_not.push(format!("`{path}` {why}")),
        }
    }
    Err(why_not)
}

fn usable(path: &Path, owners: &[u32]) -> Result<(), String> {
    let real = fs::canonicalize(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => refusal::MISSING.to_owned(),
        _ => format!("can't be found: {error}"),
    })?;
    if is_shim(path) || is_shim(&real) {
        return Err(refusal::SHIM.to_owned());
    }
    let about = fs::metadata(&real).map_err(|error| format!("can't be read: {error}"))?;
    if !about.is_file() || about.mode() & 0o111 == 0 {
        return Err(refusal::NOT_EXECUTABLE.to_owned());
    }
    // The directory of a link counts, too: whoever can write there can make the link name another program.
    let given_in = path
        .parent()
        .and_then(|directory| fs::canonicalize(directory).ok())
        .unwrap_or_default();
    match insecure_above(&real, owners).or_else(|| insecure_above(&given_in, owners)) {
        Some(insecure) => Err(refusal::not_safe(&insecure.display().to_string())),
        None => Ok(()),
    }
}
