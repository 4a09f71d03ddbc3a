//! The catalog's thread: it turns inotify hints into scans, and scans into events for the driver. [`RescanTimer`]
//! decides when to scan.

use super::listed_directories::ListedDirectories;
use super::marks::{Marks, Question};
use super::mounts::Mounts;
use super::rescan_timer::{FinishedScan, RescanTimer};
use super::scan::{Difference, Remembered, Scanner};
use super::walk::{Findings, WalkRules, marked};
use super::watching::{Hint, Watching, hint, mark, watcher};
use super::written::WrittenFiles;
use crate::clock::Clock;
use fnd_core::lifecycle::SourceFiles;
use fnd_wire::ids::FunctionName;
use notify::RecommendedWatcher;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a question is kept whether files were reported: longer than anybody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// An event for the driver.
#[derive(Debug)]
pub enum CatalogEvent {
    /// Functions to install; their files are complete.
    Changed(Vec<SourceFiles>),
    /// Names of secrets that lie encrypted beside functions, and have changed.
    Secrets(BTreeSet<String>),
    /// Functions that are gone.
    Removed(Vec<FunctionName>),
    /// All findings; replaces the previous event of this kind.
    Findings(Findings),
    /// A scan requested by [`Catalog::rescan`] is over; its results were sent before.
    Scanned(u64),
    /// The answer to [`Catalog::confirm`] with that number: whether the files were still as they were reported.
    Confirmed(u32, bool),
    /// An answer to [`Catalog::reported`] with that number: whether the files of the function were reported as they are. If not,
    /// another answer follows.
    Reported(u32, bool),
    /// The work of [`Catalog::arrange`] for this function is done: later reports are about the files as they are now.
    Arranged(FunctionName),
    /// Nothing has changed for a second.
    Quiet,
    /// Directories cannot be watched; they are scanned from time to time. Says why.
    Blind(String),
}

enum CatalogCommand {
    Hint(Hint),
    Rules(WalkRules),
    Rescan {
        number: u64,
        how: Rescan,
    },
    /// There are questions: [`Questions`].
    Confirm,
    Arrange(FunctionName, Arrange),
    /// All events before this mark have arrived.
    Mark(u64),
    /// A file system was mounted or unmounted anywhere.
    Mounts,
    End,
}

/// The questions that wait for the thread, whether files are still the same. Only the first one wakes the thread: at a
/// start there is one for each of ten thousand functions.
type Questions = Arc<Mutex<Vec<Question>>>;

/// Moves the files of a function, and returns those that are there now, complete.
type Arrange = Box<dyn FnOnce() -> Vec<PathBuf> + Send>;

/// The paths that the catalog uses.
#[derive(Debug)]
pub struct CatalogPaths {
    pub directories: Vec<PathBuf>,
    /// The file that lists the directories that held functions when fnd last ran.
    pub held: PathBuf,
    /// The functions of foreign files when fnd last ran.
    pub remembered: Vec<Remembered>,
    /// A directory for the marks that order its questions among the events.
    pub marks: PathBuf,
}

/// The options of a rescan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rescan {
    /// Whether unchanged functions are reported as well.
    pub forget: bool,
    /// Whether empty directories are meant to be empty.
    pub accept_empty: bool,
}

/// Handle to the thread; dropping it ends the thread.
pub struct Catalog {
    commands: Sender<CatalogCommand>,
    questions: Questions,
    /// Its thread ends when this is dropped.
    _mounts: Option<Mounts>,
}

impl Drop for Catalog {
    fn drop(&mut self) {
        // A message, because the watcher has a sender too, and the thread owns the watcher. If the thread has ended
        // already, sending fails, which does no harm.
        let _ = self.commands.send(CatalogCommand::End);
    }
}

