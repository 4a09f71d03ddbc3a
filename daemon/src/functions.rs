//! What fnd knows of each function beside its runs: its newest content as judged, and the version that serves.

use crate::catalog::Candidate;
use fnd_core::diagnostic::{Diagnostic, Severity};
use fnd_core::judge::Verdict;
use fnd_core::manifest::Manifest;
use fnd_wire::frame::{Installed, Problem, Refused};
use fnd_wire::ids::{FunctionId, FunctionName, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// An installed version.
#[derive(Debug, Clone)]
pub struct Serving {
    /// Its number at the spawner.
    pub id: FunctionId,
    /// The version.
    pub version: Version,
    /// What "once per content" goes by.
    pub load_key: Version,
    /// Its manifest.
    pub manifest: Rc<Manifest>,
    /// Why it is run the way it is.
    pub mode_reason: String,
    /// Runtime for people: `python 3.11`.
    pub runtime: String,
    /// Interpreter, real path; empty where the entry is executed itself.
    pub interpreter: String,
    /// Uid it runs as.
    pub uid: u32,
}

/// A function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Where it lies.
    pub candidate: Candidate,
    /// The newest version that was installed, if one was. It serves, unless it is tried first.
    pub newest: Option<Serving>,
    /// What served when that came: it still does while the newest is tried.
    pub before: Option<Serving>,
    /// The interpreters that the newest content can be run by, in order of choice.
    pub interpreters: Vec<String>,
    /// Problems and warnings of the newest content.
    pub diagnostics: Vec<Diagnostic>,
    /// Why the newest content does not serve, in one line.
    pub error: Option<String>,
}

impl Function {
    /// Returns the version that serves, as the supervisor names it.
    #[must_use]
    pub fn serving(&self, version: Option<Version>) -> Option<&Serving> {
        let before = self.before.as_ref();
        before
            .filter(|before| Some(before.version) == version)
            .or(self.newest.as_ref())
    }
}

/// Every function by name.
#[derive(Debug, Default)]
pub struct Functions {
    all: BTreeMap<FunctionName, Function>,
    /// Whether there is something to tell since [`Functions::take_changed`].
    changed: bool,
}

impl Functions {
    /// Returns a function.
    #[must_use]
    pub fn get(&self, name: &FunctionName) -> Option<&Function> {
        self.all.get(name)
    }

    /// Returns all, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&FunctionName, &Function)> {
        self.all.iter()
    }

    /// Returns the interpreters that any function can be run by.
    #[must_use]
    pub fn interpreters(&self) -> BTreeSet<&str> {
        let all = self.all.values().flat_map(|function| &function.interpreters);
        all.map(String::as_str).collect()
    }

    /// Says whether something changed since this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Forgets a function.
    pub fn remove(&mut self, name: &FunctionName) {
        self.changed = true;
        self.all.remove(name);
    }

    /// Takes over an installed version; `serves` is the one that served until now.
    pub fn installed(
        &mut self,
        candidate: Candidate,
        installed: Installed,
        verdict: Verdict,
        serves: Option<Version>,
    ) -> Option<&Serving> {
        let mut diagnostics = verdict.diagnostics;
        diagnostics.extend(
            installed
                .warnings
                .into_iter()
                .map(|problem| diagnostic(problem, Severity::Warning)),
        );
        let manifest = Rc::new(verdict.manifest?);
        let version = verdict.runtime_version.or_else(|| version_in(&installed.interpreter));
        let runtime = match version {
            Some(version) => format!("{} {version}", manifest.runtime),
            None => manifest.runtime.clone(),
        };
        let serving = Serving {
            id: installed.id,
            version: installed.version,
            load_key: installed.load_key,
            manifest,
            mode_reason: verdict.mode_reason,
            runtime,
            interpreter: installed.interpreter,
            uid: installed.uid,
        };
        let name = candidate.function.clone();
        let known = self
            .all
            .remove(&name)
            .map(|function| [function.newest, function.before]);
        let mut known = known.into_iter().flatten().flatten();
        let before = known.find(|known| Some(known.version) == serves && known.version != serving.version);
        self.changed = true;
        self.all.insert(
            name.clone(),
            Function {
                candidate,
                newest: Some(serving),
                before,
                interpreters: verdict.interpreters,
                diagnostics,
                error: None,
            },
        );
        self.all.get(&name).and_then(|function| function.newest.as_ref())
    }

    /// Takes over a refusal; what served goes on. Returns the error in one line.
    pub fn refused(&mut self, candidate: Candidate, refused: Refused, verdict: Option<Verdict>) -> String {
        let (judged, interpreters) = verdict
            .map(|verdict| (verdict.diagnostics, verdict.interpreters))
            .unwrap_or_default();
        let found = refused
            .problems
            .into_iter()
            .map(|problem| diagnostic(problem, Severity::Error));
        self.unusable(candidate, interpreters, found.chain(judged).collect())
    }

    /// Takes over why a function's newest content cannot serve; what served goes on. Returns the error in one line.
    pub fn unusable(
        &mut self,
        candidate: Candidate,
        interpreters: Vec<String>,
        diagnostics: Vec<Diagnostic>,
    ) -> String {
        let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        let error = first.map_or_else(|| "it was refused without a reason".to_owned(), Diagnostic::line);
        let known = self.all.remove(&candidate.function);
        let (newest, before) = known.map(|known| (known.newest, known.before)).unwrap_or_default();
        let name = candidate.function.clone();
        let error_line = Some(error.clone());
        self.changed = true;
        self.all.insert(
            name,
            Function {
                candidate,
                newest,
                before,
                interpreters,
                diagnostics,
                error: error_line,
            },
        );
        error
    }
}

/// Returns a problem of the spawner as the judge would say it.
pub(crate) fn diagnostic(problem: Problem, severity: Severity) -> Diagnostic {
    Diagnostic {
        severity,
        code: "file".into(),
        file: Some(problem.file),
        place: None,
        message: problem.message,
        help: Some(problem.help).filter(|help| !help.is_empty()),
        notes: Vec::new(),
    }
}

/// Returns the version an interpreter's file name tells: `3.11` of `/usr/bin/python3.11`.
fn version_in(interpreter: &str) -> Option<String> {
    let name = interpreter.rsplit('/').next()?;
    let version = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let is_version = version.contains('.') && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_tells_its_version_by_its_name() {
        assert_eq!(version_in("/usr/bin/python3.11").as_deref(), Some("3.11"));
        assert_eq!(version_in("/usr/bin/bash"), None);
        assert_eq!(version_in("/usr/bin/python3"), None);
        assert_eq!(version_in(""), None);
    }
}
