//! The watchers of the list of functions, and the changes that each has not been sent yet.
//!
//! A watcher reads the stream of happenings: each one names a function to read anew. So a watcher holds names, not
//! states. However often a function changes while the caller does not read, it is there once, and the caller gets its
//! newest state. A watcher holds at most every function's name, and loses nothing: if it was too slow for the stream,
//! all functions count as changed.
//!
//! All functions are walked over by their names, one after the other, while others are served. Functions that change
//! meanwhile go first, so that a function may be sent twice, each time in its newest state.

use crate::driver::Daemon;
use crate::input::TaskOwner;
use crate::stream::{Ring, StreamStep, news, read};
use crate::views::lists::{FunctionFilter, PIECE};
use crate::workers::listening::Listening;
use fnd_core::api::FunctionChange;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeSet;
use std::rc::Rc;
use tokio::sync::mpsc;

/// The changes of functions.
pub(crate) type FunctionChanges = mpsc::Receiver<FunctionChange>;

/// Most changes between the driver and the connection of one watcher; when it is full, names wait in the watcher.
const CHANGES_MAX: usize = 16;

/// Returns every function, and from then on those that change, as long as the caller reads.
pub(crate) fn watch(daemon: &Rc<Daemon>, filter: FunctionFilter) -> FunctionChanges {
    let (sender, receiver) = mpsc::channel(CHANGES_MAX);
    let ring = Rc::clone(&daemon.state.borrow().reporter.ring);
    let watcher = FunctionsWatcher {
        changed: BTreeSet::new(),
        walk: Some(None),
        // The ring is read from here on, so no change during the walk is missed.
        at: ring.last(),
        ring,
    };
    // The task ends when the caller drops the receiver.
    let sending = send_changes(Rc::clone(daemon), watcher, filter, sender);
    daemon.inbox.spawn(TaskOwner::Caller, sending);
    receiver
}

struct FunctionsWatcher {
    changed: BTreeSet<FunctionName>,
    /// While all functions are walked over: the last name.
    walk: Option<Option<FunctionName>>,
    ring: Rc<Ring>,
    /// Number of the last happening that was read.
    at: u64,
}

impl FunctionsWatcher {
    /// Returns the next function to send.
    fn next(&mut self, daemon: &Daemon) -> Option<FunctionName> {
        if let Some(changed) = self.changed.pop_first() {
            return Some(changed);
        }
        let last = self.walk.take()?;
        let state = daemon.state.borrow();
        let next = state.supervisor.functions_after(last.as_ref()).next()?.name.clone();
        self.walk = Some(Some(next.clone()));
        Some(next)
    }

    /// Reads the happenings up to the newest.
    fn read_on(&mut self) {
        loop {
            match read(&self.ring, self.at) {
                StreamStep::Nothing => return,
                StreamStep::Missed(_, last) => {
                    self.at = last;
                    self.walk = Some(None);
                }
                StreamStep::Some(taken) => {
                    for (number, happening) in taken.happenings {
                        self.at = number;
                        // A problem of the node changes no function.
                        let Some(function) = &happening.function else { continue };
                        if !self.changed.contains(function) {
                            self.changed.insert(function.clone());
                        }
                    }
                }
            }
        }
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
        watcher.read_on();
        let Some(function) = watcher.next(&daemon) else {
            tokio::select! {
                // Cancel-safe: it only checks a number.
                () = news(&watcher.ring, watcher.at) => continue,
                () = into.closed() => return,
            }
        };
        let now = {
            let state = daemon.state.borrow();
            let work = state.file_work(&function);
            state.look().function_now(&function, work, &Listening::default())
        };
        let now = now.map(Box::new);
        if !filter.takes(&function, now.as_deref()) {
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
