//! Answers requests on the thread of the state.

use super::store::KvStore;
use super::tables::asides;
use super::{KvCommand, KvNotices, QueuedCommand, StoreAnswer};
use crate::database::write_error;
use crate::stores::database::StorePlaces;
use crate::stores::thread::{RETRY, StoreWorker};
use fnd_core::kv::KvRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The state of the thread.
pub(super) struct KvWorker {
    places: StorePlaces,
    notices: Arc<KvNotices>,
    now_ms: Box<dyn Fn() -> u64>,
    /// Absent until it can be opened.
    store: Option<KvStore>,
}

impl StoreWorker for KvWorker {
    type Command = QueuedCommand;

    fn pause(&self) -> Duration {
        // No request may come for long: `fndctl status` should show when the state can be used again.
        self.notices.failing.get().map_or(Duration::MAX, |_| RETRY)
    }

    /// All requests that wait by now share one transaction, and so one sync.
    fn perform(&mut self, commands: Vec<QueuedCommand>) {
        if commands.is_empty() {
            return self.retry();
        }
        let mut asked = Vec::new();
        for (command, _place) in commands {
            match command {
                KvCommand::Ask(ask, answer) => asked.push((ask, answer)),
                KvCommand::Look => self.look(),
            }
        }
        if !asked.is_empty() {
            self.answer_all(asked);
        }
    }

    fn close(self) {
        if let Some(store) = self.store {
            store.base.close();
        }
    }
}

impl KvWorker {
    pub(super) fn open(places: StorePlaces, notices: Arc<KvNotices>, now_ms: Box<dyn Fn() -> u64>) -> Self {
        let mut worker = Self {
            places,
            notices,
            now_ms,
            store: None,
        };
        let failing = worker.usable().err();
        worker.report(failing.as_deref());
        worker.look();
        worker
    }

    /// Returns the store, opened if it is not yet. A store that is held stays open.
    fn usable(&mut self) -> Result<&mut KvStore, String> {
        let opened = match self.store.take() {
            Some(opened) => opened,
            None => {
                let places = &self.places;
                let opened =
                    KvStore::open(places, (self.now_ms)()).map_err(|error| write_error(&error, &places.state))?;
                self.look();
                opened
            }
        };
        let opened = self.store.insert(opened);
        match opened.hold().map_err(|error| crate::chain(&error))? {
            Some(why) => Err(why),
            None => Ok(opened),
        }
    }

    /// Opens the database and writes to it, to find out whether it can be used again.
    fn retry(&mut self) {
        let directory = self.places.state.clone();
        let written = self
            .usable()
            .and_then(|open| open.probe().map_err(|error| write_error(&error, &directory)));
        self.conclude(written.err().as_deref());
    }

    fn answer_all(&mut self, asked: Vec<(KvRequest, oneshot::Sender<StoreAnswer>)>) {
        let (asks, answers): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let (now_ms, directory) = ((self.now_ms)(), self.places.state.clone());
        let told: Vec<StoreAnswer> = match self.usable() {
            Err(why) => asks.iter().map(|_| Err(why.clone())).collect(),
            Ok(open) => match open.transact(&asks, now_ms) {
                Ok(told) => told.into_iter().map(Ok).collect(),
                // On a full disk values can still be read.
                Err(error) => {
                    let why = write_error(&error, &directory);
                    let read = |ask: &KvRequest| match ask.changes() {
                        true => Err(why.clone()),
                        false => open.read(ask).map_err(|error| crate::chain(&error)),
                    };
                    asks.iter().map(read).collect()
                }
            },
        };
        let failing = told.iter().find_map(|answer| answer.as_ref().err());
        self.conclude(failing.map(String::as_str));
        for (answer, told) in answers.into_iter().zip(told) {
            let _ = answer.send(told); // an error: the caller has left
        }
    }

    fn conclude(&mut self, failing: Option<&str>) {
        if failing.is_some() {
            // A store that cannot be used is opened again for the next request: its files may have been replaced. A store that is held is
            // asked again.
            drop(self.store.take_if(|open| !open.hold().is_ok_and(|hold| hold.is_some())));
        }
        self.report(failing);
    }

    fn report(&self, failing: Option<&str>) {
        if self.notices.failing.set(failing)
            && let Some(why) = failing
        {
            tracing::error!("the state of functions cannot be used: {why}");
        }
    }

    /// Looks which damaged databases lie beside.
    fn look(&self) {
        let found = asides(&self.places.state);
        let aside = found.last().map(|last| {
            format!(
                "the state of functions was damaged, and another one with what could be read of it took its place; `{}` is the damaged \
                 one: restore the keys that are missing (`fndctl state set`), move that file away, then `fndctl reload`",
                last.display()
            )
        });
        self.notices.aside.set(aside.as_deref());
    }
}
