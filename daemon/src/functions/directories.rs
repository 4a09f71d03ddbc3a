//! Functions directories and files that cannot be read, or are being written: none of their functions counts as deleted.
//!
//! At the start this means that the first scan does not decide alone: work of functions that are not there, their
//! status files, their installed versions and their history wait until every directory was read. Code that depends on
//! this checks [`Supervisor::is_scanned`](fnd_core::run::Supervisor::is_scanned).

use crate::functions::Functions;
use crate::functions::catalog::{AWAY, Rescan};
use crate::report::problems::ReportedProblem;
use fnd_core::lifecycle::installer::Installer;
use fnd_manifest::diagnostic::Diagnostic;

/// The directories and files that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// The problems that the last scan reported.
    pub(super) now: Vec<Diagnostic>,
    /// The scan whose end decides what was deleted before the start, where the first scan could not.
    deciding: Option<u64>,
}

impl Unread {
    /// Returns the problems to report.
    pub(crate) fn problems(&self) -> impl Iterator<Item = ReportedProblem> {
        self.now.iter().map(|diagnostic| {
            let code = if diagnostic.code == AWAY {
                "directory-away"
            } else {
                "functions-unread"
            };
            ReportedProblem::about(code, diagnostic.file.clone().unwrap_or_default(), diagnostic.text())
        })
    }
}

impl Functions {
    /// Stores what the last scan could not read. `scanned`: it is decided what was deleted before the start.
    pub(crate) fn set_unread(&mut self, unread: Vec<Diagnostic>, scanned: bool, installer: &mut Installer) {
        let readable = unread.is_empty() && !self.unread.now.is_empty();
        self.unread.now = unread;
        if readable && !scanned {
            // Everything can be read for the first time. The functions seen now must be installed before others count
            // as deleted.
            self.decide_later(installer);
        }
    }

    /// Has another scan decide what was deleted before the start.
    fn decide_later(&mut self, installer: &mut Installer) {
        let number = installer.new_scan();
        self.catalog.rescan(number, Rescan::default());
        self.unread.deciding = Some(number);
    }

    /// Returns whether every function is known when a scan that was asked for is settled. If not, another scan decides.
    pub(crate) fn are_known(&mut self, installer: &mut Installer) -> bool {
        if installer.take_given_up() {
            self.decide_later(installer);
        }
        self.unread.now.is_empty() && self.unread.deciding.is_none()
    }

    /// Returns whether the deciding scan is over and everything was read: then functions that it did not find were
    /// deleted before the start.
    pub(crate) fn has_decided(&mut self, installer: &mut Installer) -> bool {
        let over = self.unread.deciding.take_if(|number| installer.is_settled(*number));
        over.is_some() && self.are_known(installer)
    }
}
