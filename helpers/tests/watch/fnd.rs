//! The other end of a watcher: does what fnd does with its messages, in memory.

use fnd_core::records::SeenFile;
use fnd_core::triggers::file::message::{
    AcceptedFile, FileRunEnded, FromWatcher, KnownFile, Messages, PROTOCOL, SeenChange, ToWatcher, put,
};
use fnd_manifest::function::keys::FileTrigger;
use fnd_manifest::schema::pick::FromValue as _;
use fnd_wire::ids::InvocationId;
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// An entry with short times, for a directory.
pub(crate) fn entry(path: &Path) -> FileTrigger {
    FileTrigger {
        path: path.to_str().unwrap().to_owned(),
        debounce: Duration::from_millis(20),
        settle: Duration::from_millis(200),
        ..FileTrigger::from_value(None).unwrap()
    }
}

/// What a function was run for: kind and path.
pub(crate) type Run = (u8, String);

pub(crate) fn created(path: &str) -> Run {
    (0, path.to_owned())
}

pub(crate) fn modified(path: &str) -> Run {
    (1, path.to_owned())
}

pub(crate) fn deleted(path: &str) -> Run {
    (2, path.to_owned())
}

/// The table of fnd: it survives its watchers.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) files: BTreeMap<(u16, u64), KnownFile>,
    pub(crate) first_ms: u64,
    pub(crate) ids: u128,
}

/// A watcher and what it has said.
pub(crate) struct Watcher {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<FromWatcher>,
    pub(crate) memory: Memory,
    pub(crate) runs: Vec<Run>,
    pub(crate) batches: Vec<usize>,
    pub(crate) problems: BTreeMap<u16, Option<String>>,
    pub(crate) settled: Vec<InvocationId>,
    pub(crate) waiting: u64,
    /// Whether invocations succeed; they end at once. Nothing: they do not end.
    pub(crate) success: Option<bool>,
    /// Number of offers that are refused.
    pub(crate) refuse: usize,
    pub(crate) running: VecDeque<InvocationId>,
    acts: Vec<bool>,
}

impl Watcher {
    pub(crate) fn start(entries: &[FileTrigger]) -> Self {
        Self::start_with(entries, Memory::default())
    }

    pub(crate) fn start_with(entries: &[FileTrigger], memory: Memory) -> Self {
        Self::spawn(entries, memory, &mut Command::new(env!("CARGO_BIN_EXE_fnd-helper")))
    }

    /// Starts it as a user that is not root.
    pub(crate) fn start_as(uid: u32, entries: &[FileTrigger]) -> Self {
        // The other user may be unable to reach the program by its path.
        let program = std::fs::File::open(env!("CARGO_BIN_EXE_fnd-helper")).unwrap();
        let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        Self::spawn(entries, Memory::default(), command.uid(uid).gid(uid))
    }

