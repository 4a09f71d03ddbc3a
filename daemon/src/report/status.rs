//! The status file that an event changes, and how it is written.

use crate::chain;
use crate::driver::State;
use fnd_core::report::ReportEvent;
use fnd_wire::ids::FunctionName;

/// Returns the function whose status file shows an event.
pub(super) fn changed_by(event: ReportEvent<'_>) -> Option<&FunctionName> {
    match event {
        ReportEvent::StatusChanged(function) => Some(function),
        // The supervisor says when a file changes; the start of an attempt, for example, changes none.
        ReportEvent::FunctionKnown(_)
        | ReportEvent::FunctionRemoved(_)
        | ReportEvent::VersionLoaded(..)
        | ReportEvent::VersionRefused { .. }
        | ReportEvent::ContentRefused { .. }
        | ReportEvent::InterpreterChanged { .. }
        | ReportEvent::Rescanned
        | ReportEvent::Notice(_)
        | ReportEvent::Accepted(_)
        | ReportEvent::WorkerRequested(_)
        | ReportEvent::WorkerEnded(..)
        | ReportEvent::PoolScaled(..)
        | ReportEvent::AttemptPutBack
        | ReportEvent::AttemptEnded { .. }
        | ReportEvent::EndedWaiting(_)
        | ReportEvent::InvocationEnded(_)
        | ReportEvent::Problem { .. } => None,
    }
}

impl State {
    /// Removes the status files of functions that went away while fnd was not running.
    pub(crate) fn forget_statuses(&mut self) {
        let known = self.supervisor.functions().map(|view| view.name.clone()).collect();
        if let Err(error) = self.reporter.status_files.keep_only(&known) {
            tracing::warn!("{}", chain(&error));
        }
    }

    /// Writes a function's status file now, or with its next changes if it was just written.
    pub(super) fn status_changed(&mut self, function: &FunctionName) {
        if self.reporter.status_files.changed(function, self.clock.now().mono) {
            self.write_status(function);
        }
    }

    /// Replaces a function's status file, or removes it where the function is gone.
    pub(crate) fn write_status(&mut self, function: &FunctionName) {
        let written = match self.function_status(function) {
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
}

#[cfg(test)]
mod tests {
    use super::super::examples::{attempt_ended, failed, name};
    use super::*;

    #[test]
    fn only_the_supervisor_says_that_a_file_changes() {
        let name = name();
        let (attempt, record) = failed();
        assert_eq!(changed_by(ReportEvent::StatusChanged(&name)), Some(&name));
        assert_eq!(changed_by(attempt_ended(&attempt, &record)), None);
    }
}
