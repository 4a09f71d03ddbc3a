//! The status file that an event changes.

use fnd_core::report::ReportEvent;
use fnd_wire::ids::FunctionName;

/// Returns the function whose status file shows an event.
pub(crate) fn changed_by(event: ReportEvent<'_>) -> Option<&FunctionName> {
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
        | ReportEvent::Accepted { .. }
        | ReportEvent::WorkerRequested(_)
        | ReportEvent::WorkerEnded(..)
        | ReportEvent::PoolScaled(..)
        | ReportEvent::AttemptPutBack
        | ReportEvent::AttemptEnded { .. }
        | ReportEvent::EndedWaiting(_)
        | ReportEvent::InvocationEnded(_)
        | ReportEvent::SlotsDue { .. }
        | ReportEvent::Requested(_)
        | ReportEvent::Alert { .. }
        | ReportEvent::Problem { .. } => None,
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
