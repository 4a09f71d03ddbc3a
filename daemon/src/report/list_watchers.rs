//! For each watcher of the list of functions: the functions that have changed and that it has not sent yet.
//!
//! A watcher holds names, not states. However often a function changes while the caller does not read, its name is there once, and
//! the caller gets its newest state. So a watcher loses no change, and holds at most every function's name.

use fnd_wire::ids::FunctionName;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use tokio::sync::Notify;

/// The functions that have changed, for one watcher.
#[derive(Debug, Default)]
pub(crate) struct ChangedFunctions {
    names: RefCell<BTreeSet<FunctionName>>,
    more: Notify,
}

impl ChangedFunctions {
    pub(crate) fn take(&self) -> Option<FunctionName> {
        self.names.borrow_mut().pop_first()
    }

    /// Waits until a function changes; may also return although every change was taken. Cancel-safe: `Notify` keeps a
    /// notification until the next call.
    pub(crate) async fn more(&self) {
        self.more.notified().await;
    }
}

#[derive(Debug, Default)]
pub(crate) struct ListWatchers(RefCell<Vec<Weak<ChangedFunctions>>>);

impl ListWatchers {
    /// Adds a watcher, and removes those whose callers have left.
    pub(crate) fn add(&self) -> Rc<ChangedFunctions> {
        let watcher = Rc::default();
        let mut all = self.0.borrow_mut();
        all.retain(|watcher| watcher.strong_count() > 0);
        all.push(Rc::downgrade(&watcher));
        watcher
    }

    /// Tells every watcher that a function has changed.
    pub(super) fn changed(&self, function: &FunctionName) {
        for watcher in self.0.borrow().iter().filter_map(Weak::upgrade) {
            let mut names = watcher.names.borrow_mut();
            if !names.contains(function) {
                names.insert(function.clone());
                watcher.more.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{name, rejected, reporter};
    use fnd_core::report::ReportEvent;

    #[test]
    fn a_watcher_gets_each_function_that_has_changed_once() {
        let (reporter, name) = (reporter(), name());
        let [first, second] = [(); 2].map(|()| reporter.list_watchers.add());
        for _ in 0..2 {
            assert_eq!(reporter.report(ReportEvent::StatusChanged(&name)), Some(&name));
        }
        assert_eq!((first.take(), first.take()), (Some(name.clone()), None));
        assert_eq!(reporter.report(ReportEvent::Notice(&rejected())), None);
        assert_eq!(first.take(), Some(name.clone()), "also what no status file shows");
        assert_eq!((second.take(), second.take()), (Some(name), None));
        drop(first);
        let _third = reporter.list_watchers.add();
        assert_eq!(reporter.list_watchers.0.borrow().len(), 2, "the first has left");
    }
}
