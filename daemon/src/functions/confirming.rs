//! Checks that files have not changed between the catalog and the spawner. The spawner reads them a moment after the
//! catalog's scan, and somebody may have begun to write in between, so its answer counts only if the files are still
//! the same. The catalog's thread checks this, since a directory on a network may be slow.

use crate::driver::State;
use fnd_wire::frame::{Installed, Refused};

/// The spawner's answer about a function's files.
#[derive(Debug)]
pub(crate) enum Judged {
    /// They are installed.
    Installed(Box<Installed>),
    /// They cannot be used.
    Refused(Box<Refused>),
}

impl State {
    /// Keeps the spawner's answer until the files were checked again.
    pub(crate) fn judged(&mut self, request: u32, judged: Judged) {
        if let Some(candidate) = self.functions.installer.candidate(request) {
            self.functions.catalog.confirm(request, candidate.clone());
            self.functions.judged.insert(request, judged);
        }
    }

    /// Handles the result of that check. If the files have changed, the answer is dropped: the catalog hands the files
    /// on again when they are complete.
    pub(crate) fn confirmed(&mut self, request: u32, same: bool) {
        match self.functions.judged.remove(&request) {
            Some(Judged::Installed(installed)) if same => self.installed(request, *installed),
            Some(Judged::Refused(refused)) if same => self.refused(request, *refused),
            Some(_) => {
                if let Some(candidate) = self.functions.installer.answered(request) {
                    self.functions.installer.is_final(&candidate.function);
                }
            }
            None => {} // checked twice: cannot happen, and does no harm
        }
    }
}
