//! `fnd-helper --watch`: sees the files of `[[file]]` as the user of the function, and tells fnd which are ready.
//!
//! It is one thread that waits in poll(2). What it decides is in `fnd_core::triggers::file`; here are the descriptors.
//! Without changes in its directories only a mount anywhere on the machine wakes it, and the looks at directories whose
//! changes the kernel does not report. It ends when its standard input ends, so no watcher remains after fnd.
//!
//! Files:
//! - `act`: deletes and moves files after their invocation
//! - `disk`: looks at files and directories
//! - `found`: what hinders in a directory
//! - `mounts`: mounts over and below watched directories
//! - `pipes`: the messages to and from fnd
//! - `scans`: lists the files of directories in pieces
//! - `watched`: whether the watched directories are there, and are still the same
//! - `watches`: the kernel's reports of changes

mod act;
mod disk;
mod found;
mod mounts;
mod pipes;
mod scans;
mod watched;
mod watches;

use crate::clock;
use fnd_core::triggers::file::machine::{
    Acted, FileClock, FileEvent, FileMachine, Look, NamedFile, POLL_INTERVAL, WatchAction,
};
use fnd_core::triggers::file::message::ToWatcher;
use fnd_manifest::function::keys::FileTrigger;
use found::ScanFindings;
use mounts::Mounts;
use pipes::Pipes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use scans::Scans;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watched::WatchedDirectory;
use watches::{KernelReport, Watches};

/// The environment variable with the entries of `[[file]]`, as JSON.
pub const ENTRIES: &str = "FND_WATCHED";
/// Shortest time between two reads of events: under a flood at most 200 wake-ups a second.
const PAUSE: Duration = Duration::from_millis(5);

/// Shortest time between looks at all files.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// Runs the watcher until its standard input ends.
#[must_use]
pub fn run() -> ExitCode {
    crate::allocator::set_bounds();
    let entries = std::env::var(ENTRIES).map_err(|error| format!("`{ENTRIES}`: {error}"));
    let entries = entries.and_then(|text| {
        let mut entries: Vec<FileTrigger> =
            serde_json::from_str(&text).map_err(|error| format!("`{ENTRIES}` cannot be read: {error}"))?;
        for every in entries.iter_mut().filter_map(|entry| entry.every.as_mut()) {
            *every = EVERY_MIN.max(*every);
        }
        Ok(entries)
    });
    let (input, output) = (io::stdin(), io::stdout());
    let ended = entries.and_then(|entries| {
        let pipes = Pipes::new(input.as_fd(), output.as_fd()).map_err(|error| error.to_string())?;
        WatchProcess::new(entries, pipes)
            .run()
            .map_err(|error| error.to_string())
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the log of the function.
            let _ = writeln!(io::stderr(), "fnd: the watcher of `[[file]]` ends: {error}");
            ExitCode::FAILURE
        }
    }
}

struct WatchProcess<'a> {
    machine: FileMachine,
    pipes: Pipes<'a>,
    watched: Vec<WatchedDirectory>,
    /// Where the paths led at the last look.
    places: Option<u64>,
    watches: Watches,
    scans: Scans,
    mounts: Option<Mounts>,
    origin: Instant,
    /// When events may be read again.
    pause: Duration,
    /// When the ways to the directories are examined, though nothing is reported.
    examined_next: Option<Duration>,
    /// fnd has sent all known files.
    begun: bool,
}

impl<'a> WatchProcess<'a> {
    fn new(entries: Vec<FileTrigger>, pipes: Pipes<'a>) -> Self {
        let machine = FileMachine::new(entries);
        Self {
            watched: WatchedDirectory::all(machine.entries()),
            places: None,
            watches: Watches::new(),
            scans: Scans::default(),
            mounts: Mounts::open(),
            origin: clock::monotonic(),
            pause: Duration::ZERO,
            examined_next: None,
            begun: false,
            machine,
            pipes,
        }
    }

    fn clock(&self) -> FileClock {
        FileClock {
            now: clock::monotonic().saturating_duration_since(self.origin),
            wall_ns: clock::unix_ns(),
        }
    }

