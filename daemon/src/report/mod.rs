//! Reports what happens: in the journal, on the stream, in the metrics and in the status files.
//!
//! ```text
//!                        ┌─▶ journal
//! driver ─▶ ReportEvent ─┼─▶ stream
//!                        ├─▶ metrics
//!                        └─▶ status
//! ```
//! Another destination is one more file with one `match` over [`ReportEvent`]. No file here changes what fnd does.
//!
//! The driver makes the events.
//!
//! Files:
//! - `books`: what the driver has to remember for that: processes, running attempts, versions as reported last
//! - `examples`: events for the tests of these files
//! - `exposed`: where metrics are exposed beside the control socket
//! - `journal`: the messages of fnd, in words for people and fields for queries
//! - `metrics`: which counters an event increases; does not define them (`crate::metrics` does)
//! - `problems`: the problems of the node
//! - `status`: which status file an event changes
//! - `status_files`: when and how a status file is written; does not know what is in it
//! - `stream`: the events of `GET /v1/stream`; does not keep them (`crate::stream` does)

pub(crate) mod books;
#[cfg(test)]
pub(crate) mod examples;
mod exposed;
mod journal;
mod metrics;
pub(crate) mod problems;
mod status;
mod status_files;
mod stream;

use crate::metrics::Metrics;
use crate::stream::{Happening, Ring};
use books::ReportBooks;
use exposed::Exposed;
use fnd_core::report::ReportEvent;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) use status::changed_by;
pub(crate) use status_files::StatusFiles;

/// The destinations that keep what they are given, and the books.
pub(crate) struct Reporter {
    pub(crate) ring: Rc<Ring>,
    pub(crate) metrics: Rc<RefCell<Metrics>>,
    pub(crate) books: ReportBooks,
    pub(crate) status_files: StatusFiles,
    /// The places of the metrics beside the control socket.
    pub(crate) exposed: Rc<Exposed>,
    /// The problems as reported last.
    pub(crate) problems: problems::Reported,
}

impl Reporter {
    /// Returns a reporter without any event; `epoch` is when this fnd was started.
    pub(crate) fn new(epoch: u64, status_files: StatusFiles) -> Self {
        Self {
            ring: Rc::new(Ring::new(epoch)),
            metrics: Rc::new(RefCell::new(Metrics::new())),
            books: ReportBooks::default(),
            status_files,
            exposed: Rc::default(),
            problems: problems::Reported::default(),
        }
    }

    /// Reports an event everywhere but in the status files.
    pub(crate) fn report(&self, event: ReportEvent<'_>) {
        journal::write(event);
        metrics::count(&mut self.metrics.borrow_mut(), event);
        stream::describe(event, |function, what| {
            self.ring.push(Happening {
                unix_ms: crate::clock::unix_ms(),
                function: function.cloned(),
                what,
            });
        });
    }
}
