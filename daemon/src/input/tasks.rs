//! The tasks of the main thread: one set owns them, and a task that ends unexpectedly is an input of the driver.
//!
//! Connections of callers are not here: they end with their server, which waits for them (`http/server.rs`).

use super::{Inbox, Input};
use fnd_wire::ids::WorkerId;
use futures_util::FutureExt as _;
use std::any::Any;
use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use tokio::task::{AbortHandle, JoinSet};

/// Whose work stops when a task ends unexpectedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskOwner {
    /// fnd's own: the task runs as long as fnd.
    Fnd(&'static str),
    /// A worker's: without the task fnd does not hear it.
    Worker(WorkerId),
    /// A caller's, who sees the end of its channel.
    Caller,
}

/// The set of tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks(RefCell<JoinSet<()>>);

impl Inbox {
    /// Starts a task. It ends with fnd, or by the handle.
    pub(crate) fn spawn(&self, owner: TaskOwner, task: impl Future<Output = ()> + 'static) -> AbortHandle {
        let mut tasks = self.tasks.0.borrow_mut();
        // Finished tasks leave the set here. A task that waits for them would run once more after each call.
        while tasks.try_join_next().is_some() {}
        let inbox = self.clone();
        tasks.spawn_local(async move {
            let ended = AssertUnwindSafe(task).catch_unwind().await;
            if let Some(why) = unexpected(&ended, owner) {
                inbox.input(Input::TaskEnded(owner, why));
            }
        })
    }

    pub(crate) fn end_tasks(&self) {
        self.tasks.0.borrow_mut().abort_all();
    }
}

/// Returns what was wrong with the end of a task, if anything was.
fn unexpected(ended: &Result<(), Box<dyn Any + Send>>, owner: TaskOwner) -> Option<String> {
    match (ended, owner) {
        (Ok(()), TaskOwner::Worker(_) | TaskOwner::Caller) => None,
        (Ok(()), TaskOwner::Fnd(_)) => Some("it was not meant to end".to_owned()),
        (Err(panic), _) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Some(format!("it panicked: {}", text.unwrap_or("without a message")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;
    use tokio::task::LocalSet;

    fn inbox() -> Inbox {
        Inbox::new(|_| false)
    }

    /// Lets every task run that can.
    async fn run_all() {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn finished_tasks_leave_the_set_and_the_others_end_with_it() {
        let all = async {
            let inbox = inbox();
            let (alive, mut ended) = mpsc::channel::<()>(1);
            inbox.spawn(TaskOwner::Caller, async move {
                std::future::pending::<()>().await;
                drop(alive);
            });
            for _ in 0..10 {
                inbox.spawn(TaskOwner::Caller, async {});
                run_all().await;
            }
            let left = inbox.tasks.0.borrow().len();
            assert!(left <= 2, "{left} tasks are in the set");
            inbox.end_tasks();
            assert_eq!(ended.recv().await, None);
        };
        LocalSet::new().run_until(all).await;
    }

    #[test]
    fn a_panic_is_unexpected_and_so_is_the_end_of_a_task_of_fnd() {
        let caller = TaskOwner::Caller;
        assert_eq!(unexpected(&Ok(()), caller), None);
        let own = unexpected(&Ok(()), TaskOwner::Fnd("watch"));
        assert_eq!(own.as_deref(), Some("it was not meant to end"));
        let panicked = |task: fn()| unexpected(&std::panic::catch_unwind(task), caller).unwrap();
        assert_eq!(panicked(|| panic!("no {}", 7)), "it panicked: no 7");
        assert_eq!(panicked(|| panic!("no")), "it panicked: no");
        assert_eq!(panicked(|| std::panic::panic_any(7)), "it panicked: without a message");
    }
}
