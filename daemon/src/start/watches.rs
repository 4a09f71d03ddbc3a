//! Tasks that watch something for as long as fnd runs.

use crate::descriptors;
use crate::driver::Daemon;
use crate::functions::interpreters::{CHECK_INTERVAL, SETTLE};
use crate::input::Input;
use crate::or_never;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tokio::io::unix::AsyncFd;

/// Checks whether the spawner answers, from each request to its answer.
pub(super) async fn spawner(daemon: Rc<Daemon>) {
    let begun = Rc::clone(&daemon.state.borrow().workers.silence.begun);
    loop {
        begun.notified().await;
        let mut next = daemon.state.borrow().workers.silence.wakes_at;
        while let Some(at) = next {
            let at = daemon.state.borrow().clock.instant(at);
            tokio::time::sleep_until(at.into()).await;
            next = daemon.check_silence();
        }
    }
}

/// Prepares functions again whose interpreter has changed.
pub(super) async fn interpreters(daemon: Rc<Daemon>) {
    let watch = daemon.state.borrow().functions.interpreters.watch.clone();
    loop {
        let changed = watch.as_ref().map(|watch| interpreter_changed(&daemon, watch));
        tokio::select! {
            // A package manager does not report when it has replaced its last file.
            () = or_never(changed) => tokio::time::sleep(SETTLE).await,
            // Cancel-safe: it only waits. A change that was read, but not acted on yet, is found by the check below.
            () = descriptors::sleep(CHECK_INTERVAL) => {}
        }
        daemon.input(Input::Interpreters);
        daemon.changed.notify_one();
    }
}

async fn interpreter_changed(daemon: &Daemon, watch: &AsyncFd<OwnedFd>) {
    loop {
        let concerned = match watch.readable().await {
            Ok(mut ready) => {
                let concerned = daemon
                    .state
                    .borrow()
                    .functions
                    .interpreters
                    .concerns_an_interpreter(watch);
                ready.clear_ready();
                concerned
            }
            Err(error) => Err(error),
        };
        match concerned {
            Ok(true) => return,
            // The change concerns no interpreter: the wait goes on.
            Ok(false) => {}
            Err(error) => {
                tracing::error!("failed to read changes of interpreters: {error}; `fndctl reload` checks them");
                // A broken descriptor would be ready again at once. The check from time to time goes on, by its
                // timeout.
                std::future::pending::<()>().await;
            }
        }
    }
}
