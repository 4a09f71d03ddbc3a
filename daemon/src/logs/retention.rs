//! Forgets old output: by age and bytes of one function and of all, and for room on a disk that is nearly full. A thread of
//! its own, since it reads directories; it looks once an hour, when another segment was begun, and when other rules are given.
//!
//! Whole segments go. Where all functions together have too much, those of the function that has most go first, so that one
//! that floods forgets its own lines and not its neighbours'. The segment a function writes to goes only when nothing was
//! written to it for a minute: [`Store`](super::Store) notices and begins it anew.

use super::{remove, segment_path, segments};
use crate::clock::unix_ms;
use crate::ledger::Free;
use fnd_core::ids::FunctionName;
use std::collections::{HashMap, VecDeque};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// How often what gets old is looked for.
const EVERY: Duration = Duration::from_secs(3600);
/// How long nothing must have been written to the newest segment of a function.
const QUIET_MS: u64 = 60_000;

/// How much output of one function is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepOf {
    /// Age of the newest line of a segment.
    pub keep_for: Duration,
    /// Bytes.
    pub keep_bytes: u64,
}

impl Default for KeepOf {
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(30 * 86_400),
            keep_bytes: 64 << 20,
        }
    }
}

/// How much output is kept; what exceeds any of these is forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Of functions that say so.
    pub functions: HashMap<FunctionName, KeepOf>,
    /// Of every other one.
    pub others: KeepOf,
    /// Age of the newest line of a segment, whatever functions say.
    pub keep_for: Duration,
    /// Bytes of all functions.
    pub keep_bytes: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            functions: HashMap::new(),
            others: KeepOf::default(),
            keep_for: KeepOf::default().keep_for,
            keep_bytes: u64::MAX,
        }
    }
}

impl Keep {
    fn of(&self, function: &FunctionName) -> KeepOf {
        self.functions.get(function).copied().unwrap_or(self.others)
    }
}

/// Says that there is more output, and how much may be; the default one is heard by nobody.
#[derive(Debug, Clone, Default)]
pub struct Bell {
    rules: Arc<Mutex<Keep>>,
    rings: Option<SyncSender<()>>,
}

impl Bell {
    /// Returns how many bytes of a function's output are kept.
    pub(super) fn keep_bytes(&self, function: &FunctionName) -> u64 {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.of(function).keep_bytes
    }

    /// Returns one that is heard by nobody, with a rule for one function.
    #[cfg(test)]
    pub(super) fn of(function: &FunctionName, keep_bytes: u64) -> Self {
        let bell = Self::default();
        let of = KeepOf {
            keep_bytes,
            ..KeepOf::default()
        };
        bell.rules.lock().unwrap().functions.insert(function.clone(), of);
        bell
    }

    /// Says so; never waits.
    pub fn ring(&self) {
        if let Some(rings) = &self.rings {
            // Where it is full, somebody is about to look.
            let _ = rings.try_send(());
        }
    }
}

/// The thread that forgets. It ends with the last bell.
#[derive(Debug)]
pub struct Keeper {
    bell: Bell,
    bytes: Arc<AtomicU64>,
}

