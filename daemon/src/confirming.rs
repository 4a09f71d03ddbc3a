//! What the spawner says of a function's files counts if they are still the files that were handed on: it reads them a moment
//! after the catalog's look, and somebody may have begun to write in between. The catalog's thread looks, since a directory on a
//! network may take its time.

use crate::driver::State;
use fnd_wire::frame::{Installed, Refused};

/// What the spawner said of a function's files.
#[derive(Debug)]
pub(crate) enum Judged {
    /// They are installed.
    Installed(Box<Installed>),
    /// They cannot be used.
    Refused(Box<Refused>),
}

impl State {
    /// Keeps what the spawner said until the files were looked at again.
    pub(crate) fn judged(&mut self, request: u32, judged: Judged) {
        if let Some(candidate) = self.installer.candidate(request) {
            self.catalog.confirm(request, candidate.clone());
            self.judged.insert(request, judged);
        }
    }

    /// The files were looked at again. Where they are others now, what was said of them is dropped: the catalog hands them on
    /// again when they are complete.
    pub(crate) fn confirmed(&mut self, request: u32, same: bool) {
        match self.judged.remove(&request) {
            Some(Judged::Installed(installed)) if same => self.installed(request, *installed),
            Some(Judged::Refused(refused)) if same => self.refused(request, *refused),
            Some(_) => {
                if let Some(candidate) = self.installer.answered(request) {
                    self.installer.is_final(&candidate.function);
                }
            }
            None => {} // asked twice: cannot be, and nothing is lost by it
        }
    }
}
