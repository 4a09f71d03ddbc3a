//! The report of a reload: what it changed, and the problems that the reload before did not report. A problem belongs to
//! a function or, such as a bad name, to a file that is none.

use super::Functions;
use fnd_core::api::ReloadReport;
use fnd_core::lifecycle::Lifecycle;
use fnd_core::lifecycle::function::Function;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::listing::unclaimed;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The version of each function that serves.
type Serving = BTreeMap<FunctionName, Option<Version>>;

/// The state when a reload begins.
#[derive(Debug)]
pub(crate) struct BeforeReload {
    serving: Serving,
    /// The problems that were reported by then. Another reload that ends meanwhile reports to its own caller. Absent before the first
    /// scan is over.
    reported: Option<Rc<Problems>>,
}

/// The problems that a reload reported.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// Of each function with a problem.
    functions: BTreeMap<FunctionName, FunctionProblems>,
    /// Of files that are no function.
    files: Vec<Diagnostic>,
}

/// The problems of a function.
#[derive(Debug)]
struct FunctionProblems {
    /// Why its file was refused.
    error: Option<String>,
    /// The version that could not be loaded, and why.
    not_loaded: Option<(Version, Diagnostic)>,
    diagnostics: Vec<Diagnostic>,
}

impl FunctionProblems {
    fn of(lifecycle: &Lifecycle, (name, function): (&FunctionName, &Function), dirs: &[String]) -> Self {
        let error = function.findings.error.clone();
        // A file that was refused is newer than a version that could not be loaded.
        let not_loaded = lifecycle.not_loaded(name, dirs).filter(|_| error.is_none());
        let calls = lifecycle.calls_to_nobody(name);
        Self {
            error,
            not_loaded,
            diagnostics: function.findings.diagnostics.iter().chain(calls).cloned().collect(),
        }
    }

    /// Returns whether the function cannot serve its file.
    fn is_invalid(&self) -> bool {
        self.error.is_some() || self.not_loaded.is_some()
    }

    /// Returns whether these are the problems of another reload. Each trial of one version may fail with other words.
    fn are(&self, other: &Self) -> bool {
        let version = |problems: &Self| problems.not_loaded.as_ref().map(|(version, _)| *version);
        self.error == other.error && self.diagnostics == other.diagnostics && version(self) == version(other)
    }
}

/// Returns the version of each function that serves.
fn versions_now(lifecycle: &Lifecycle) -> Serving {
    let each = lifecycle.registry.iter();
    each.map(|(name, _)| (name.clone(), lifecycle.live(name))).collect()
}

impl Functions {
    /// Remembers the problems of now: the next reload only names the functions that still have them. Not the problems
    /// from before that reload: fnd may find those of a new file a moment before somebody asks for a reload. `dirs` are the
    /// functions directories.
    pub(crate) fn report_problems(&mut self, lifecycle: &Lifecycle, dirs: &[String]) {
        self.reported = Some(Rc::new(self.problems(lifecycle, dirs)));
    }

    /// Returns the state before a reload.
    pub(crate) fn before_reload(&self, lifecycle: &Lifecycle) -> BeforeReload {
        BeforeReload {
            serving: versions_now(lifecycle),
            reported: self.reported.clone(),
        }
    }

    fn problems(&self, lifecycle: &Lifecycle, dirs: &[String]) -> Problems {
        let problems = lifecycle.registry.iter().filter_map(|(name, function)| {
            let problems = FunctionProblems::of(lifecycle, (name, function), dirs);
            let has_some = problems.is_invalid() || !problems.diagnostics.is_empty();
            has_some.then(|| (name.clone(), problems))
        });
        Problems {
            functions: problems.collect(),
            files: self
                .name_problems
                .iter()
                .chain(&self.projects)
                .cloned()
                .chain(self.unclaimed.paths.iter().map(|path| unclaimed(path)))
                .collect(),
        }
    }

    /// Returns the report of a reload that is over, without the configuration. The newer versions of the functions of `undecided`
    /// are still being tried.
    pub(crate) fn report(
        &mut self,
        lifecycle: &Lifecycle,
        dirs: &[String],
        (before, undecided): (&BeforeReload, BTreeSet<FunctionName>),
    ) -> ReloadReport {
        let (before, reported) = (&before.serving, before.reported.clone());
        let after = versions_now(lifecycle);
        let reported = reported.or_else(|| self.reported.take()).unwrap_or_default();
        let mut problems = self.problems(lifecycle, dirs);
        let mut report = ReloadReport {
            removed: before
                .keys()
                .filter(|name| !after.contains_key(*name))
                .cloned()
                .collect(),
            diagnostics: self.unread.now.clone(),
            ..ReloadReport::default()
        };
        // A new function that was refused has no version.
        let changed = after
            .into_iter()
            .filter(|(name, version)| before.get(name).unwrap_or(&None) != version);
        report.applied = changed.map(|(name, _)| name).collect();
        let new = problems.files.iter().filter(|file| !reported.files.contains(file));
        report.diagnostics.extend(new.cloned());
        // A trial before this one has failed. The next reload reports how this one ends.
        let functions = &mut problems.functions;
        functions.retain(|name, problems| problems.not_loaded.is_none() || !undecided.contains(name));
        for (name, problems) in &*functions {
            let before = reported.functions.get(name);
            if !before.is_some_and(|before| before.are(problems)) {
                let load = problems.not_loaded.iter().map(|(_, problem)| problem);
                report
                    .diagnostics
                    .extend(problems.diagnostics.iter().chain(load).cloned());
            } else if problems.is_invalid() {
                report.still_invalid.push(name.clone());
            }
        }
        self.reported = Some(Rc::new(problems));
        report.trying = undecided.into_iter().collect();
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_fails_again_with_other_words_is_no_news() {
        let problems = |version: u8, why: &str| FunctionProblems {
            error: None,
            not_loaded: Some((Version([version; 32]), Diagnostic::error("load", why))),
            diagnostics: Vec::new(),
        };
        let before = problems(1, "no such module (process 7)");
        assert!(before.are(&problems(1, "no such module (process 8)")));
        assert!(!before.are(&problems(2, "no such module (process 7)")), "an edit");
        assert!(before.is_invalid());
    }
}