impl Catalog {
    /// Starts watching. The first [`Catalog::rescan`] causes the first scan.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        places: CatalogPaths,
        rules: WalkRules,
        send: impl Fn(CatalogEvent) + Send + 'static,
    ) -> std::io::Result<Self> {
        Self::with_watcher(places, rules, Box::new(send), watcher)
    }

    /// Starts with the watcher that `make` builds; `make` gets the handler of its events.
    fn with_watcher(
        CatalogPaths {
            directories,
            held,
            remembered,
            marks,
        }: CatalogPaths,
        rules: WalkRules,
        send: Box<dyn Fn(CatalogEvent) + Send>,
        make: impl FnOnce(Box<dyn FnMut(notify::Result<notify::Event>) + Send>) -> notify::Result<RecommendedWatcher>,
    ) -> std::io::Result<Self> {
        // Unbounded on both sides: inotify bounds its own queue, and the driver and this thread must never block on
        // each other. The contents of the directories bound the number of events for each scan.
        let (commands, inbox) = channel();
        let hints = commands.clone();
        let (watched, marked) = (directories.clone(), marks.clone());
        let watcher = make(Box::new(move |event| {
            let command = match mark(&event, &marked) {
                Some(mark) => Some(CatalogCommand::Mark(mark)),
                None => hint(event, &watched).map(CatalogCommand::Hint),
            };
            if let Some(command) = command {
                let _ = hints.send(command); // the thread has ended: no scan is needed
            }
        }));
        let changes = commands.clone();
        let mounts = Mounts::follow(move || {
            let _ = changes.send(CatalogCommand::Mounts); // as above
        });
        let held = ListedDirectories::open(held);
        let questions = Questions::default();
        let state = CatalogThread {
            inbox,
            send,
            questions: Arc::clone(&questions),
            unreported: Vec::new(),
            watching: Watching::new(directories.clone(), marks.clone(), watcher.ok()),
            marks: Marks::new(marks),
            scanner: Scanner::new(directories, rules, &held.held).remembering(remembered),
            held,
            clock: Clock::start(),
            timer: RescanTimer::new(),
            written: WrittenFiles::default(),
            reported: Findings::default(),
            blind: None,
            is_late: false,
        };
        let thread = move || state.run();
        std::thread::Builder::new().name("catalog".into()).spawn(thread)?;
        let mounts = mounts.inspect_err(|error| {
            tracing::warn!(
                "failed to watch mounts: {error}; a mount over a functions directory is found within 10 min"
            );
        });
        Ok(Self {
            commands,
            questions,
            _mounts: mounts.ok(),
        })
    }

    /// Scans all directories. [`CatalogEvent::Scanned`] with `number` follows.
    pub fn rescan(&self, number: u64, how: Rescan) {
        let _ = self.commands.send(CatalogCommand::Rescan { number, how }); // the thread ends only with this handle
    }

    /// Asks whether the files of a reported function are still the same. [`CatalogEvent::Confirmed`] with `number`
    /// follows.
    pub fn confirm(&self, number: u32, candidate: SourceFiles) {
        self.ask(Question::Same(number, candidate));
    }

    /// Asks to be told when the files of a function are reported as they are now. [`CatalogEvent::Reported`] with `number`
    /// follows.
    pub(crate) fn reported(&self, number: u32, function: FunctionName) {
        self.ask(Question::Reported(number, function));
    }

    fn ask(&self, question: Question) {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        questions.push(question);
        if questions.len() == 1 {
            let _ = self.commands.send(CatalogCommand::Confirm); // as above
        }
    }

    /// Moves the files of a function between two scans, so that no scan sees only some of them moved.
    /// [`CatalogEvent::Arranged`] follows, and then a scan.
    pub(crate) fn arrange(&self, function: FunctionName, work: Box<dyn FnOnce() -> Vec<PathBuf> + Send>) {
        let _ = self.commands.send(CatalogCommand::Arrange(function, work)); // as above
    }

    /// Replaces the rules that say which files are functions.
    pub fn set_rules(&self, rules: WalkRules) {
        let _ = self.commands.send(CatalogCommand::Rules(rules)); // as above
    }
}

struct CatalogThread {
    inbox: Receiver<CatalogCommand>,
    questions: Questions,
    /// The questions whether files were reported that wait for a scan, with the time when each was asked.
    unreported: Vec<(u32, FunctionName, Duration)>,
    /// Passes an event on; the driver may be gone: the thread ends with its handle.
    send: Box<dyn Fn(CatalogEvent) + Send>,
    watching: Watching,
    marks: Marks,
    scanner: Scanner,
    clock: Clock,
    timer: RescanTimer,
    written: WrittenFiles,
    /// The findings of the last report.
    reported: Findings,
    held: ListedDirectories,
    /// Why directories cannot be watched.
    blind: Option<String>,
    /// Whether a requested scan was over before all files were complete.
    is_late: bool,
}

