//! The report of a reload: what it changed, and the problems that the reload before did not report. A problem belongs to
//! a function or, such as a bad name, to a file that is none.

use super::Functions;
use fnd_core::api::ReloadReport;
use fnd_core::lifecycle::Lifecycle;
use fnd_core::lifecycle::function::Function;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::listing::unclaimed;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;

/// The newest version of each function.
pub(crate) type Newest = BTreeMap<FunctionName, Option<Version>>;

/// The problems that a reload reported.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// Of each function with a problem.
    functions: BTreeMap<FunctionName, (Option<String>, Vec<Diagnostic>)>,
    /// Of files that are no function.
    files: Vec<Diagnostic>,
}

/// Returns the newest version of each function.
pub(crate) fn versions_now(lifecycle: &Lifecycle) -> Newest {
    let newest = |function: &Function| function.newest.as_ref().map(|newest| newest.version);
    let each = lifecycle.registry.iter();
    each.map(|(name, function)| (name.clone(), newest(function))).collect()
}

impl Functions {
    /// Remembers the problems of now: the next reload only names the functions that still have them. Not the problems
    /// from before that reload: fnd may find those of a new file a moment before somebody asks for a reload.
    pub(crate) fn report_problems(&mut self, lifecycle: &Lifecycle) -> Problems {
        let problems = lifecycle.registry.iter().filter_map(|(name, function)| {
            let calls = lifecycle.calls_to_nobody(name);
            let diagnostics: Vec<_> = function.findings.diagnostics.iter().chain(calls).cloned().collect();
            let error = function.findings.error.clone();
            (error.is_some() || !diagnostics.is_empty()).then(|| (name.clone(), (error, diagnostics)))
        });
        let problems = Problems {
            functions: problems.collect(),
            files: self
                .name_problems
                .iter()
                .chain(&self.projects)
                .cloned()
                .chain(self.unclaimed.paths.iter().map(|path| unclaimed(path)))
                .collect(),
        };
        std::mem::replace(&mut self.reported, problems)
    }

    /// Returns the report of a reload that is over, without the configuration. `before` are the versions before it.
    pub(crate) fn report(&mut self, lifecycle: &Lifecycle, before: &Newest) -> ReloadReport {
        let after = versions_now(lifecycle);
        let reported = self.report_problems(lifecycle);
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
        let new = self.reported.files.iter().filter(|file| !reported.files.contains(file));
        report.diagnostics.extend(new.cloned());
        for (name, problems) in &self.reported.functions {
            if reported.functions.get(name) != Some(problems) {
                report.diagnostics.extend_from_slice(&problems.1);
            } else if problems.0.is_some() {
                report.still_invalid.push(name.clone());
            }
        }
        report
    }
}
