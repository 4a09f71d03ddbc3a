//! The watchers of the list of functions: each sends all functions first, and then each one that changes
//! ([`crate::report::list_watchers`]).
//!
//! All functions are walked over by their names, one after the other, while others are served. Functions that change
//! meanwhile go first, so that a function may be sent twice, each time in its newest state.

use super::Backend;
use crate::driver::Daemon;
use crate::input::TaskOwner;
use crate::report::list_watchers::ChangedFunctions;
use crate::views::lists::{FunctionFilter, PIECE};
use crate::workers::listening::Listening;
use fnd_core::api::FunctionChange;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeSet;
use std::rc::Rc;
use tokio::sync::mpsc;

/// Most changes between the driver and the connection of one watcher; when it is full, names wait in the watcher.
const CHANGES_MAX: usize = 16;

impl Backend {
    /// Returns every function that matches the filter, and from then on those that change, as long as the caller reads.
    pub(crate) fn watch(&self, filter: FunctionFilter) -> mpsc::Receiver<FunctionChange> {
        let (sender, receiver) = mpsc::channel(CHANGES_MAX);
        let watcher = FunctionsWatcher {
            // Changes are kept from here on, so no change during the walk is missed.
            changed: self.daemon.state.borrow().reporter.list_watchers.add(),
            walk: Some(None),
            sent: BTreeSet::new(),
        };
        // The task ends when the caller drops the receiver.
        let sending = send_changes(Rc::clone(&self.daemon), watcher, filter, sender);
        self.daemon.inbox.spawn(TaskOwner::Caller, sending);
        receiver
    }
}

struct FunctionsWatcher {
    changed: Rc<ChangedFunctions>,
    /// While all functions are walked over: the last name.
    walk: Option<Option<FunctionName>>,
    /// The functions that the caller has got: only these can go.
    sent: BTreeSet<FunctionName>,
}

impl FunctionsWatcher {
    /// Returns the next function to send.
    fn next(&mut self, daemon: &Daemon) -> Option<FunctionName> {
        if let Some(changed) = self.changed.take() {
            return Some(changed);
        }
        let last = self.walk.take()?;
        let state = daemon.state.borrow();
        let next = state.supervisor.functions_after(last.as_ref()).next()?.name.clone();
        self.walk = Some(Some(next.clone()));
        Some(next)
    }
}

async fn send_changes(
    daemon: Rc<Daemon>,
    mut watcher: FunctionsWatcher,
    filter: FunctionFilter,
    into: mpsc::Sender<FunctionChange>,
) {
    let mut unsent = 0;
    loop {
        let Some(function) = watcher.next(&daemon) else {
            tokio::select! {
                // Cancel-safe: see `ChangedFunctions::more`.
                () = watcher.changed.more() => continue,
                // Cancel-safe: only waits until the reader has gone.
                () = into.closed() => return,
            }
        };
        let now = {
            let state = daemon.state.borrow();
            let view = state.supervisor.function(&function);
            view.map(|view| Box::new(state.look().function_now(&view, &Listening::default())))
        };
        let is_taken = filter.takes(&function, now.as_deref());
        let is_news = match now {
            Some(_) if is_taken => {
                watcher.sent.insert(function.clone());
                true
            }
            Some(_) => false,
            None => watcher.sent.remove(&function),
        };
        if !is_news {
            // A function that is sent waits for the caller from time to time. One that is not waits for nothing.
            unsent += 1;
            if unsent % PIECE == 0 {
                tokio::task::yield_now().await;
            }
            continue;
        }
        if into.send(FunctionChange { function, now }).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::tests::small::world;
    use fnd_core::access::Permissions;
    use fnd_core::report::ReportEvent;

    #[test]
    fn a_status_that_changes_without_a_happening_is_sent() {
        let mut world = world(None);
        let daemon = world.daemon();
        let filter = FunctionFilter {
            reach: Permissions::own(),
            ..FunctionFilter::default()
        };
        let backend = world.backend();
        let mut changes = world.run_until(async { backend.watch(filter) });
        world.turn();
        let mut walked = 0;
        while changes.try_recv().is_ok() {
            walked += 1;
        }
        assert!(walked > 1, "all functions come first: {walked}");
        let hello = FunctionName::new("hello").unwrap();
        daemon.state.borrow_mut().report(ReportEvent::StatusChanged(&hello));
        world.turn();
        assert_eq!(changes.try_recv().unwrap().function, hello);
        // A function that the caller has not got cannot go.
        let unknown = FunctionName::new("unknown").unwrap();
        daemon.state.borrow_mut().report(ReportEvent::StatusChanged(&unknown));
        world.turn();
        assert!(changes.try_recv().is_err(), "nothing else has changed");
    }
}
