//! Checks whether a worker that serves HTTP is ready: its address answers, and it is the worker's own.

use super::endpoint::Endpoint;
use super::exchange;
use crate::input::{Inbox, Input};
use fnd_core::run::Event;
use fnd_wire::ids::WorkerId;
use std::time::Duration;

/// Pause between two readiness probes, at first and at most: the kernel sends no event when a process listens on a
/// port.
const PROBE_PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Probes whether a worker serves, until it does.
pub(super) async fn probe(
    inbox: Inbox,
    (worker, user): (WorkerId, Option<u32>),
    endpoint: Endpoint,
    ready: Option<String>,
) {
    let Endpoint {
        address: Some(address),
        key,
    } = endpoint
    else {
        return;
    };
    let mut pause = PROBE_PAUSE.0;
    let mut reported = String::new();
    loop {
        let found = exchange::probe(&inbox, (worker, &address), key.as_ref(), ready.as_deref()).await;
        // `check_owner` reads the table of all sockets of the machine: not for a worker that does not serve yet.
        match found.and_then(|()| address.check_owner(user)) {
            Ok(()) => {
                // Only `pool.concurrency` bounds the worker: it cannot be asked how many calls it takes.
                let concurrency = u32::MAX;
                inbox.input(Input::Event(Event::WorkerReady {
                    worker,
                    concurrency,
                    cancels: false,
                }));
                return;
            }
            Err(why) if why != reported => {
                reported.clone_from(&why);
                if !inbox.input(Input::Event(Event::NotReady { worker, why })) {
                    return;
                }
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await; // no event reports it: see PROBE_PAUSE
        pause = (pause * 2).min(PROBE_PAUSE.1);
    }
}
