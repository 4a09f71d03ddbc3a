//! The catalog's thread: inotify hints → looks → events for the driver. When it looks is for [`RescanTimer`] to say.

use super::held;
use super::mounts::Mounts;
use super::rescan_timer::{FinishedScan, RescanTimer};
use super::scan::{Candidate, Difference, Scanner};
use super::walk::Rules;
use super::watching::{Hint, Watching, hint};
use super::written::Written;
use crate::clock::Clock;
use fnd_core::diagnostic::Diagnostic;
use fnd_wire::ids::FunctionName;
use notify::RecommendedWatcher;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// What the driver is told.
#[derive(Debug)]
pub enum CatalogEvent {
    /// Functions to install, complete.
    Changed(Vec<Candidate>),
    /// Functions that are gone.
    Removed(Vec<FunctionName>),
    /// What is wrong now with names and places, and which files are no functions; replaces what was said before.
    Found {
        /// What is wrong.
        problems: Vec<Diagnostic>,
        /// Functions that two files claim.
        clashes: Vec<Candidate>,
        /// Files no rule claims.
        unclaimed: Vec<String>,
        /// What could not be looked at: functions that are not known may be there.
        unread: Vec<Diagnostic>,
    },
    /// A scan asked for by [`Catalog::rescan`], or the first one, is over; what it found was told before.
    Scanned(u64),
    /// Whether what was handed on still lay there when [`Catalog::confirm`] asked with that number.
    Confirmed(u32, bool),
    /// Nothing changed for a second.
    Quiet,
    /// Directories cannot be watched; they are looked at from time to time.
    Blind(String),
}

enum Command {
    Hint(Hint),
    Rules(Rules),
    Rescan {
        number: u64,
        how: Rescan,
    },
    Confirm {
        number: u32,
        candidate: Candidate,
    },
    /// Something was mounted or unmounted, somewhere.
    Mounts,
    End,
}

/// How everything is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rescan {
    /// What is unchanged is handed on as well.
    pub forget: bool,
    /// A directory that is empty is meant to be.
    pub accept_empty: bool,
}

/// Handle to the thread; dropping it ends the thread.
pub struct Catalog {
    commands: Sender<Command>,
    /// Ends with it.
    _mounts: Option<Mounts>,
}

impl Drop for Catalog {
    fn drop(&mut self) {
        // WorkerMessage, because the watcher has a sender too, and the thread has the watcher. Gone already: as wanted.
        let _ = self.commands.send(Command::End);
    }
}

impl Catalog {
    /// Starts watching. Nothing is scanned before the first [`Catalog::rescan`]. `held` is the file that says which directories
    /// held functions when fnd ran last.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        directories: Vec<PathBuf>,
        rules: Rules,
        held: PathBuf,
        events: UnboundedSender<CatalogEvent>,
    ) -> std::io::Result<Self> {
        Self::with_watcher((directories, held), rules, events, notify::recommended_watcher)
    }

    /// Starts with a watcher that `make` builds around what takes its events.
    fn with_watcher(
        (directories, held): (Vec<PathBuf>, PathBuf),
        rules: Rules,
        events: UnboundedSender<CatalogEvent>,
        make: impl FnOnce(Box<dyn FnMut(notify::Result<notify::Event>) + Send>) -> notify::Result<RecommendedWatcher>,
    ) -> std::io::Result<Self> {
        // Unbounded on both sides: inotify itself bounds its queue, and the driver must never block on this thread nor
        // this thread on the driver. What is sent per scan is bounded by what lies in the directories.
        let (commands, inbox) = channel();
        let hints = commands.clone();
        let watched = directories.clone();
        let watcher = make(Box::new(move |event| {
            if let Some(hint) = hint(event, &watched) {
                let _ = hints.send(Command::Hint(hint)); // the thread has ended: nobody to tell
            }
        }));
        let changes = commands.clone();
        let mounts = Mounts::follow(move || {
            let _ = changes.send(Command::Mounts); // as above
        });
        let held = held::File::open(held);
        let state = Thread {
            inbox,
            events,
            watching: Watching::new(directories.clone(), watcher.ok()),
            scanner: Scanner::new(directories, rules, held.held()),
            held,
            clock: Clock::start(),
            timer: RescanTimer::new(),
            written: Written::default(),
            told: Difference::default(),
            blind: None,
        };
        let thread = move || state.run();
        std::thread::Builder::new().name("catalog".into()).spawn(thread)?;
        let mounts = mounts.inspect_err(|error| {
            tracing::warn!(
                "failed to follow what is mounted: {error}; a mount over a functions directory is found within 10 min"
            );
        });
        Ok(Self {
            commands,
            _mounts: mounts.ok(),
        })
    }

    /// Looks at everything. [`CatalogEvent::Scanned`] with `number` follows.
    pub fn rescan(&self, number: u64, how: Rescan) {
        let _ = self.commands.send(Command::Rescan { number, how }); // it only ends with this handle
    }

    /// Asks whether what was handed on still lies there: [`CatalogEvent::Confirmed`] with `number` follows.
    pub fn confirm(&self, number: u32, candidate: Candidate) {
        let _ = self.commands.send(Command::Confirm { number, candidate }); // as above
    }

    /// Replaces what says which files are functions.
    pub fn set_rules(&self, rules: Rules) {
        let _ = self.commands.send(Command::Rules(rules)); // as above
    }
}

