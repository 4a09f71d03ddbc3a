//! The thread that owns the database of the state.

use super::store::{KvStore, asides};
use super::{SharedStore, StoreAnswer, StoreMessage, WAITING_MAX};
use crate::database::write_error;
use fnd_core::kv::KvRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

/// Pause between two tries of a database that cannot be used.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until fnd stops. `timer` measures pauses.
pub(super) fn run(
    shared: &Arc<SharedStore>,
    mut messages: mpsc::Receiver<StoreMessage>,
    now_ms: impl Fn() -> u64,
    timer: &Runtime,
) {
    let mut store = None;
    // Now, so that the first request does not wait for it.
    let opened = usable(&mut store, shared, now_ms()).err();
    report(shared, opened);
    look(shared);
    loop {
        let failing = shared.lock().failing.is_some();
        let first = match failing {
            false => messages.blocking_recv(),
            true => match timer.block_on(async { tokio::time::timeout(RETRY, messages.recv()).await }) {
                Ok(first) => first,
                // No request may come for long: `fndctl status` should show when the state can be used again.
                Err(_) => {
                    retry(&mut store, shared, now_ms());
                    continue;
                }
            },
        };
        let Some(first) = first else {
            if let Some(store) = store {
                store.close();
            }
            return;
        };
        let mut asked = Vec::new();
        let mut next = Some(first);
        // All requests that wait by now share one transaction, and so one sync.
        while let Some(message) = next {
            match message {
                StoreMessage::Ask(ask, answer) => asked.push((ask, answer)),
                StoreMessage::Look => look(shared),
            }
            next = (asked.len() < WAITING_MAX).then(|| messages.try_recv().ok()).flatten();
        }
        if !asked.is_empty() {
            answer_all(&mut store, shared, asked, now_ms());
        }
    }
}

/// Returns the store, opened if it is not yet. A store that is held stays open.
fn usable<'a>(store: &'a mut Option<KvStore>, shared: &SharedStore, now_ms: u64) -> Result<&'a mut KvStore, String> {
    let opened = match store.take() {
        Some(opened) => opened,
        None => {
            let opened =
                KvStore::open(&shared.places, now_ms).map_err(|error| write_error(&error, &shared.places.state))?;
            look(shared);
            opened
        }
    };
    let opened = store.insert(opened);
    match opened.hold().map_err(|error| crate::chain(&error))? {
        Some(why) => Err(why),
        None => Ok(opened),
    }
}

/// Closes a store that cannot be used, so that it is opened again for the next request: its files may have been replaced. A
/// store that is held is asked again.
fn close_failing(store: &mut Option<KvStore>) {
    if !store
        .as_mut()
        .is_some_and(|open| open.hold().is_ok_and(|hold| hold.is_some()))
    {
        *store = None;
    }
}

/// Opens the database and writes to it, to find out whether it can be used again.
fn retry(store: &mut Option<KvStore>, shared: &SharedStore, now_ms: u64) {
    let written = usable(store, shared, now_ms)
        .and_then(|open| open.probe().map_err(|error| write_error(&error, &shared.places.state)));
    let failing = written.err();
    if failing.is_some() {
        close_failing(store);
    }
    report(shared, failing);
}

fn answer_all(
    store: &mut Option<KvStore>,
    shared: &SharedStore,
    asked: Vec<(KvRequest, oneshot::Sender<StoreAnswer>)>,
    now_ms: u64,
) {
    let (asks, answers): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    let told: Vec<StoreAnswer> = match usable(store, shared, now_ms) {
        Err(why) => asks.iter().map(|_| Err(why.clone())).collect(),
        Ok(open) => match open.transact(&asks, now_ms) {
            Ok(told) => told.into_iter().map(Ok).collect(),
            // On a full disk values can still be read.
            Err(error) => {
                let why = write_error(&error, &shared.places.state);
                let read = |ask: &KvRequest| match ask.changes() {
                    true => Err(why.clone()),
                    false => open.read(ask).map_err(|error| crate::chain(&error)),
                };
                asks.iter().map(read).collect()
            }
        },
    };
    let failing = told.iter().find_map(|answer| answer.as_ref().err().cloned());
    if failing.is_some() {
        close_failing(store);
    }
    report(shared, failing);
    for (answer, told) in answers.into_iter().zip(told) {
        let _ = answer.send(told); // an error: the caller has left
    }
}

/// Remembers why the state cannot be used, and tells when that has changed.
fn report(shared: &SharedStore, failing: Option<String>) {
    let mut state = shared.lock();
    let (is_news, began) = (state.failing != failing, state.failing.is_none());
    if let Some(why) = failing.as_ref().filter(|_| began) {
        tracing::error!("the state of functions cannot be used: {why}");
    }
    state.failing = failing;
    drop(state);
    if is_news {
        (shared.changed)();
    }
}

/// Looks which damaged databases lie beside, and tells when that has changed.
fn look(shared: &SharedStore) {
    let found = asides(&shared.places.state);
    let aside = found.last().map(|last| {
        format!(
            "the state of functions was damaged, and another one with what could be read of it took its place; `{}` is the damaged \
             one: restore the keys that are missing (`fndctl state set`), move that file away, then `fndctl reload`",
            last.display()
        )
    });
    let mut state = shared.lock();
    let is_news = state.aside != aside;
    state.aside = aside;
    drop(state);
    if is_news {
        (shared.changed)();
    }
}
