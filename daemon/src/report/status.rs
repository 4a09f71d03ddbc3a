//! Writes status files.

use crate::driver::State;
use fnd_wire::ids::FunctionName;

impl State {
    /// Replaces a function's status file, or removes it where the function is gone.
    pub(crate) fn write_status(&mut self, function: &FunctionName) {
        let written = match self.function_status(function) {
            Some(status) => self.status.write(&status),
            // The function may only not be installed yet. The end of the first scan removes the files of functions that
            // are gone.
            None if !self.supervisor.is_scanned() => return,
            None => self.status.remove(function),
        };
        let mono = self.clock.now().mono;
        if self.status.tried(function, mono, written.is_ok())
            && let Err(error) = written
        {
            tracing::warn!("{}, it is tried again every second", crate::chain(&error));
        }
    }

    /// Writes the status files whose changes waited for their next write.
    pub(crate) fn write_due(&mut self) {
        for function in self.status.due(self.clock.now().mono) {
            self.write_status(&function);
        }
    }
}
