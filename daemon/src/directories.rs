//! What follows from functions directories that cannot be read: nothing of theirs is taken for deleted.
//!
//! At the start this means that the first scan is not the last word: work of functions that are not there, their status files,
//! their installed versions and their history wait until every directory was read. What goes by that asks
//! [`Supervisor::is_scanned`](fnd_core::supervisor::Supervisor::is_scanned).

use crate::catalog::{AWAY, Rescan};
use crate::driver::State;
use crate::problems::Problem;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::supervisor::Event;

/// What could not be looked at.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// At the last look.
    now: Vec<Diagnostic>,
    /// The scan whose end says what was deleted before the start, where the first one could not say it.
    deciding: Option<u64>,
}

impl Unread {
    /// Returns what could not be looked at.
    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.now
    }

    /// Says whether what is known by now is all there is.
    pub(crate) fn is_nothing(&self) -> bool {
        self.now.is_empty() && self.deciding.is_none()
    }

    /// Returns what people are told.
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
    /// Takes over what a look could not look at.
    pub(crate) fn looked(&mut self, unread: Vec<Diagnostic>) {
        let readable = unread.is_empty() && !self.unread.now.is_empty();
        self.unread.now = unread;
        if readable && !self.supervisor.is_scanned() {
            // Everything can be read for the first time: what is found now has to be installed before anything is given up.
            let number = self.installer.new_scan();
            self.catalog.rescan(number, Rescan::default());
            self.unread.deciding = Some(number);
        }
    }

    /// Decides what was deleted before the start once the scan that can say it is over.
    pub(crate) fn decide(&mut self) {
        let over = |number: u64| self.installer.is_settled(number);
        if self.unread.deciding.is_some_and(over) {
            self.unread.deciding = None;
            if self.unread.now.is_empty() {
                self.step(Event::Scanned { whole: true });
                self.all_known();
            }
        }
    }

    /// Every function that there is, is known: what is left of others goes.
    pub(crate) fn all_known(&mut self) {
        if self.supervisor.is_scanned() {
            self.forget_statuses();
            self.prune_all();
            self.sweep();
            self.retain();
        }
    }
}
