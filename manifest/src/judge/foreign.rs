//! Judges functions that were made of files of other systems.

use super::{Judge, Judged};
use crate::foreign::placed::{ORIGINS, Origins};
use fnd_wire::plan::{CodeLayout, JudgeFunction};

impl Judge {
    /// Returns the verdict on a function, also on one that was made of a foreign file.
    #[must_use]
    pub fn function(&self, function: &JudgeFunction) -> Judged {
        let found = function.files.iter().position(|file| file.path == ORIGINS);
        match found.filter(|_| matches!(function.form, CodeLayout::Foreign(_) | CodeLayout::Source)) {
            Some(index) => self.foreign(function, index),
            None => self.own(function),
        }
    }

    /// Judges a function that was made of a foreign file; its problems are at the fields of that file.
    fn foreign(&self, function: &JudgeFunction, origins: usize) -> Judged {
        let mut function = function.clone();
        let origins = Origins::read(&function.files.remove(origins).bytes.0);
        if matches!(function.form, CodeLayout::Foreign(_)) {
            function.form = CodeLayout::Directory;
        }
        let mut judged = self.own(&function);
        if origins.is_refused() {
            (judged.plan, judged.build, judged.verdict.manifest) = (None, None, None);
            judged.verdict.diagnostics.clear(); // without a manifest there are only problems of that
        }
        judged.verdict.diagnostics = origins.place(judged.verdict.diagnostics);
        judged
    }
}