struct Thread {
    inbox: Receiver<Command>,
    events: UnboundedSender<CatalogEvent>,
    watching: Watching,
    scanner: Scanner,
    clock: Clock,
    timer: RescanTimer,
    written: Written,
    /// What was said last, and why directories cannot be watched.
    told: Difference,
    held: held::File,
    blind: Option<String>,
}

impl Thread {
    fn run(mut self) {
        loop {
            let now = self.clock.now().mono;
            let command = match self.timer.due().map(|due| due.saturating_sub(now)) {
                // Before any command: those that never cease delay no look.
                Some(Duration::ZERO) => {
                    self.look();
                    continue;
                }
                Some(left) => self.inbox.recv_timeout(left),
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
            };
            match command {
                Ok(Command::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Command::Hint(hint)) => {
                    if hint.rewatch {
                        self.watching.forget();
                        self.written.lost();
                    }
                    hint.removed.iter().for_each(|path| self.written.removed(path));
                    hint.written.into_iter().for_each(|path| self.written.written(path));
                    hint.complete.into_iter().for_each(|path| self.written.closed(path));
                    self.timer.hint(self.clock.now().mono);
                }
                // A rescan follows.
                Ok(Command::Rules(rules)) => self.scanner.set_rules(rules),
                Ok(Command::Confirm { number, candidate }) => {
                    let same = self.scanner.confirm(&candidate, &self.written);
                    if !same {
                        self.timer.hint(self.clock.now().mono);
                    }
                    self.tell(CatalogEvent::Confirmed(number, same));
                }
                // Others come and go all the time where there are containers.
                Ok(Command::Mounts) => {
                    if self.scanner.is_exchanged() {
                        self.watching.forget();
                        self.timer.hint(self.clock.now().mono);
                    }
                }
                Ok(Command::Rescan { number, how }) => {
                    if how.forget {
                        self.scanner.forget();
                    }
                    if how.accept_empty {
                        self.scanner.accept_empty();
                    }
                    self.timer.ask(number, self.clock.now().mono);
                }
                // A look is due.
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Looks at the directories and tells what is different.
    fn look(&mut self) {
        let began = self.clock.now();
        // Watched before looked at: what changes after the look is then an event.
        let blind = self.watching.refresh();
        if blind != self.blind {
            self.blind.clone_from(&blind);
            blind.into_iter().for_each(|why| self.tell(CatalogEvent::Blind(why)));
        }
        let found = self.scanner.scan(&self.written, began);
        self.written.looked();
        let look = FinishedScan {
            began: began.mono,
            ended: self.clock.now().mono,
            moved: !found.changed.is_empty() || !found.removed.is_empty(),
            unsettled: found.unsettled,
            // Nothing tells that a disk is well again.
            watched: self.watching.is_complete() && found.unread.is_empty(),
        };
        let settled = self.timer.finished(look);
        self.report(found);
        for number in settled.over {
            self.tell(CatalogEvent::Scanned(number));
        }
        if settled.quiet {
            self.tell(CatalogEvent::Quiet);
        }
    }

    fn report(&mut self, found: Difference) {
        let told = &mut self.told;
        let same = found.problems == told.problems
            && found.unclaimed == told.unclaimed
            && found.clashes == told.clashes
            && found.unread == told.unread;
        if !same {
            told.problems.clone_from(&found.problems);
            told.unclaimed.clone_from(&found.unclaimed);
            told.clashes.clone_from(&found.clashes);
            told.unread.clone_from(&found.unread);
            self.tell(CatalogEvent::Found {
                problems: found.problems,
                clashes: found.clashes,
                unclaimed: found.unclaimed,
                unread: found.unread,
            });
        }
        self.held.store(self.scanner.held());
        if !found.removed.is_empty() {
            self.tell(CatalogEvent::Removed(found.removed));
        }
        if !found.changed.is_empty() {
            self.tell(CatalogEvent::Changed(found.changed));
        }
    }

    fn tell(&self, event: CatalogEvent) {
        let _ = self.events.send(event); // the driver is gone: the thread ends with its handle
    }
}

#[cfg(test)]
mod tests;
