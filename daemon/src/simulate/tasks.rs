//! The tasks of one fnd. They run when the world lets them, and never beside each other or beside the driver.

use futures_util::FutureExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::{LocalEnterGuard, LocalSet};

/// Whether a task can go on.
#[derive(Default)]
pub(super) struct WokenTasks {
    is_woken: AtomicBool,
    /// Ends the wait of the world.
    pub(super) notify: Notify,
}

impl Wake for WokenTasks {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }
}

/// The tasks of an fnd; they are gone when this is dropped.
pub(super) struct FndTasks {
    set: LocalSet,
    pub(super) woken: Arc<WokenTasks>,
}

impl FndTasks {
    pub(super) fn new() -> Self {
        let woken = Arc::new(WokenTasks::default());
        // The set must be polled once before it can wake the world.
        Arc::clone(&woken).wake();
        Self {
            set: LocalSet::new(),
            woken,
        }
    }

    /// Lets the code that follows start tasks.
    pub(super) fn enter(&self) -> LocalEnterGuard {
        self.set.enter()
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.set.spawn_local(task);
    }

    /// Returns whether a task can go on. A task that waits for a socket or a pipe does not count.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.is_woken.load(Ordering::Relaxed)
    }

    /// Lets the tasks run until all of them wait.
    pub(super) fn run_to_rest(&mut self, runtime: &Runtime) {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            // Asks the kernel which sockets and pipes are ready, and does not move the clock.
            runtime.block_on(tokio::task::yield_now());
            if !self.woken.is_woken.swap(false, Ordering::Relaxed) {
                // The wakings were handled here: the next wait of the world must not end because of them.
                let _ = self.woken.notify.notified().now_or_never();
                return;
            }
            let _ = Pin::new(&mut self.set).poll(&mut Context::from_waker(&waker)); // the set never ends: fnd starts more tasks
        }
    }
}
