//! Forgets old output: by age, by bytes of all of it, and for room on a disk that is nearly full. A thread of its own, since
//! it reads directories; it looks once an hour, when another segment was begun, and when other rules are given.
//!
//! Whole segments go, those written last at the end. The one a function writes to goes only when nothing was written to it
//! for a minute: [`Store`](super::Store) notices and begins it anew.

use super::{remove, segment_path, segments};
use crate::clock::unix_ms;
use crate::ledger::Free;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, UNIX_EPOCH};

/// How often what gets old is looked for.
const EVERY: Duration = Duration::from_secs(3600);
/// How long nothing must have been written to the newest segment of a function.
const QUIET_MS: u64 = 60_000;
/// Messages that wait; who rings finds a full line as good as an empty one.
const WAITING: usize = 4;

/// How much output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Age of the newest line of a segment.
    pub keep_for: Duration,
    /// Bytes of all functions.
    pub keep_bytes: u64,
}

#[derive(Debug)]
enum Told {
    Keep(Keep),
    More,
}

/// Says that there is more output; the default one is heard by nobody.
#[derive(Debug, Clone, Default)]
pub struct Bell(Option<SyncSender<Told>>);

impl Bell {
    /// Says so; never waits.
    pub fn ring(&self) {
        if let Some(told) = &self.0 {
            // Where it is full, somebody is about to look.
            let _ = told.try_send(Told::More);
        }
    }
}

/// The thread that forgets. It ends with the last bell.
#[derive(Debug)]
pub struct Keeper {
    told: SyncSender<Told>,
    bytes: Arc<AtomicU64>,
    /// What it goes by.
    now: Cell<Keep>,
}

impl Keeper {
    /// Starts it for the output below a directory.
    ///
    /// # Errors
    /// Where the kernel gives no thread.
    pub fn start(root: PathBuf, mut keep: Keep) -> io::Result<Self> {
        let (told, hears) = sync_channel(WAITING);
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let now = Cell::new(keep);
        std::thread::Builder::new().name("forgetting".into()).spawn(move || {
            loop {
                match sweep(&root, keep, unix_ms(), low(&root)) {
                    Ok(bytes) => counted.store(bytes, Ordering::Relaxed),
                    Err(error) => tracing::warn!("failed to forget old output below `{}`: {error}", root.display()),
                }
                match hears.recv_timeout(EVERY) {
                    Ok(Told::Keep(new)) => keep = new,
                    Ok(Told::More) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { told, bytes, now })
    }

    /// Goes by other rules from now on; what exceeds them goes soon.
    pub fn keep(&self, keep: Keep) {
        if self.now.replace(keep) != keep {
            // Never full for long: a look takes well under a second, and a person changed a file.
            let _ = self.told.send(Told::Keep(keep));
        }
    }

    /// Returns what tells it that there is more.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell(Some(self.told.clone()))
    }

    /// Returns the bytes of all output at the last look.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

fn low(root: &Path) -> bool {
    // The directory is made with the first output.
    let there = if root.exists() { Some(root) } else { root.parent() };
    there.and_then(Free::at).is_some_and(|free| free.is_low())
}

struct Segment {
    path: PathBuf,
    written_ms: u64,
    bytes: u64,
    /// Whether its function may be writing to it.
    in_use: bool,
}

/// Forgets what is not kept; with `low` all that nobody writes to. Returns the bytes that are left.
fn sweep(root: &Path, keep: Keep, now_ms: u64, low: bool) -> io::Result<u64> {
    let mut all = find(root, now_ms)?;
    all.sort_by_key(|segment| segment.written_ms);
    let keep_ms = u64::try_from(keep.keep_for.as_millis()).unwrap_or(u64::MAX);
    let oldest_ms = now_ms.saturating_sub(keep_ms);
    let mut left: u64 = all.iter().map(|segment| segment.bytes).sum();
    for segment in all.iter().filter(|segment| !segment.in_use) {
        if segment.written_ms < oldest_ms || left > keep.keep_bytes || low {
            remove(&segment.path)?;
            left -= segment.bytes;
            // An inode too, where nothing is left of a function; it is made again for the next output.
            if let Some(directory) = segment.path.parent() {
                let _ = std::fs::remove_dir(directory); // there is more in it
            }
        }
    }
    Ok(left)
}

fn find(root: &Path, now_ms: u64) -> io::Result<Vec<Segment>> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let directory = entry?.path();
        if !directory.is_dir() {
            continue;
        }
        let numbers = segments(&directory)?;
        let newest = numbers.last().copied();
        for number in numbers {
            let path = segment_path(&directory, number);
            let about = match std::fs::symlink_metadata(&path) {
                // Its function has begun another one and let go of it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                about => about?,
            };
            let written = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let written_ms = u64::try_from(written.as_millis()).unwrap_or(u64::MAX);
            found.push(Segment {
                path,
                written_ms,
                bytes: about.len(),
                in_use: Some(number) == newest && now_ms.saturating_sub(written_ms) < QUIET_MS,
            });
        }
    }
    Ok(found)
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

    fn left(root: &Path) -> Vec<String> {
        let mut names: Vec<_> = find(root, NOW)
            .unwrap()
            .iter()
            .map(|segment| segment.path.strip_prefix(root).unwrap().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn by_age_by_bytes_and_for_room() {
        let keep = |seconds, keep_bytes| Keep {
            keep_for: Duration::from_secs(seconds),
            keep_bytes,
        };
        let all = [("a", 0, 500), ("a", 1, 300), ("a", 2, 10), ("b", 0, 400), ("c", 7, 100)];
        for (keep, low, expected) in [
            (keep(1000, 9000), false, &["a/0", "a/1", "a/2", "b/0", "c/7"][..]),
            (keep(350, 9000), false, &["a/1", "a/2", "c/7"]),
            (keep(1000, 2500), false, &["a/2", "c/7"]),
            // What is written to stays whatever the rules say.
            (keep(5, 0), false, &["a/2"]),
            (keep(1000, 9000), true, &["a/2"]),
        ] {
            let root = made(&all);
            let bytes = sweep(root.path(), keep, NOW, low).unwrap();
            let expected: Vec<_> = expected
                .iter()
                .map(|name| name.replace('/', "/0000000") + ".log")
                .collect();
            assert_eq!(left(root.path()), expected, "{keep:?}");
            assert_eq!(bytes, expected.len() as u64 * 1000);
            assert_eq!(
                root.path().join("b").exists(),
                expected.iter().any(|name| name.starts_with('b'))
            );
        }
    }

    #[test]
    fn where_nothing_was_printed_there_is_nothing_to_forget() {
        let root = tempfile::tempdir().unwrap();
        let keep = Keep {
            keep_for: EVERY,
            keep_bytes: 0,
        };
        assert_eq!(sweep(&root.path().join("logs"), keep, NOW, false).unwrap(), 0);
    }
}
