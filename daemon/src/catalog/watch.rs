//! The catalog's thread: inotify hints → scans → events for the driver.

use super::scan::{Candidate, Difference, Scanner};
use super::walk::Rules;
use crate::clock;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::ids::FunctionName;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// Quiet time after which scripts run by being there: a copied directory is then complete.
const QUIET: Duration = Duration::from_secs(1);
/// Events come in bursts; one scan serves all of this long.
const BURST: Duration = Duration::from_millis(20);
/// How soon to look again at what is not complete.
const UNSETTLED: Duration = Duration::from_millis(250);
/// Inotify does not see everything (NFS, bind mounts, a link's target): look anyway.
const RESCAN: Duration = Duration::from_secs(600);
/// Longest a scan's answer waits for files that are not complete: one that is written to all the time must not hold up
/// everything else.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon to try again to watch a directory that is not there or could not be watched.
const REWATCH: Duration = Duration::from_secs(5);

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
    },
    /// A scan asked for by [`Catalog::rescan`], or the first one, is over; what it found was told before.
    Scanned(u64),
    /// Nothing changed for a second.
    Quiet,
    /// Directories cannot be watched; they are looked at from time to time.
    Blind(String),
}

enum Command {
    /// Something happened; these paths were closed or renamed.
    Hint(Vec<PathBuf>),
    Rules(Rules),
    Rescan {
        number: u64,
        forget: bool,
    },
}

/// Handle to the thread; dropping it ends the thread.
pub struct Catalog {
    commands: Sender<Command>,
}

impl Catalog {
    /// Starts watching. Nothing is scanned before the first [`Catalog::rescan`].
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        directories: Vec<PathBuf>,
        rules: Rules,
        events: UnboundedSender<CatalogEvent>,
    ) -> std::io::Result<Self> {
        // Unbounded on both sides: inotify itself bounds its queue, and the driver must never block on this thread nor
        // this thread on the driver. What is sent per scan is bounded by what lies in the directories.
        let (commands, inbox) = channel();
        let hints = commands.clone();
        let watched = directories.clone();
        let watcher = notify::recommended_watcher(move |event| {
            if let Some(complete) = hint(event, &watched) {
                let _ = hints.send(Command::Hint(complete)); // the thread has ended: nobody to tell
            }
        });
        let watching = Watching {
            directories: directories.clone(),
            watched: HashSet::new(),
            watcher: watcher.ok(),
        };
        let now = clock::monotonic();
        let state = Thread {
            inbox,
            events,
            watching,
            scanner: Scanner::new(directories, rules),
            phase: Phase::Idle,
            last_scan: now,
            last_change: now,
            complete: HashSet::new(),
            asked: Vec::new(),
            asked_at: now,
            started: false,
            told: Difference::default(),
        };
        let thread = move || state.run();
        std::thread::Builder::new().name("catalog".into()).spawn(thread)?;
        Ok(Self { commands })
    }

    /// Looks at everything; `forget` hands on what is unchanged as well. [`CatalogEvent::Scanned`] with `number` follows.
    pub fn rescan(&self, number: u64, forget: bool) {
        let _ = self.commands.send(Command::Rescan { number, forget }); // it only ends with this handle
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
    phase: Phase,
    last_scan: Instant,
    last_change: Instant,
    /// Paths closed or renamed since the last scan.
    complete: HashSet<PathBuf>,
    /// Scans asked for and not answered; the first one begins it all.
    asked: Vec<u64>,
    asked_at: Instant,
    started: bool,
    told: Difference,
}

/// What to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing to do before the periodic look.
    Idle,
    /// A change was seen and handed on; quiet comes next.
    Settling,
    /// Something is not complete.
    Unsettled,
}

impl Thread {
    fn run(mut self) {
        while let Some(scan) = self.wait() {
            // Not before the first wish for one.
            if scan && (self.started || !self.asked.is_empty()) {
                self.look();
            }
        }
    }

    /// Waits for something to do; says whether that is a scan. Nothing: the handle is gone.
    fn wait(&mut self) -> Option<bool> {
        let first = match self
            .inbox
            .recv_timeout(self.due().saturating_duration_since(clock::monotonic()))
        {
            Ok(command) => command,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => return Some(self.time_out()),
        };
        // Everything that arrives within a burst is one scan. Both ends are instants: commands that never cease delay nothing.
        let end = clock::monotonic() + BURST;
        let mut scan = self.take(first);
        while let Ok(command) = self
            .inbox
            .recv_timeout(end.saturating_duration_since(clock::monotonic()))
        {
            scan |= self.take(command);
            if clock::monotonic() >= end {
                break;
            }
        }
        if !scan && clock::monotonic() >= self.due() {
            scan = self.time_out();
        }
        Some(scan)
    }

    /// When there is something to do although nobody says so.
    fn due(&self) -> Instant {
        match self.phase {
            Phase::Idle if self.watching.is_complete() => self.last_scan + RESCAN,
            Phase::Idle => self.last_scan + REWATCH,
            Phase::Settling => self.last_change + QUIET,
            Phase::Unsettled => self.last_scan + UNSETTLED,
        }
    }