impl CatalogThread {
    fn run(mut self) {
        loop {
            let now = self.clock.now().mono;
            let due = self.timer.due();
            // Before any command, so that endless commands do not delay a scan.
            if due.is_some_and(|due| due <= now) {
                self.scan();
                continue;
            }
            let command = match due.into_iter().chain(self.marks.due()).min() {
                Some(due) => self.inbox.recv_timeout(due.saturating_sub(now)),
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
            };
            match command {
                Ok(CatalogCommand::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(CatalogCommand::Hint(hint)) => {
                    if hint.rewatch {
                        self.watching.forget();
                        // The lost events may be of writes to files that counted as complete.
                        self.written.lost();
                        self.scanner.lost();
                    }
                    hint.removed.iter().for_each(|path| self.written.removed(path));
                    hint.written.into_iter().for_each(|path| self.written.written(path));
                    hint.complete.into_iter().for_each(|path| self.written.closed(path));
                    self.timer.mark_dirty(self.clock.now().mono);
                }
                // The driver requests a rescan afterwards.
                Ok(CatalogCommand::Rules(rules)) => self.scanner.rules = rules,
                Ok(CatalogCommand::Confirm) => {
                    // The lock is free before the files are looked at: the driver never waits for a directory.
                    let questions = {
                        let mut waiting = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
                        std::mem::take(&mut *waiting)
                    };
                    questions.into_iter().for_each(|question| self.asked(question));
                }
                Ok(CatalogCommand::Arrange(function, work)) => {
                    work().into_iter().for_each(|path| self.written.closed(path));
                    self.timer.mark_dirty(self.clock.now().mono);
                    self.send(CatalogEvent::Arranged(function));
                }
                Ok(CatalogCommand::Mark(mark)) => self.confirm_until(mark),
                // With containers, other mounts come and go all the time.
                Ok(CatalogCommand::Mounts) => {
                    if self.scanner.is_exchanged() {
                        self.watching.forget();
                        self.timer.mark_dirty(self.clock.now().mono);
                    }
                }
                Ok(CatalogCommand::Rescan { number, how }) => {
                    if how.forget {
                        self.scanner.forget();
                    }
                    if how.accept_empty {
                        self.scanner.accept_empty();
                    }
                    self.timer.ask(number, self.clock.now().mono);
                }
                // A scan is due, or a mark was lost.
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(mark) = self.marks.overdue(self.clock.now().mono) {
                        self.confirm_until(mark);
                    }
                }
            }
        }
    }

    /// Answers a question at once, or when all events of the past have arrived.
    fn asked(&mut self, question: Question) {
        let sees_marks = self.watching.sees_marks();
        let waits = match &question {
            Question::Same(_, candidate) => sees_marks && self.scanner.needs_events(candidate),
            Question::Reported(..) => {
                if !sees_marks || !self.watching.is_complete() {
                    self.timer.mark_dirty(self.clock.now().mono); // no event tells of a change, so a scan has to
                }
                sees_marks
            }
        };
        let answer = if waits {
            self.marks.ask(question, self.clock.now().mono)
        } else {
            Some(question)
        };
        self.confirm(answer);
    }

    /// Answers the questions up to a mark.
    fn confirm_until(&mut self, mark: u64) {
        let questions = self.marks.arrived(mark);
        self.confirm(questions);
    }

    /// Answers questions; those whether files were reported after the next scan, if something has changed since the last one.
    fn confirm(&mut self, questions: impl IntoIterator<Item = Question>) {
        for question in questions {
            match question {
                Question::Reported(number, function) => {
                    self.unreported.push((number, function, self.clock.now().mono));
                }
                Question::Same(number, candidate) => {
                    let same = self.scanner.confirm(&candidate, &self.written);
                    if !same {
                        self.timer.mark_dirty(self.clock.now().mono);
                    }
                    self.send(CatalogEvent::Confirmed(number, same));
                }
            }
        }
        if self.timer.dirty_since.is_none() {
            self.answer_unreported();
        }
    }

    fn answer_unreported(&mut self) {
        let now = self.clock.now().mono;
        // A file may be written to forever.
        self.unreported.retain(|(.., asked)| *asked + PATIENCE > now);
        let (scanner, send) = (&self.scanner, &self.send);
        self.unreported.retain(|(number, function, _)| {
            let waits = scanner.is_incomplete(function);
            send(CatalogEvent::Reported(*number, !waits));
            waits
        });
    }