impl Keeper {
    /// Starts it for the output below a directory.
    ///
    /// # Errors
    /// Where the kernel gives no thread.
    pub fn start(root: PathBuf, keep: Keep) -> io::Result<Self> {
        let (told, hears) = sync_channel(1);
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let rules = Arc::new(Mutex::new(keep));
        let now = Arc::clone(&rules);
        std::thread::Builder::new().name("forgetting".into()).spawn(move || {
            loop {
                let keep = now.lock().unwrap_or_else(PoisonError::into_inner).clone();
                match sweep(&root, &keep, unix_ms(), || is_low(&root)) {
                    Ok(bytes) => counted.store(bytes, Ordering::Relaxed),
                    Err(error) => tracing::warn!("failed to forget old output below `{}`: {error}", root.display()),
                }
                if hears.recv_timeout(EVERY) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        })?;
        let rings = Some(told);
        Ok(Self {
            bell: Bell { rules, rings },
            bytes,
        })
    }

    /// Goes by other rules from now on; what exceeds them goes soon.
    pub fn keep(&self, keep: Keep) {
        let mut rules = self.bell.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if *rules != keep {
            *rules = keep;
            self.bell.ring();
        }
    }

    /// Returns what tells it that there is more.
    #[must_use]
    pub fn bell(&self) -> Bell {
        self.bell.clone()
    }

    /// Returns the bytes of all output at the last look.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn is_low(root: &Path) -> bool {
    // The directory is made with the first output.
    let there = if root.exists() { Some(root) } else { root.parent() };
    there.and_then(Free::at).is_some_and(|free| free.is_low())
}

struct Segment {
    path: PathBuf,
    written_ms: u64,
    bytes: u64,
}

/// The output of one function.
struct Kept {
    directory: PathBuf,
    /// That may go, oldest first.
    may_go: VecDeque<Segment>,
    /// With the segment that is written to.
    bytes: u64,
}

impl Kept {
    /// Forgets the oldest segment, unless it is written to again. Returns the bytes.
    fn forget(&mut self) -> io::Result<u64> {
        let Some(segment) = self.may_go.pop_front() else {
            return Ok(0);
        };
        if std::fs::symlink_metadata(&segment.path).is_ok_and(|about| written_ms(&about) != segment.written_ms) {
            return Ok(0);
        }
        remove(&segment.path)?;
        self.bytes -= segment.bytes;
        // An inode too, where nothing is left of a function; it is made again for the next output.
        let _ = std::fs::remove_dir(&self.directory); // there is more in it
        Ok(segment.bytes)
    }
}

/// Forgets what is not kept, and on a disk that is low all it takes. Returns the bytes that are left.
fn sweep(root: &Path, keep: &Keep, now_ms: u64, is_low: impl Fn() -> bool) -> io::Result<u64> {
    let of: HashMap<_, _> = keep
        .functions
        .iter()
        .map(|(name, of)| (name.file_form(), *of))
        .collect();
    let mut all = find(root, now_ms)?;
    for kept in &mut all {
        let name = kept.directory.file_name().and_then(|name| name.to_str());
        let of = name.and_then(|name| of.get(name).copied()).unwrap_or(keep.others);
        let keep_for = of.keep_for.min(keep.keep_for);
        let oldest_ms = now_ms.saturating_sub(u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX));
        while let Some(oldest) = kept.may_go.front()
            && (oldest.written_ms < oldest_ms || kept.bytes > of.keep_bytes)
        {
            kept.forget()?;
        }
    }
    let mut left: u64 = all.iter().map(|kept| kept.bytes).sum();
    while left > keep.keep_bytes || is_low() {
        let removable = all.iter_mut().filter(|kept| !kept.may_go.is_empty());
        let Some(most) = removable.max_by_key(|kept| kept.bytes) else {
            break;
        };
        left -= most.forget()?;
    }
    Ok(left)
}

fn find(root: &Path, now_ms: u64) -> io::Result<Vec<Kept>> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let directory = entry?.path();
        if directory.is_dir() {
            found.push(look(directory, now_ms)?);
        }
    }
    Ok(found)
}

