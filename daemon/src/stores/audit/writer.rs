//! The thread of the audit: it takes what has gathered, tells the journal, and stores it.

use super::store::AuditStore;
use super::{SharedAudit, Write};
use crate::database::write_error;
use crate::lock::lock;
use crate::stores::thread::{RETRY, StoreWorker};
use fnd_core::audit::{AuditedCalls, LOST, WAITING_MAX};
use fnd_manifest::settings::AuditedRuns;
use nix::unistd::{Uid, User};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How long calls gather after one that came alone, so that many calls share a transaction. A kill of fnd loses at most
/// the runs and refusals of this time.
const GATHER: Duration = Duration::from_millis(100);
/// When the thread looks for old entries although no call came.
const IDLE: Duration = Duration::from_secs(3600);
/// Most names of users that are remembered.
const NAMES_MAX: usize = 1024;

/// Returns the entry that says how many calls are missing.
fn lost_entry(at_ms: u64, count: u64) -> AuditedCalls {
    AuditedCalls {
        at_ms,
        uid: Uid::current().as_raw(),
        pid: None,
        exe: None,
        verb: LOST,
        function: None,
        invocation: None,
        status: None,
        code: None,
        refused: false,
        duration_us: 0,
        count,
        is_in_record: false,
    }
}

/// The state of the thread.
pub(super) struct AuditWriter {
    shared: Arc<SharedAudit>,
    now_ms: Box<dyn Fn() -> u64>,
    /// More calls are waited for.
    gathers: bool,
    /// Absent until it can be opened.
    store: Option<AuditStore>,
    /// A description of lost entries, until it is reported.
    gap: Option<String>,
    bytes_max: u64,
    /// Entries that could not be written yet.
    unwritten: Vec<AuditedCalls>,
    names: HashMap<u32, Option<Arc<str>>>,
    /// The minute, and the refusals of it that the journal has.
    told: (u64, HashSet<(u64, u32, &'static str, u16)>),
}

impl StoreWorker for AuditWriter {
    type Command = Write;

    fn perform(&mut self, commands: Vec<Write>) {
        let (mut gathered, waiting, settings) = {
            let mut state = lock(&self.shared.state);
            // A call that came alone waits for others. The next command says that a caller waits, or that there are many.
            let is_alone = state.waiting.is_empty() && state.gathered.entries.len() < WAITING_MAX / 2;
            self.gathers = is_alone && !commands.is_empty();
            if self.gathers {
                return;
            }
            let (gathered, waiting) = (std::mem::take(&mut state.gathered), std::mem::take(&mut state.waiting));
            (gathered, waiting, state.settings.clone())
        };
        let tells_runs = settings.runs == AuditedRuns::Journal;
        for entry in &gathered.entries {
            // The journal comes first: it has the call also if the disk takes nothing.
            if tells_runs || !entry.asks_for_run() {
                self.tell(entry);
            }
        }
        gathered.entries.retain(|entry| !entry.is_in_record);
        let room = WAITING_MAX.saturating_sub(self.unwritten.len());
        let dropped = gathered.entries.iter().skip(room).map(|entry| entry.count).sum::<u64>();
        self.unwritten.extend(gathered.entries.into_iter().take(room));
        let now = (self.now_ms)();
        let lost = gathered.lost.saturating_add(dropped);
        if lost > 0 {
            tracing::warn!("{lost} calls are missing in the audit: they came faster than they could be written");
            self.unwritten.push(lost_entry(now, lost));
        }
        let written = self.write(now, settings.keep_for);
        let failing = written
            .err()
            .map(|error| write_error(&error, &self.shared.places.state));
        if failing.is_some() {
            // Opened again for the next try: the files may have been replaced.
            self.store = None;
        }
        let mut state = lock(&self.shared.state);
        state.lost = state.lost.saturating_add(lost);
        let is_news = state.failing != failing || lost > 0;
        if let Some(why) = failing.as_ref().filter(|_| state.failing.is_none()) {
            tracing::error!("failed to write the audit: {why}; calls wait in memory, and the journal has them");
        }
        state.failing = failing;
        drop(state);
        if is_news {
            (self.shared.changed)();
        }
        self.report_gap();
        for sender in waiting {
            let _ = sender.send(()); // an error: the caller has left
        }
    }

    fn pause(&self) -> Duration {
        match (self.gathers, self.unwritten.is_empty()) {
            (true, _) => GATHER,
            (false, true) => IDLE,
            (false, false) => RETRY,
        }
    }

    fn close(mut self) {
        // Entries that have gathered, or came while a command was in the queue.
        self.perform(Vec::new());
        if let Some(store) = self.store {
            store.base.close();
        }
    }
}

impl AuditWriter {
    pub(super) fn open(shared: Arc<SharedAudit>, bytes_max: u64, now_ms: Box<dyn Fn() -> u64>) -> Self {
        let mut writer = Self {
            shared,
            now_ms,
            gathers: false,
            store: None,
            gap: None,
            bytes_max,
            unwritten: Vec::new(),
            names: HashMap::new(),
            told: (0, HashSet::new()),
        };
        // An error is reported when there is something to write.
        let _ = writer.store();
        writer.report_gap();
        writer
    }

    /// Returns the name of a user. Looking it up may take long, which is one reason for this thread.
    fn name(&mut self, uid: u32) -> Option<Arc<str>> {
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let look_up = || {
            User::from_uid(Uid::from_raw(uid))
                .ok()
                .flatten()
                .map(|user| user.name.into())
        };
        self.names.entry(uid).or_insert_with(look_up).clone()
    }

    /// Writes the line of the journal; of equal refusals of a minute only the first one has a line.
    fn tell(&mut self, entry: &AuditedCalls) {
        if let Some(key) = entry.key() {
            if self.told.0 != key.0 {
                self.told = (key.0, HashSet::new());
            }
            if !self.told.1.insert(key) {
                return;
            }
        }
        let name = self.name(entry.uid);
        let function = entry.function.as_ref().map(fnd_wire::ids::FunctionName::as_str);
        let invocation = entry.invocation.map(|id| id.to_string());
        let about = function.or(invocation.as_deref()).map(|what| format!(" {what}"));
        let who = name.as_deref().map_or_else(|| entry.uid.to_string(), str::to_owned);
        let end = match (entry.refused, entry.status) {
            (true, Some(status)) => format!("refused ({status})"),
            (_, Some(status)) => status.to_string(),
            (_, None) => "the caller closed the connection before the answer".to_owned(),
        };
        tracing::info!(
            fnd_audit = 1,
            fnd_verb = entry.verb,
            fnd_uid = entry.uid,
            fnd_user = name.as_deref(),
            fnd_pid = entry.pid,
            fnd_status = entry.status,
            fnd_function = function,
            fnd_invocation = invocation.as_deref(),
            "{}{} by {who}: {end}",
            entry.verb,
            about.unwrap_or_default()
        );
    }

    /// Stores what is not written, and forgets what is too old or too much.
    fn write(&mut self, now_ms: u64, keep_for: Duration) -> rusqlite::Result<()> {
        let entries: Vec<(AuditedCalls, Option<Arc<str>>)> = std::mem::take(&mut self.unwritten)
            .into_iter()
            .map(|entry| {
                let name = self.name(entry.uid);
                (entry, name)
            })
            .collect();
        let stored = self.present().and_then(|store| store.add(&entries));
        if stored.is_err() {
            self.unwritten = entries.into_iter().map(|(entry, _)| entry).collect();
        }
        stored?;
        let bytes_max = self.bytes_max;
        self.store()?.forget(now_ms, keep_for, bytes_max)
    }

    fn store(&mut self) -> rusqlite::Result<&mut AuditStore> {
        let store = match self.store.take() {
            Some(store) => store,
            None => {
                let (store, missing) = AuditStore::open(&self.shared.places, (self.now_ms)())?;
                self.gap = missing.or(self.gap.take());
                store
            }
        };
        Ok(self.store.insert(store))
    }

    /// Reports what is missing, if that is news.
    fn report_gap(&mut self) {
        let Some(gap) = self.gap.take() else { return };
        tracing::error!("{gap}");
        lock(&self.shared.state).gap = Some(gap);
        (self.shared.changed)();
    }

    /// Returns the store if its files are still those that it has open. Otherwise it is opened anew, and the gap is reported.
    fn present(&mut self) -> rusqlite::Result<&mut AuditStore> {
        if let Some(wrong) = self.store()?.base.present.wrong_or_short() {
            self.store = None;
            self.store()?;
            self.gap = Some(format!("entries of the audit may be missing: {wrong}"));
        }
        self.store()
    }
}
