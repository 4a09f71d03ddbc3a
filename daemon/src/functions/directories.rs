//! Functions directories that cannot be read: none of their functions counts as deleted.
//!
//! At the start this means that the first scan does not decide alone: work of functions that are not there, their
//! status files, their installed versions and their history wait until every directory was read. Code that depends on
//! this checks [`Supervisor::is_scanned`](fnd_core::supervisor::Supervisor::is_scanned).

use crate::driver::State;
use crate::functions::catalog::{AWAY, Rescan};
use crate::report::problems::Problem;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::supervisor::Event;

/// The directories and files that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Those of the last scan.
    now: Vec<Diagnostic>,
    /// The scan whose end decides what was deleted before the start, where the first scan could not.
    deciding: Option<u64>,
}

impl Unread {
    /// Returns a diagnostic for each that could not be read.
    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.now
    }

    /// Returns whether everything was read, so that all functions are known.
    pub(crate) fn is_nothing(&self) -> bool {
        self.now.is_empty() && self.deciding.is_none()
    }

    /// Returns the problems to report.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.now.iter().map(|diagnostic| {
            let code = if diagnostic.code == AWAY {
                "directory-away"
            } else {
                "functions-unread"
            };
            Problem::about(code, diagnostic.file.clone().unwrap_or_default(), diagnostic.line())
        })
    }
}

impl State {
    /// Stores what the last scan could not read.
    pub(crate) fn set_unread(&mut self, unread: Vec<Diagnostic>) {
        let readable = unread.is_empty() && !self.functions.unread.now.is_empty();
        self.functions.unread.now = unread;
        if readable && !self.supervisor.is_scanned() {
            // Everything can be read for the first time. The functions seen now must be installed before others count
            // as deleted.
            let number = self.functions.installer.new_scan();
            self.functions.catalog.rescan(number, Rescan::default());
            self.functions.unread.deciding = Some(number);
        }
    }

    /// Decides what was deleted before the start, once the deciding scan is over.
    pub(crate) fn decide(&mut self) {
        let over = |number: u64| self.functions.installer.is_settled(number);
        if self.functions.unread.deciding.is_some_and(over) {
            self.functions.unread.deciding = None;
            if self.functions.unread.now.is_empty() {
                self.step(Event::Scanned { whole: true });
                self.all_known();
            }
        }
    }

    /// Removes what is left of functions that are gone: every function that exists is known.
    pub(crate) fn all_known(&mut self) {
        if self.supervisor.is_scanned() {
            self.forget_statuses();
            self.prune_all();
            self.sweep();
            self.retain();
        }
    }
}
