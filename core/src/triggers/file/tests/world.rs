//! Machine, disk and fnd together. fnd stores what it accepts, as its ledger does; a restart keeps only that.

use super::super::machine::{Acted, DirectoryState, FileClock, FileEvent, FileMachine, Look, WatchAction};
use super::super::message::{AcceptedFile, FileRunEnded, FromWatcher, KnownFile, SeenChange, ToWatcher, WatcherReady};
use super::disk::Disk;
use crate::records::SeenFile;
use fnd_manifest::function::keys::FileTrigger;
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Returns the message that an invocation of this world has ended.
pub(super) fn ended(id: InvocationId, success: bool) -> ToWatcher {
    ToWatcher::Ended(FileRunEnded {
        id,
        success,
        contents: Vec::new(),
    })
}

/// A run of the function: kind, path, inode, size, time of change.
pub(super) type Run = (u8, String, (u64, u64, i64));

pub(super) struct World {
    pub(super) triggers: Vec<FileTrigger>,
    pub(super) machine: FileMachine,
    pub(super) disk: Disk,
    pub(super) now: Duration,
    pub(super) known: BTreeMap<(u16, u64), KnownFile>,
    pub(super) runs: Vec<Run>,
    /// Offers without an answer.
    pub(super) offers: VecDeque<WatcherReady>,
    /// Invocations that are stored, and of which the watcher does not know yet.
    pub(super) stored: VecDeque<AcceptedFile>,
    pub(super) running: VecDeque<InvocationId>,
    pub(super) settled: Vec<InvocationId>,
    /// Where the directories lead, as the watcher has said it.
    pub(super) places: Vec<u64>,
    /// Where they lead after the next last look at a file.
    pub(super) leads_to: Option<u64>,
    pub(super) gone_by_acts: Vec<(u64, u64, i64)>,
    pub(super) first_ms: u64,
    /// Whether offers are accepted at once, and end at once.
    pub(super) is_quick: bool,
    /// The answer to every look while the files cannot be reached.
    pub(super) hidden: Option<Look>,
    /// The time that each look takes.
    pub(super) look_takes: Duration,
    ids: u128,
}

impl World {
    pub(super) fn new(triggers: Vec<FileTrigger>) -> Self {
        let disk = Disk {
            wall_ns: 1_000_000_000_000,
            ..Disk::default()
        };
        Self {
            machine: FileMachine::new(triggers.clone()),
            triggers,
            disk,
            now: Duration::from_secs(1),
            known: BTreeMap::new(),
            runs: Vec::new(),
            offers: VecDeque::new(),
            stored: VecDeque::new(),
            running: VecDeque::new(),
            settled: Vec::new(),
            places: Vec::new(),
            leads_to: None,
            gone_by_acts: Vec::new(),
            first_ms: 0,
            is_quick: true,
            hidden: None,
            look_takes: Duration::ZERO,
            ids: 0,
        }
    }

    pub(super) fn handle(&mut self, event: FileEvent) {
        let at = FileClock {
            now: self.now,
            wall_ns: self.disk.wall_ns,
        };
        self.machine.handle(at, event);
    }

    pub(super) fn message(&mut self, message: ToWatcher) {
        self.handle(FileEvent::Message(message));
    }

    pub(super) fn begin(&mut self) {
        self.greet();
        self.appear();
    }

    /// fnd sends what it remembers; the watcher has not looked at the directory yet.
    pub(super) fn greet(&mut self) {
        let known: Vec<_> = self.known.values().cloned().collect();
        self.message(ToWatcher::Known(known));
        self.message(ToWatcher::Begin(vec![self.first_ms; self.triggers.len()]));
    }

    /// The directory is there, and scanned.
    pub(super) fn appear(&mut self) {
        let present = DirectoryState {
            present: true,
            ..DirectoryState::default()
        };
        self.handle(FileEvent::Directory(0, present));
        self.scan();
        self.turn();
    }

    /// The watcher ends at any moment, and another one starts.
    pub(super) fn restart(&mut self) {
        self.stop();
        self.begin();
    }

    pub(super) fn stop(&mut self) {
        self.disk.events.clear();
        self.offers.clear();
        self.stored.clear();
        self.machine = FileMachine::new(self.triggers.clone());
    }

    pub(super) fn scan(&mut self) {
        for event in self.disk.scan() {
            self.handle(event);
        }
    }

    /// The kernel dropped what was not read.
    pub(super) fn overflow(&mut self) {
        self.disk.events.clear();
        self.handle(FileEvent::Overflow);
    }

    pub(super) fn read_events(&mut self) {
        for event in std::mem::take(&mut self.disk.events) {
            self.handle(event);
        }
    }