fn written_ms(about: &Metadata) -> u64 {
    let written = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    u64::try_from(written.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn look(directory: PathBuf, now_ms: u64) -> io::Result<Kept> {
    let numbers = segments(&directory)?;
    let newest = numbers.last().copied();
    let mut bytes = 0;
    let mut may_go = VecDeque::new();
    for number in numbers {
        let path = segment_path(&directory, number);
        let about = match std::fs::symlink_metadata(&path) {
            // Its function has begun another one and let go of it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            about => about?,
        };
        let written_ms = written_ms(&about);
        bytes += about.len();
        let in_use = Some(number) == newest && now_ms.saturating_sub(written_ms) < QUIET_MS;
        if !in_use {
            may_go.push_back(Segment {
                path,
                written_ms,
                bytes: about.len(),
            });
        }
    }
    Ok(Kept {
        directory,
        may_go,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes, create_dir_all};

    const NOW: u64 = 2_000_000_000_000;

    /// Makes segments of 1000 bytes: function, number, age in seconds.
    fn made(all: &[(&str, u32, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (function, number, age) in all {
            let directory = root.path().join(function);
            create_dir_all(&directory).unwrap();
            let file = File::create(segment_path(&directory, *number)).unwrap();
            file.set_len(1000).unwrap();
            let written = UNIX_EPOCH + Duration::from_millis(NOW - age * 1000);
            file.set_times(FileTimes::new().set_modified(written)).unwrap();
        }
        root
    }

    /// Names of the segments that are there, as `function/number`.
    fn left(root: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for directory in std::fs::read_dir(root).unwrap() {
            let directory = directory.unwrap();
            let name = directory.file_name().into_string().unwrap();
            let numbers = segments(&directory.path()).unwrap();
            names.extend(numbers.iter().map(|number| format!("{name}/{number}")));
        }
        names.sort();
        names
    }

    fn keep(seconds: u64, keep_bytes: u64) -> Keep {
        Keep {
            keep_for: Duration::from_secs(seconds),
            keep_bytes,
            ..Keep::default()
        }
    }

    #[test]
    fn one_that_is_written_to_since_it_was_looked_at_stays() {
        let root = made(&[("a", 0, 500), ("a", 1, 300)]);
        let mut kept = look(root.path().join("a"), NOW).unwrap();
        let newest = segment_path(&kept.directory, 1);
        std::io::Write::write_all(&mut File::options().append(true).open(newest).unwrap(), b"again").unwrap();
        assert_eq!((kept.forget().unwrap(), kept.forget().unwrap()), (1000, 0));
        assert_eq!(left(root.path()), ["a/1"]);
    }

    const ALL: [(&str, u32, u64); 5] = [("a", 0, 500), ("a", 1, 300), ("a", 2, 10), ("b", 0, 400), ("c", 7, 100)];

    #[test]
    fn by_age_by_bytes_and_for_room() {
        for (keep, low, expected) in [
            (keep(1000, 9000), false, &["a/0", "a/1", "a/2", "b/0", "c/7"][..]),
            (keep(350, 9000), false, &["a/1", "a/2", "c/7"]),
            // Who has most gives first, however old what others have is.
            (keep(1000, 3000), false, &["a/2", "b/0", "c/7"]),
            // What is written to stays whatever the rules say.
            (keep(5, 0), false, &["a/2"]),
            (keep(1000, 9000), true, &["a/2"]),
        ] {
            let root = made(&ALL);
            let bytes = sweep(root.path(), &keep, NOW, || low).unwrap();
            assert_eq!(left(root.path()), expected, "{keep:?}");
            assert_eq!(bytes, expected.len() as u64 * 1000);
            assert_eq!(
                root.path().join("b").exists(),
                expected.iter().any(|name| name.starts_with('b'))
            );
        }
    }

    #[test]
    fn by_what_a_function_says() {
        for (of, expected) in [
            ((1000, 2000), &["a/1", "a/2", "b/0", "c/7"][..]),
            ((1000, 0), &["a/2", "b/0", "c/7"]),
            ((400, 9000), &["a/1", "a/2", "b/0", "c/7"]),
        ] {
            let root = made(&ALL);
            let mut keep = keep(1000, 9000);
            let of = KeepOf {
                keep_for: Duration::from_secs(of.0),
                keep_bytes: of.1,
            };
            keep.functions.insert("a".parse().unwrap(), of);
            sweep(root.path(), &keep, NOW, || false).unwrap();
            assert_eq!(left(root.path()), expected, "{of:?}");
        }
    }

    #[test]
    fn room_is_made_as_long_as_it_is_wanted() {
        let root = made(&ALL);
        let asked = std::cell::Cell::new(0);
        let low = || {
            asked.set(asked.get() + 1);
            asked.get() <= 1
        };
        sweep(root.path(), &keep(1000, 9000), NOW, low).unwrap();
        assert_eq!(left(root.path()), ["a/1", "a/2", "b/0", "c/7"]);
    }

    #[test]
    fn where_nothing_was_printed_there_is_nothing_to_forget() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("logs");
        assert_eq!(sweep(&missing, &keep(3600, 0), NOW, || false).unwrap(), 0);
    }
}