    /// Does what is due; says whether that is a scan.
    fn time_out(&mut self) -> bool {
        if self.phase != Phase::Settling {
            return true;
        }
        self.phase = Phase::Idle;
        self.tell(CatalogEvent::Quiet);
        false
    }

    /// Takes a command; says whether it calls for a scan.
    fn take(&mut self, command: Command) -> bool {
        match command {
            Command::Hint(complete) => {
                self.complete.extend(complete);
                self.last_change = clock::monotonic();
                true
            }
            Command::Rules(rules) => {
                self.scanner.set_rules(rules);
                false
            }
            Command::Rescan { number, forget } => {
                if forget {
                    self.scanner.forget();
                }
                self.asked.push(number);
                self.asked_at = clock::monotonic();
                true
            }
        }
    }

    /// Scans and tells what is different.
    fn look(&mut self) {
        self.started = true;
        // Watched before looked at: what changes after the look is then an event.
        if let Some(blind) = self.watching.refresh() {
            self.tell(CatalogEvent::Blind(blind));
        }
        let found = self.scanner.scan(&std::mem::take(&mut self.complete), clock::unix_ms());
        self.last_scan = clock::monotonic();
        let moved = !found.changed.is_empty() || !found.removed.is_empty();
        if moved {
            self.last_change = self.last_scan;
        }
        self.phase = match self.phase {
            _ if found.unsettled => Phase::Unsettled,
            Phase::Idle if !moved => Phase::Idle,
            Phase::Idle | Phase::Settling | Phase::Unsettled => Phase::Settling,
        };
        self.report(found);
        if self.phase != Phase::Unsettled || self.asked_at.elapsed() >= PATIENCE {
            for number in std::mem::take(&mut self.asked) {
                self.tell(CatalogEvent::Scanned(number));
            }
        }
    }

    fn report(&mut self, found: Difference) {
        let told = &mut self.told;
        let same =
            found.problems == told.problems && found.unclaimed == told.unclaimed && found.clashes == told.clashes;
        if !same {
            told.problems.clone_from(&found.problems);
            told.unclaimed.clone_from(&found.unclaimed);
            told.clashes.clone_from(&found.clashes);
            self.tell(CatalogEvent::Found {
                problems: found.problems,
                clashes: found.clashes,
                unclaimed: found.unclaimed,
            });
        }
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

/// Returns what an event says: which paths are complete now, or nothing where it calls for no look.
fn hint(event: notify::Result<notify::Event>, directories: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let Ok(event) = event else { return Some(Vec::new()) };
    // Overflow: what was missed is not known, a scan finds it. Checked before the paths, of which there are none.
    if event.need_rescan() {
        return Some(Vec::new());
    }
    // The parents are watched too, for what happens to the directories themselves; their other content is nobody's.
    let ours = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory));
    if !event.paths.is_empty() && !event.paths.iter().any(ours) {
        return None;
    }
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_))
        | EventKind::Create(CreateKind::Folder) => Some(event.paths),
        // Our own scans and the spawner's reads would otherwise call for the next scan.
        EventKind::Access(_) => None,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => {
            Some(Vec::new())
        }
    }
}

/// Which directories are watched. Each functions directory is watched with everything below it, and its parent too, so that
/// a directory that is removed and made again is found again.
struct Watching {
    directories: Vec<PathBuf>,
    /// Directory and inode watched.
    watched: HashSet<(PathBuf, u64)>,
    watcher: Option<RecommendedWatcher>,
}

impl Watching {
    fn is_complete(&self) -> bool {
        self.directories
            .iter()
            .all(|dir| inode(dir).is_some_and(|ino| self.watched.contains(&(dir.clone(), ino))))
    }

    /// Watches what is there and not yet watched. Returns why something cannot be.
    fn refresh(&mut self) -> Option<String> {
        let Some(watcher) = &mut self.watcher else {
            return Some("the kernel gives no inotify instance; changes are found within ten minutes".into());
        };
        let mut problem = None;
        for dir in &self.directories {
            let parent = dir.parent().unwrap_or(dir).to_owned();
            for (path, mode) in [
                (dir.clone(), RecursiveMode::Recursive),
                (parent, RecursiveMode::NonRecursive),
            ] {
                let Some(ino) = inode(&path) else { continue };
                if self.watched.contains(&(path.clone(), ino)) {
                    continue;
                }
                match watcher.watch(&path, mode) {
                    Ok(()) => {
                        self.watched.retain(|(known, _)| *known != path);
                        self.watched.insert((path, ino));
                    }
                    Err(error) => {
                        problem = Some(format!(
                            "failed to watch {}: {error}; raise fs.inotify.max_user_watches; changes are found within ten minutes",
                            path.display()
                        ));
                    }
                }
            }
        }
        problem
    }
}

fn inode(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|metadata| metadata.ino())
}
