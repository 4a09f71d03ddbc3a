//! The journal of a simulated fnd: the defects of itself that fnd reports there. After such a defect fnd goes on, so nothing
//! else shows it.

use crate::effects::fuse;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Level, Metadata, Subscriber};

/// Reads the messages of this thread as long as it exists.
pub(super) struct DefectReader {
    defects: Arc<Mutex<Vec<String>>>,
    _guard: DefaultGuard,
}

impl DefectReader {
    pub(super) fn begin() -> Self {
        let defects = Arc::default();
        let journal = DefectJournal {
            defects: Arc::clone(&defects),
        };
        Self {
            defects,
            _guard: set_default(journal),
        }
    }

    /// Returns the defects that fnd has reported since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        mem::take(&mut *self.defects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Takes the place of the journal.
struct DefectJournal {
    defects: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for DefectJournal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == Level::ERROR
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = JournalMessage::default();
        event.record(&mut message);
        // After its death fnd reports nothing: the handler that still runs has no effect.
        if message.is_defect && !fuse::has_burnt() {
            let mut defects = self.defects.lock().unwrap_or_else(PoisonError::into_inner);
            defects.push(message.text);
        }
    }

    // Spans are of no interest.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct JournalMessage {
    /// Whether `report::journal` names the event so.
    is_defect: bool,
    text: String,
}

impl Visit for JournalMessage {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_defect |= field.name() == "fnd_event" && value == "defect";
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Reporter, StatusFiles};
    use fnd_core::report::ReportEvent;
    use fnd_core::run::Notice;
    use fnd_wire::ids::{FunctionName, WorkerId};

    #[test]
    fn a_defect_is_heard_while_fnd_lives() {
        let directory = tempfile::tempdir().unwrap();
        let status_files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let reporter = Reporter::new(0, status_files);
        let defect = Notice::Defect("no such invocation".to_owned());
        let unkillable = Notice::Unkillable {
            worker: WorkerId(1),
            function: FunctionName::new("f").unwrap(),
        };
        let reader = DefectReader::begin();
        let heard = |notice: &Notice| {
            assert_eq!(reporter.report(ReportEvent::Notice(notice)), None);
            reader.take()
        };
        assert_eq!(heard(&unkillable), [""; 0]);
        assert_eq!(heard(&defect), ["a defect of fnd, made safe: no such invocation"]);
        fuse::set(Some(0));
        assert_eq!(heard(&defect), [""; 0], "fnd is dead");
        fuse::set(None);
        assert_eq!(heard(&defect).len(), 1);
    }
}
