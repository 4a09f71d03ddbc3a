//! Signals, the watchdog, and how fnd stops.

use crate::driver::Daemon;
use crate::systemd;
use fnd_core::frame::Request;
use fnd_core::supervisor::Event;
use futures_util::StreamExt as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use std::rc::Rc;
use std::time::Duration;

/// Longest time between two watchdog messages where none is wanted: never, as far as anybody lives.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Watches for signals until fnd shall end.
///
/// Where the spawner is a service of its own, SIGTERM ends fnd at once: functions are the spawner's. Where it is fnd's
/// child, SIGTERM and SIGINT drain, and a second one kills (contract, section 7).
pub(crate) async fn watch(daemon: &Rc<Daemon>, spawner_stays: bool) {
    let mut signals = match Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!("failed to watch for signals: {error}");
            return std::future::pending().await;
        }
    };
    let beat = systemd::watchdog();
    let mut pulse = tokio::time::interval(beat.unwrap_or(NEVER));
    let mut draining = None;
    loop {
        let signal = tokio::select! {
            // Cancel-safe: a signal is taken or stays pending in the stream's pipe.
            signal = signals.next() => signal,
            // Cancel-safe: a tick that was missed comes at once.
            _ = pulse.tick(), if beat.is_some() => {
                systemd::alive();
                continue;
            }
            // Cancel-safe: polled in place.
            () = drained(&mut draining) => return,
        };
        match signal {
            Some(SIGHUP) => {
                // As `fndctl reload`, but nobody waits for its report: what is wrong goes to the journal.
                systemd::reloading();
                let mut state = daemon.state.borrow_mut();
                state.request(&Request::Reload, Vec::new());
                let scan = state.installer.new_scan();
                state.catalog.rescan(scan, true);
                drop(state);
                systemd::ready("running");
            }
            Some(_) if spawner_stays => return,
            Some(_) if draining.is_none() => {
                tracing::info!("stopping when what runs has ended; a second signal kills it");
                draining = Some(daemon.drain());
            }
            Some(_) => daemon.step(Event::StopNow),
            None => return,
        }
    }
}

async fn drained(draining: &mut Option<tokio::sync::oneshot::Receiver<()>>) {
    match draining {
        // Dropped means that nothing runs either.
        Some(receiver) => drop(receiver.await),
        None => std::future::pending().await,
    }
}