    /// Scans the directories and reports the differences.
    fn scan(&mut self) {
        let began = self.clock.now();
        // Watch before the scan, so that a change after the scan causes an event.
        let blind = self.watching.refresh();
        if blind != self.blind {
            self.blind.clone_from(&blind);
            blind.into_iter().for_each(|why| self.send(CatalogEvent::Blind(why)));
        }
        let mut found = self.scanner.scan(&self.written, began);
        self.written.scanned();
        let scan = FinishedScan {
            began: began.mono,
            ended: self.clock.now().mono,
            moved: !found.changed.is_empty()
                || !found.secrets.is_empty()
                || !found.removed.is_empty()
                || marked(&found.findings.problems).ne(marked(&self.reported.problems)),
            unsettled: found.unsettled,
            // No event reports that a failing disk works again.
            watched: self.watching.is_complete() && found.findings.unread.is_empty(),
        };
        let settled = self.timer.finished(scan);
        // A scan that is over without these files says nothing about their functions.
        self.is_late = !found.incomplete.is_empty() && (self.is_late || !settled.over.is_empty());
        if self.is_late {
            found.findings.unread.append(&mut found.incomplete);
        }
        self.report(found);
        self.answer_unreported();
        for number in settled.over {
            self.send(CatalogEvent::Scanned(number));
        }
        if settled.quiet {
            self.send(CatalogEvent::Quiet);
        }
    }

    fn report(&mut self, found: Difference) {
        if found.findings != self.reported {
            self.reported.clone_from(&found.findings);
            self.send(CatalogEvent::Findings(found.findings));
        }
        self.held.store(self.scanner.held());
        // Functions that are gone come first: then their routes are free for the functions that are new.
        if !found.removed.is_empty() {
            self.send(CatalogEvent::Removed(found.removed));
        }
        if !found.secrets.is_empty() {
            self.send(CatalogEvent::Secrets(found.secrets));
        }
        if !found.changed.is_empty() {
            self.send(CatalogEvent::Changed(found.changed));
        }
    }

    fn send(&self, event: CatalogEvent) {
        (self.send)(event);
    }
}

#[cfg(any(test, fuzzing, feature = "simulate"))]
pub(crate) mod detached {
    //! A catalog without its thread: a test or the simulation answers in its place.

    use super::*;

    /// A request of the driver to the catalog.
    #[derive(Debug)]
    pub(crate) enum CatalogRequest {
        /// Scan the directories in this way; the answer has this number.
        Rescan(u64, Rescan),
        /// Say whether the files of this function are still the same; the answer has this number.
        Confirm(u32, FunctionName),
        /// Tell when the files of this function are reported as they are now; the answer has this number.
        Reported(u32),
    }

    /// The other end of the handle.
    pub(crate) struct DetachedCatalog {
        commands: Receiver<CatalogCommand>,
        questions: Questions,
    }

    impl Catalog {
        /// Returns a handle without a thread.
        pub(crate) fn detached() -> (Self, DetachedCatalog) {
            let (sender, commands) = channel();
            let questions = Questions::default();
            let detached = DetachedCatalog {
                commands,
                questions: Arc::clone(&questions),
            };
            let handle = Self {
                commands: sender,
                questions,
                _mounts: None,
            };
            (handle, detached)
        }
    }

    impl DetachedCatalog {
        /// Returns the requests since the last call.
        pub(crate) fn requests(&self) -> Vec<CatalogRequest> {
            let rescans = self.commands.try_iter().filter_map(|command| match command {
                CatalogCommand::Rescan { number, how } => Some(CatalogRequest::Rescan(number, how)),
                _ => None,
            });
            let rescans: Vec<_> = rescans.collect();
            let questions = std::mem::take(&mut *self.questions.lock().unwrap_or_else(PoisonError::into_inner));
            let questions = questions.into_iter().map(|question| match question {
                Question::Same(number, files) => CatalogRequest::Confirm(number, files.function),
                Question::Reported(number, _) => CatalogRequest::Reported(number),
            });
            questions.chain(rescans).collect()
        }
    }
}

#[cfg(test)]
mod tests;
