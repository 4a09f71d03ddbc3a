//! Signals, the watchdog, and the stop of fnd.

use crate::clock::monotonic;
use crate::descriptors;
use crate::driver::Daemon;
use crate::input::Input;
use crate::or_never;
use crate::systemd;
use fnd_core::run::Event;
use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use std::rc::Rc;
use std::time::Duration;

/// How long a hand-over waits until the ledger has stored accepted work; fnd must be gone within 2 s.
const HAND_OVER_MAX: Duration = Duration::from_secs(1);

/// The part of that time in which requests to programs that serve HTTP may end: their connections end with fnd. In the
/// rest fnd answers the others, before the control socket gives up ([`STOP_TIME`](crate::control::limits::STOP_TIME)).
const FINISH_MAX: Duration = Duration::from_millis(700);

/// Watches for signals until fnd may end.
///
/// Where the spawner is a service of its own, SIGTERM hands over to the next fnd, and functions go on with the spawner.
/// Where it is fnd's child, SIGTERM and SIGINT drain, and a second signal kills.
pub(crate) async fn watch(daemon: &Rc<Daemon>, stop: &impl Fn(), spawner_stays: bool) {
    let mut signals = match Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!("failed to watch for signals: {error}");
            return std::future::pending().await;
        }
    };
    let watchdog = systemd::watchdog();
    let mut beat_at = monotonic();
    // Resolves when fnd may end.
    let mut draining: Option<LocalBoxFuture<'_, ()>> = None;
    loop {
        let pulse = watchdog.map(|every| async move {
            descriptors::sleep(beat_at.saturating_duration_since(monotonic())).await;
            every
        });
        let signal = tokio::select! {
            // Cancel-safe: a signal is taken or stays pending in the stream's pipe.
            signal = signals.next() => signal,
            // Cancel-safe: the time of the beat stays, and a beat that was missed comes at once.
            every = or_never(pulse) => {
                systemd::alive();
                daemon.input(Input::Pulse(beat_at));
                beat_at += every;
                continue;
            }
            // Cancel-safe: polled in place.
            () = or_never(draining.as_mut()) => return,
        };
        match signal {
            Some(SIGHUP) => {
                // Like `fndctl reload`, but no caller gets the report: problems go to the journal.
                drop(daemon.reload(false));
            }
            Some(_) if spawner_stays && draining.is_none() => {
                tracing::info!("stopping: running work continues with fnd-spawner");
                // New connections wait in the socket for the next fnd.
                daemon.inbox.leaves();
                stop();
                draining = Some(Box::pin(handed_over(Rc::clone(daemon))));
            }
            // At a second signal fnd waits for nothing more: functions go on with the spawner in any case.
            Some(_) if spawner_stays => return,
            Some(_) if draining.is_none() => {
                tracing::info!("stopping when running work has ended; a second signal kills it");
                let drained = daemon.drain_to_stop();
                // An error means that the drain is over already.
                draining = Some(Box::pin(async { drop(drained.await) }));
            }
            Some(_) => daemon.step(Event::StopNow),
            None => return,
        }
    }
}

/// Waits until every caller was answered, and until work that ends with fnd has ended or its time is over.
pub(crate) async fn handed_over(daemon: Rc<Daemon>) {
    let mut answered = daemon.hand_over();
    if tokio::time::timeout(FINISH_MAX, &mut answered).await.is_err() {
        // The second request gives up the calls that could not go on and were to end first.
        daemon.step(Event::HandOver);
        drop(tokio::time::timeout(HAND_OVER_MAX.saturating_sub(FINISH_MAX), answered).await);
    }
}