    fn handle(&mut self, event: FileEvent) {
        self.machine.handle(self.clock(), event);
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            if !self.pipes.is_full() {
                self.turn()?;
            }
            match self.pipes.send() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()), // fnd has ended
                sent => sent?,
            }
            let ready = self.wait()?;
            if ready.input && !self.receive()? {
                return Ok(());
            }
            if ready.mounts {
                self.mounts_changed();
                self.examine();
            }
            if self.examined_next.is_some_and(|next| next <= self.clock().now) {
                self.examine();
            }
            if ready.events {
                self.read_events()?;
            }
            if self.begun && !self.pipes.is_full() {
                self.scan();
            }
        }
    }

    /// Waits until something is to be done.
    fn wait(&self) -> io::Result<Readiness> {
        let now = self.clock().now;
        let is_full = self.pipes.is_full();
        let is_scanning = self.begun && !self.scans.is_idle();
        // Until fnd has sent what it knows, and while it reads nothing, the events stay with the kernel.
        let events = self.watches.descriptor().filter(|_| self.begun && !is_full);
        let paused = self.pause > now;
        let mut until = self.machine.deadline().filter(|_| !is_full);
        if is_scanning && !is_full {
            // The scan goes on at once, after whatever waits in the descriptors.
            until = Some(now);
        }
        until = until.into_iter().chain(self.examined_next).min();
        if events.is_some() && paused {
            until = Some(until.map_or(self.pause, |until| until.min(self.pause)));
        }
        let mut descriptors = Vec::with_capacity(4);
        descriptors.push(PollFd::new(&self.pipes.input, PollFlags::IN));
        if !self.pipes.is_empty() {
            descriptors.push(PollFd::new(&self.pipes.output, PollFlags::OUT));
        }
        let mounts = self.mounts.as_ref().filter(|_| self.begun);
        let mounts = mounts.map(|mounts| {
            // The kernel reports a change of the mounts as a priority event (proc_pid_mounts(5)).
            descriptors.push(PollFd::new(mounts, PollFlags::PRI));
            descriptors.len() - 1
        });
        let events = events.filter(|_| !paused).map(|events| {
            descriptors.push(PollFd::new(events, PollFlags::IN));
            descriptors.len() - 1
        });
        let timeout = until.map(|until| until.saturating_sub(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut descriptors, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // The end of a pipe counts too: the next read or write reports it.
        let is_ready = |at: usize, wanted: PollFlags| {
            let flags = descriptors.get(at).map(PollFd::revents);
            flags.is_some_and(|flags| flags.intersects(wanted | PollFlags::HUP | PollFlags::ERR))
        };
        Ok(Readiness {
            input: is_ready(0, PollFlags::IN),
            mounts: mounts.is_some_and(|at| {
                descriptors
                    .get(at)
                    .is_some_and(|descriptor| descriptor.revents().contains(PollFlags::PRI))
            }),
            events: events.is_some_and(|at| is_ready(at, PollFlags::IN)),
        })
    }

    /// Handles the messages of fnd; says whether there may be more.
    fn receive(&mut self) -> io::Result<bool> {
        let Some(messages) = self.pipes.receive()? else {
            return Ok(false);
        };
        for message in messages {
            let is_begin = matches!(message, ToWatcher::Begin(_));
            self.handle(FileEvent::Message(message));
            if is_begin {
                // Before this message, files that fnd knows would count as new.
                self.begun = true;
                self.mounts_changed();
                self.examine();
            }
        }
        Ok(true)
    }

    fn examine(&mut self) {
        watched::examine(&mut self.watched, &mut self.watches, |number| self.scans.all(number));
        let next = self.clock().now.saturating_add(POLL_INTERVAL);
        self.examined_next = watched::is_hidden(&self.watched).then_some(next);
        let places = watched::places(&self.watched);
        if self.places.replace(places) != Some(places) {
            self.handle(FileEvent::Places(places));
        }
        self.report_states();
    }

    fn mounts_changed(&mut self) {
        if let Some(mounts) = &mut self.mounts {
            watched::mounts_changed(&mut self.watched, &mounts.read(), |number| self.scans.all(number));
        }
    }

    fn report_states(&mut self) {
        for event in watched::states(&mut self.watched) {
            self.handle(event);
        }
    }

    fn read_events(&mut self) -> io::Result<()> {
        let mut reports = Vec::new();
        self.watches.read(&mut reports)?;
        self.pause = self.clock().now.saturating_add(PAUSE);
        let mut is_examined = false;
        for report in reports {
            match report {
                KernelReport::Long(directory, path, false) => {
                    let found = ScanFindings {
                        long: Some(path),
                        ..ScanFindings::default()
                    };
                    is_examined |= watched::noticed(&mut self.watched, directory, found);
                }
                KernelReport::Long(directory, path, true) => self.forget_long(directory, &path),
                KernelReport::Named(directory, path, named) => {
                    if named == NamedFile::DirectoryMoved {
                        self.forget_long(directory, &path);
                    }
                    self.handle(FileEvent::Named(directory, path, named));
                }
                KernelReport::NewDirectory(directory, path) => {
                    let recursive = |watched: &&WatchedDirectory| watched.number == directory && watched.is_recursive;
                    if self.watched.iter().find(recursive).is_some() {
                        self.scans.part(directory, path);
                    }
                }
                KernelReport::Examine => is_examined = true,
                KernelReport::Overflow => self.handle(FileEvent::Overflow),
            }
        }
        if is_examined {
            self.examine();
        }
        Ok(())
    }

    /// Looks for paths that are too long after the one that is told has gone.
    fn forget_long(&mut self, directory: u16, path: &[u8]) {
        if watched::is_long(&self.watched, directory, path) {
            self.scans.all(directory);
        }
    }

    fn scan(&mut self) {
        let mut events = Vec::new();
        let found = self.scans.step(&self.watched, &mut self.watches, &mut events);
        if let Some((number, found)) = found {
            watched::scanned(&mut self.watched, number, found);
        }
        let mut is_examined = false;
        for event in events {
            if let FileEvent::ScanEnded(number, device) = event {
                is_examined |= watched::scan_ended(&mut self.watched, number, device.is_some());
            }
            self.handle(event);
        }
        if is_examined {
            self.examine();
        }
    }

    /// Carries out what the machine decides, until it has nothing more to be done.
    fn turn(&mut self) -> io::Result<()> {
        let clock = self.clock();
        // A file whose quiet time is over may have changed a moment ago, so the latest events are read first.
        if self.begun && self.machine.is_due(clock.now) {
            self.read_events()?;
        }
        let mut actions = Vec::new();
        self.machine.turn(clock, &mut actions);
        let mut opened: Option<(u16, OwnedFd)> = None;
        let mut is_examined = false;
        for action in actions {
            let answer = match action {
                WatchAction::Say(message) => {
                    self.pipes.say(&message);
                    continue;
                }
                WatchAction::Scan(directory) => {
                    is_examined = true;
                    self.scans.all(directory);
                    continue;
                }
                WatchAction::Look(id, directory, path, hash) => {
                    let root = self.open(&mut opened, directory);
                    let look = root.map_or(Look::Unreachable, |root| disk::look(root.as_fd(), &path, hash));
                    if look == Look::Unreachable {
                        // Repeated scans find the file as soon as it can be reached.
                        is_examined = true;
                        // Without the directory itself, the error may be over already.
                        let unreadable = root.map(|root| disk::unreachable(root.as_fd(), &path));
                        let found = ScanFindings {
                            unreadable: Some(unreadable.unwrap_or((Vec::new(), Errno::AGAIN))),
                            ..ScanFindings::default()
                        };
                        watched::noticed(&mut self.watched, directory, found);
                    }
                    FileEvent::Looked(id, look)
                }
                WatchAction::Act(act) => {
                    let path = self.watched.iter().find(|watched| watched.number == act.directory);
                    let path = path
                        .map(|watched| watched.path.display().to_string())
                        .unwrap_or_default();
                    let root = self.open(&mut opened, act.directory);
                    let acted = root.map_or(Acted::Changed, |root| act::act(root.as_fd(), &path, &act));
                    FileEvent::Acted(act, acted)
                }
            };
            self.handle(answer);
        }
        if is_examined {
            self.examine();
        }
        Ok(())
    }

    /// Opens a watched directory, if it is still the one that is watched.
    fn open<'o>(&self, opened: &'o mut Option<(u16, OwnedFd)>, directory: u16) -> Option<&'o OwnedFd> {
        if opened.as_ref().is_none_or(|(number, _)| *number != directory) {
            let watched = self.watched.iter().find(|watched| watched.number == directory)?;
            let (root, identity) = disk::open_directory(&watched.path).ok()?;
            if watched.identity != Some(identity) {
                return None;
            }
            *opened = Some((directory, root));
        }
        opened.as_ref().map(|(_, root)| root)
    }
}

/// The descriptors that have something.
struct Readiness {
    input: bool,
    mounts: bool,
    events: bool,
}
