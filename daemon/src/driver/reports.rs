//! Reports events, and writes status files.

use super::Driver;
use crate::chain;
use crate::report::changed_by;
use fnd_core::report::ReportEvent;
use fnd_wire::ids::FunctionName;

impl Driver {
    pub(crate) fn report(&mut self, event: ReportEvent<'_>) {
        self.reporter.report(event);
        if let Some(function) = changed_by(event) {
            self.write_status_soon(function);
        }
    }

    /// Reports that the status of a function has changed, and checks its alerts, whose conditions are facts of the status.
    pub(super) fn status_changed(&mut self, function: &FunctionName) {
        self.check_facts(function);
        self.report(ReportEvent::StatusChanged(function));
    }

    /// Removes the status files of functions that went away while fnd was not running.
    pub(crate) fn forget_statuses(&mut self) {
        let known = self.supervisor.functions().map(|view| view.name.clone()).collect();
        if let Err(error) = self.reporter.status_files.keep_only(&known) {
            tracing::warn!("{}", chain(&error));
        }
    }

    /// Writes a function's status file now, or with its next changes if it was just written.
    fn write_status_soon(&mut self, function: &FunctionName) {
        if self.reporter.status_files.changed(function, self.clock.now().mono) {
            self.write_status(function);
        }
    }

    /// Replaces a function's status file, or removes it where the function is gone.
    pub(crate) fn write_status(&mut self, function: &FunctionName) {
        let status = self.function_status(function);
        // The status shows that an attempt has ended, which is when the home of the function may have grown.
        status.iter().for_each(|status| self.quota_after(status));
        let written = match status {
            Some(status) => self.reporter.status_files.write(&status),
            // The function may only not be installed yet. The end of the first scan removes the files of functions that
            // are gone.
            None if !self.supervisor.is_scanned() => return,
            None => self.reporter.status_files.remove(function),
        };
        let mono = self.clock.now().mono;
        if self.reporter.status_files.tried(function, mono, written.is_ok())
            && let Err(error) = written
        {
            tracing::warn!("{}, it is tried again every second", chain(&error));
        }
    }

    /// Writes the status files whose changes waited for their next write.
    pub(crate) fn write_due(&mut self) {
        for function in self.reporter.status_files.due(self.clock.now().mono) {
            self.write_status(&function);
        }
    }

    /// Has metrics served in the places that the configuration names.
    pub(crate) fn expose_metrics(&mut self) {
        self.reporter.exposed.serve(&self.node.settings.settings.metrics);
    }
}