    /// Carries out everything that is due now.
    pub(super) fn turn(&mut self) {
        for _ in 0..10_000 {
            let at = FileClock {
                now: self.now,
                wall_ns: self.disk.wall_ns,
            };
            if self.machine.is_due(at.now) {
                self.read_events();
            }
            let mut actions = Vec::new();
            self.machine.turn(at, &mut actions);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.perform(action);
            }
        }
        panic!("it never rests");
    }

    fn perform(&mut self, action: WatchAction) {
        match action {
            WatchAction::Say(message) => self.said(message),
            WatchAction::Look(id, _, path, hash) => {
                let look = match self.hidden {
                    Some(look) => look,
                    None => self.disk.look(std::str::from_utf8(&path).unwrap(), hash),
                };
                self.now += self.look_takes;
                if let Some(places) = self.leads_to.take_if(|_| hash) {
                    self.handle(FileEvent::Places(places));
                }
                self.handle(FileEvent::Looked(id, look));
            }
            WatchAction::Act(act) => {
                let acted = match self.hidden {
                    Some(_) => Acted::Changed,
                    None => self.disk.act(std::str::from_utf8(&act.path).unwrap(), act.content),
                };
                let is_done = matches!(acted, Acted::Deleted(_));
                self.gone_by_acts.extend(is_done.then_some(act.content));
                self.handle(FileEvent::Acted(act, acted));
            }
            WatchAction::Scan(number) if self.hidden.is_some() => {
                self.handle(FileEvent::ScanBegan(number, true));
                self.handle(FileEvent::ScanEnded(number, None));
            }
            WatchAction::Scan(_) => self.scan(),
        }
    }

    fn said(&mut self, message: FromWatcher) {
        match message {
            FromWatcher::Seen(files) => files.into_iter().for_each(|file| self.remember(file, None)),
            FromWatcher::Gone(files) => files.iter().for_each(|file| {
                self.known.remove(file);
            }),
            FromWatcher::Ready(ready) => {
                self.offers.push_back(ready);
                if self.is_quick {
                    self.accept();
                    self.end(true);
                }
            }
            FromWatcher::Settled(id) => {
                self.settled.push(id);
                for known in self.known.values_mut().filter(|known| known.after == Some(id)) {
                    known.after = None;
                }
            }
            FromWatcher::Places(places) => self.places.push(places),
            FromWatcher::Hello(_) | FromWatcher::Trouble(_) | FromWatcher::Waiting(_) => {}
        }
    }

    fn remember(&mut self, file: SeenFile, after: Option<InvocationId>) {
        let place = (file.directory, file.inode);
        let is_same = |known: &&KnownFile| (known.file.size, known.file.modified_ns) == (file.size, file.modified_ns);
        let after = after.or_else(|| self.known.get(&place).filter(is_same)?.after);
        self.known.insert(place, KnownFile { file, after });
    }

    /// Stores the next offer, and says so; if one is stored already, only says so.
    pub(super) fn accept(&mut self) {
        if self.stored.is_empty() {
            self.store();
        }
        self.tell();
    }

    /// Says that the next stored offer is accepted.
    pub(super) fn tell(&mut self) {
        if let Some(accepted) = self.stored.pop_front() {
            self.message(ToWatcher::Accepted(accepted));
        }
    }

    /// Stores the next offer. Other messages of the watcher may come before it hears of it.
    pub(super) fn store(&mut self) {
        let Some(ready) = self.offers.pop_front() else { return };
        self.ids += 1;
        let id = InvocationId(self.ids);
        let acts = self.triggers[usize::from(ready.entry)].acts();
        for SeenChange { kind, file } in ready.changes {
            let path = String::from_utf8(file.path.0.clone()).unwrap();
            self.runs.push((kind, path, (file.inode, file.size, file.modified_ns)));
            if kind == 2 {
                self.known.remove(&(file.directory, file.inode));
            } else {
                self.remember(file, acts.then_some(id));
            }
        }
        self.running.push_back(id);
        self.stored.push_back(AcceptedFile {
            number: ready.number,
            id,
        });
    }

    pub(super) fn refuse(&mut self) {
        if let Some(ready) = self.offers.pop_front() {
            self.message(ToWatcher::Refused(ready.number));
        }
    }

    pub(super) fn end(&mut self, success: bool) {
        while !self.stored.is_empty() {
            self.tell();
        }
        if let Some(id) = self.running.pop_front() {
            self.message(ended(id, success));
        }
    }

    /// Lets time pass in small steps, and reads events at once.
    pub(super) fn pass(&mut self, time: Duration) {
        let step = Duration::from_millis(10);
        let end = self.now + time;
        while self.now < end {
            self.read_events();
            self.turn();
            self.now += step;
            self.disk.wall_ns += 10_000_000;
        }
        self.read_events();
        self.turn();
    }

    /// Returns the runs so far, without contents, and forgets them.
    pub(super) fn runs(&mut self) -> Vec<(u8, String)> {
        self.runs.drain(..).map(|(kind, path, _)| (kind, path)).collect()
    }
}
