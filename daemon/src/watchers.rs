//! Who watches the list of functions, and what each has not been told of yet.
//!
//! A watcher has names, not states: however often a function changes while nobody reads, it is there once, and what is told
//! is how it is then. So a watcher holds at most every function's name, and nothing is lost.

use crate::control::backend::{Changes, FunctionFilter};
use crate::driver::Daemon;
use fnd_core::api::FunctionChange;
use fnd_core::ids::FunctionName;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use tokio::sync::{Notify, mpsc};

/// Changes between the driver and the connection of one watcher: when it is full, names wait here.
const CHANGES_MAX: usize = 16;

/// All who watch.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Vec<Weak<Watcher>>);

/// One who watches.
#[derive(Debug)]
struct Watcher {
    changed: RefCell<BTreeSet<FunctionName>>,
    more: Notify,
}

impl Watchers {
    /// Notes that something of a function that people see has changed.
    pub(crate) fn changed(&mut self, function: &FunctionName) {
        self.0.retain(|watcher| {
            let Some(watcher) = watcher.upgrade() else { return false };
            watcher.changed.borrow_mut().insert(function.clone());
            watcher.more.notify_one();
            true
        });
    }
}

/// Returns every function as it is, and from then on those that change, as long as somebody reads.
pub(crate) fn watch(daemon: &Rc<Daemon>, filter: FunctionFilter) -> Changes {
    let (sender, receiver) = mpsc::channel(CHANGES_MAX);
    let watcher = {
        let mut state = daemon.state.borrow_mut();
        let all = state.supervisor.functions().map(|view| view.name.clone()).collect();
        let watcher = Rc::new(Watcher {
            changed: RefCell::new(all),
            more: Notify::new(),
        });
        state.watchers.0.push(Rc::downgrade(&watcher));
        watcher
    };
    // Owned by the caller's receiver: it ends when that is dropped.
    drop(tokio::task::spawn_local(tell(
        Rc::clone(daemon),
        watcher,
        filter,
        sender,
    )));
    receiver
}

async fn tell(daemon: Rc<Daemon>, watcher: Rc<Watcher>, filter: FunctionFilter, into: mpsc::Sender<FunctionChange>) {
    loop {
        let next = watcher.changed.borrow_mut().pop_first();
        let Some(function) = next else {
            tokio::select! {
                // Cancel-safe: a notification is kept until somebody waits.
                () = watcher.more.notified() => continue,
                () = into.closed() => return,
            }
        };
        let now = daemon.state.borrow().function_now(&function).map(Box::new);
        if !filter.takes(&function, now.as_deref()) {
            continue;
        }
        if into.send(FunctionChange { function, now }).await.is_err() {
            return;
        }
    }
}
