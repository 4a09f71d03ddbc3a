//! Reports what happens: in the journal, on the stream, in the metrics and in the status files.
//!
//! ```text
//!                        ┌─▶ journal
//! driver ─▶ ReportEvent ─┼─▶ stream
//!                        ├─▶ metrics
//!                        ├─▶ watchers of the list of functions
//!                        └─▶ status file (written by the driver: it shows facts of all parts)
//! ```
//! Another destination is one more file with one `match` over [`ReportEvent`]. No file here changes what fnd does.
//!
//! Code that has news makes an event and hands it to the driver. The `observer` makes its events itself.
//!
//! Files:
//! - `books`: what the observer has to remember: processes and running attempts
//! - `examples`: events for the tests of these files
//! - `exposed`: where metrics are exposed beside the control socket
//! - `journal`: the messages of fnd, in words for people and fields for queries
//! - `list_watchers`: the watchers of the list of functions, and what each has to send
//! - `metrics`: which counters an event increases; does not define them (`crate::metrics` does)
//! - `observer`: makes events of what the supervisor hears and decides
//! - `problems`: the problems of the node
//! - `status_files`: when and how a status file is written; does not know what is in it
//! - `stream`: the events of `GET /v1/stream`; does not keep them (`crate::stream` does)

mod books;
#[cfg(test)]
pub(crate) mod examples;
mod exposed;
mod journal;
pub(crate) mod list_watchers;
mod metrics;
mod observer;
pub(crate) mod problems;
mod status_files;
mod stream;

use crate::metrics::Metrics;
use crate::stream::{Happening, Ring};
use books::ReportBooks;
use exposed::Exposed;
use fnd_core::hours::Hours;
use fnd_core::report::ReportEvent;
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::is_own;
use list_watchers::ListWatchers;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) use status_files::StatusFiles;

/// The destinations that keep what they are given, and the books.
pub(crate) struct Reporter {
    pub(crate) ring: Rc<Ring>,
    pub(crate) metrics: Rc<RefCell<Metrics>>,
    pub(crate) list_watchers: ListWatchers,
    books: ReportBooks,
    /// How invocations ended in the last hours.
    pub(crate) hours: RefCell<Hours>,
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
            list_watchers: ListWatchers::default(),
            books: ReportBooks::default(),
            hours: RefCell::default(),
            status_files,
            exposed: Rc::default(),
            problems: problems::Reported::default(),
        }
    }

    /// Reports an event. Returns the function whose status file shows it: the driver writes that file.
    #[must_use = "the status file is to be written"]
    pub(crate) fn report<'e>(&self, event: ReportEvent<'e>) -> Option<&'e FunctionName> {
        journal::write(event);
        metrics::count(&mut self.metrics.borrow_mut(), event);
        // Builds and checks are runs of fnd's own.
        if let ReportEvent::InvocationEnded(record) = event
            && let Some(ended_ms) = record.ended_ms
            && !is_own(record.function.as_str())
        {
            self.hours.borrow_mut().ended(ended_ms, record.state);
        }
        stream::describe(event, |function, what| {
            // The list also shows what no status file waits for, such as the number of running attempts.
            if let Some(function) = function {
                self.list_watchers.changed(function);
            }
            self.ring.push(Happening {
                unix_ms: crate::clock::unix_ms(),
                function: function.cloned(),
                what,
            });
        });
        // The supervisor says when a status changes; the start of an attempt, for example, changes none.
        let ReportEvent::StatusChanged(function) = event else {
            return None;
        };
        self.list_watchers.changed(function);
        Some(function)
    }
}
