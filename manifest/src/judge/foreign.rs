//! Judges functions that were made of files of other systems.

use super::{Judge, Judged, judged};
use crate::diagnostic::Diagnostic;
use crate::foreign::MadeManifest;
use crate::foreign::made::ORIGINS;
use crate::foreign::placed::{Origins, as_installed};
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{CodeLayout, JudgeFunction, JudgedFile};

impl Judge {
    /// Returns the verdict on the files of a function, also on one that was made of a foreign file.
    #[must_use]
    pub fn function(&self, function: &JudgeFunction) -> Judged {
        self.made_or_own(function, false)
    }

    /// Returns the verdict on a stored version of a function. A group that the configuration has no more does not refuse it.
    #[must_use]
    pub fn stored(&self, function: &JudgeFunction) -> Judged {
        self.made_or_own(function, true)
    }

    fn made_or_own(&self, function: &JudgeFunction, is_stored: bool) -> Judged {
        let found = function.files.iter().position(|file| file.path == ORIGINS);
        match found.filter(|_| matches!(function.form, CodeLayout::Foreign(_) | CodeLayout::Source)) {
            Some(index) => self.foreign(function, index, is_stored),
            None => self.own(function, is_stored),
        }
    }

    /// Judges a function that was made and is not installed yet, as fnd does when it is installed; problems are at the
    /// fields that they come from.
    #[must_use]
    pub fn made(&self, made: &MadeManifest) -> Vec<Diagnostic> {
        let Ok(name) = FunctionName::new(&made.name) else {
            return Vec::new();
        };
        let files = as_installed(made.clone()).into_iter();
        let files: Vec<JudgedFile> = files
            .map(|file| judged(&file.path, file.bytes, file.executable))
            .collect();
        let manifest = files.iter().find(|file| file.path == "function.toml").cloned();
        let form = CodeLayout::Foreign(String::new());
        let judged = self.function(&JudgeFunction {
            name,
            files,
            manifest,
            form,
        });
        judged.verdict.diagnostics
    }

    /// Judges a function that was made of a foreign file; its problems are at the fields of that file.
    fn foreign(&self, function: &JudgeFunction, origins: usize, is_stored: bool) -> Judged {
        let mut function = function.clone();
        let origins = Origins::read(&function.files.remove(origins).bytes.0);
        if matches!(function.form, CodeLayout::Foreign(_)) {
            function.form = CodeLayout::Directory;
        }
        let mut judged = self.own(&function, is_stored);
        if origins.is_refused() {
            (judged.plan, judged.build, judged.verdict.manifest) = (None, None, None);
            judged.verdict.diagnostics.clear(); // without a manifest there are only problems of that
        }
        judged.verdict.diagnostics = origins.place(judged.verdict.diagnostics);
        judged
    }
}