    fn spawn(entries: &[FileTrigger], memory: Memory, command: &mut Command) -> Self {
        let mut child = command
            .arg("--watch")
            .env_clear()
            .env("FND_WATCHED", serde_json::to_string(entries).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut pieces = Messages::default();
            let mut buffer = vec![0; 1 << 16];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                pieces.add(&buffer[..count]);
                while let Some(message) = pieces.take().unwrap() {
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            }
        });
        let mut watcher = Self {
            input: child.stdin.take(),
            child,
            messages,
            memory,
            runs: Vec::new(),
            batches: Vec::new(),
            problems: BTreeMap::new(),
            settled: Vec::new(),
            waiting: 0,
            success: Some(true),
            refuse: 0,
            running: VecDeque::new(),
            acts: entries.iter().map(FileTrigger::acts).collect(),
        };
        let known: Vec<_> = watcher.memory.files.values().cloned().collect();
        for piece in known.chunks(1000) {
            watcher.say(&ToWatcher::Known(piece.to_vec()));
        }
        watcher.say(&ToWatcher::Begin(vec![watcher.memory.first_ms; entries.len()]));
        watcher
    }

    pub(crate) fn say(&mut self, message: &ToWatcher) {
        let mut bytes = Vec::new();
        put(message, &mut bytes);
        self.input.as_mut().unwrap().write_all(&bytes).unwrap();
    }

    /// Takes messages until a condition holds.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            let left = end.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) => self.take(message),
                Err(error) => panic!("{what}: {error}; runs {:?}, problems {:?}", self.runs, self.problems),
            }
        }
    }

    /// Takes messages until none has come for a time: what must not happen would have happened.
    pub(crate) fn rest(&mut self, time: Duration) {
        loop {
            match self.messages.recv_timeout(time) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Waits until the function has run for exactly these, in any order, and forgets them.
    #[track_caller]
    pub(crate) fn expect(&mut self, runs: &[Run]) {
        self.until(&format!("{runs:?}"), |watcher| watcher.runs.len() >= runs.len());
        let mut found = std::mem::take(&mut self.runs);
        found.sort();
        let mut runs = runs.to_vec();
        runs.sort();
        assert_eq!(found, runs);
    }

    /// Waits until the function has run for exactly these, and has not run again a moment later.
    #[track_caller]
    pub(crate) fn expect_only(&mut self, runs: &[Run]) {
        self.expect(runs);
        self.rest(Duration::from_millis(500));
        assert_eq!(self.runs, []);
    }

    /// Waits for a problem with a part of this text; for none with an empty one.
    #[track_caller]
    pub(crate) fn expect_problem(&mut self, part: &str) {
        self.until(part, |watcher| match watcher.problems.get(&0) {
            Some(Some(problem)) => !part.is_empty() && problem.contains(part),
            Some(None) | None => part.is_empty(),
        });
    }

    fn take(&mut self, message: FromWatcher) {
        match message {
            FromWatcher::Hello(version) => assert_eq!(version, PROTOCOL),
            FromWatcher::Seen(files) => files.into_iter().for_each(|file| self.remember(file, None)),
            FromWatcher::Gone(files) => files.iter().for_each(|file| {
                self.memory.files.remove(file);
            }),
            FromWatcher::Settled(id) => {
                self.settled.push(id);
                self.memory
                    .files
                    .values_mut()
                    .filter(|known| known.after == Some(id))
                    .for_each(|known| known.after = None);
            }
            FromWatcher::Trouble(trouble) => {
                self.problems.insert(trouble.entry, trouble.problem);
            }
            FromWatcher::Waiting(count) => self.waiting = count,
            FromWatcher::Places(places) => self.say(&ToWatcher::Shown(places)),
            FromWatcher::Ready(ready) if self.refuse > 0 => {
                self.refuse -= 1;
                self.say(&ToWatcher::Refused(ready.number));
            }
            FromWatcher::Ready(ready) => {
                self.memory.ids += 1;
                let id = InvocationId(self.memory.ids);
                let acts = self.acts[usize::from(ready.entry)];
                self.batches.push(ready.changes.len());
                for SeenChange { kind, file } in ready.changes {
                    let path = String::from_utf8_lossy(&file.path.0).into_owned();
                    self.runs.push((kind, path));
                    if kind == 2 {
                        self.memory.files.remove(&(file.directory, file.inode));
                    } else {
                        self.remember(file, acts.then_some(id));
                    }
                }
                self.say(&ToWatcher::Accepted(AcceptedFile {
                    number: ready.number,
                    id,
                }));
                self.running.push_back(id);
                if let Some(success) = self.success {
                    self.end(success);
                }
            }
        }
    }

    /// Ends the oldest invocation.
    pub(crate) fn end(&mut self, success: bool) {
        let id = self.running.pop_front().unwrap();
        let contents = Vec::new();
        self.say(&ToWatcher::Ended(FileRunEnded { id, success, contents }));
    }

    fn remember(&mut self, file: SeenFile, after: Option<InvocationId>) {
        let place = (file.directory, file.inode);
        let after = after.or_else(|| self.memory.files.get(&place)?.after);
        self.memory.files.insert(place, KnownFile { file, after });
    }

    /// Kills the watcher, and returns what fnd knows.
    pub(crate) fn kill(mut self) -> Memory {
        self.child.kill().unwrap();
        // What it had said is in the pipe.
        while let Ok(message) = self.messages.recv_timeout(PATIENCE) {
            if !matches!(message, FromWatcher::Ready(_) | FromWatcher::Places(_)) {
                self.take(message);
            }
        }
        self.child.wait().unwrap();
        std::mem::take(&mut self.memory)
    }

    /// Ends its standard input, and waits until it has ended.
    pub(crate) fn close(&mut self) -> std::process::ExitStatus {
        self.input = None;
        self.child.wait().unwrap()
    }

    /// Returns the resident memory in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a file as an editor does: a new file takes the place of the old one.
pub(crate) fn replace(path: &Path, content: &str) {
    let name = path.file_name().unwrap().as_bytes();
    let hidden = [b".", name, b".tmp"].concat();
    let temporary = path.with_file_name(std::ffi::OsStr::from_bytes(&hidden));
    std::fs::write(&temporary, content).unwrap();
    std::fs::rename(&temporary, path).unwrap();
}
