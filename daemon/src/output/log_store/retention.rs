//! Forgets old output by age and by bytes, of one function and of all, and to make room on a disk that is nearly full.
//! A separate thread does this, because it reads directories. It runs once an hour, when a new segment was begun, and
//! when the limits change.
//!
//! Only whole segments are removed. If all functions together have too much output, the function with the most output
//! loses segments first, so that a function that floods loses its own lines and not those of others. The segment that a
//! function writes to is removed only if nothing was written to it for a minute; [`LogStore`](super::LogStore) notices this
//! and begins it anew.

use super::{modified_ms, remove, segment_path, segments};
use crate::clock::monotonic;
use crate::free_space::FreeSpace;
use crate::ledger::{LimitsOf, Retention, room};
use crate::lock::lock;
use fnd_wire::ids::FunctionName;
use std::collections::VecDeque;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often the thread checks for old output.
const EVERY: Duration = Duration::from_secs(3600);
/// How long the newest segment of a function must be unchanged before it may be removed.
const QUIET_MS: u64 = 60_000;

/// How much output of one function is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepOutput {
    /// Greatest age of the newest line of a segment.
    pub keep_for: Duration,
    pub keep_bytes: u64,
}

impl Default for KeepOutput {
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(30 * 86_400),
            keep_bytes: 64 << 20,
        }
    }
}

impl Default for Retention<KeepOutput> {
    fn default() -> Self {
        Self {
            functions: LimitsOf::default(),
            others: KeepOutput::default(),
            keep_for: KeepOutput::default().keep_for,
            keep_bytes: u64::MAX,
        }
    }
}

/// Handle to the thread that forgets output; clones share it. The thread ends when the last one is dropped. The default handle has no
/// thread.
#[derive(Debug, Clone, Default)]
pub struct Keeper {
    rules: Arc<Mutex<Retention<KeepOutput>>>,
    rings: Option<SyncSender<()>>,
    bytes: Arc<AtomicU64>,
}

impl Keeper {
    /// Returns how many bytes of a function's output are kept.
    pub(super) fn keep_bytes(&self, function: &FunctionName) -> u64 {
        lock(&self.rules).of(function).keep_bytes
    }

    /// Tells the thread that there is more output; never blocks.
    pub(super) fn ring(&self) {
        if let Some(rings) = &self.rings {
            // If the channel is full, the thread is about to run anyway.
            let _ = rings.try_send(());
        }
    }

    /// Starts the thread for the output below a directory. `clock` returns the time that decides how old output is,
    /// Unix milliseconds.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        root: PathBuf,
        keep: Retention<KeepOutput>,
        clock: impl Fn() -> u64 + Send + 'static,
    ) -> io::Result<Self> {
        // One ring that waits is enough, since each sweep looks at everything.
        let (sender, hears) = sync_channel(1);
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let rules = Arc::new(Mutex::new(keep));
        let now = Arc::clone(&rules);
        std::thread::Builder::new().name("forgetting".into()).spawn(move || {
            let mut time = Time::new(clock());
            loop {
                let now_ms = time.check(clock(), monotonic());
                let keep = lock(&now).clone();
                match sweep(&root, &keep, now_ms, || is_low(&root)) {
                    Ok(bytes) => counted.store(bytes, Ordering::Relaxed),
                    Err(error) => tracing::warn!("failed to forget old output below `{}`: {error}", root.display()),
                }
                if hears.recv_timeout(EVERY) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        })?;
        let rings = Some(sender);
        Ok(Self { rules, rings, bytes })
    }

    /// Sets new limits; output that exceeds them is forgotten soon.
    pub fn keep(&self, keep: Retention<KeepOutput>) {
        let mut rules = lock(&self.rules);
        if *rules != keep {
            *rules = keep;
            self.ring();
        }
    }

    /// Returns the bytes of all output at the last check.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// How far the clock may jump ahead between two checks and still be trusted at once.
const JUMP: Duration = Duration::from_secs(86_400);
/// How long the clock is not trusted after a larger jump: by then the ledger has checked the clock too, and says what
/// the time is.
const DOUBT: Duration = Duration::from_secs(2 * 3600);

/// The time that decides how old output is.
struct Time {
    believed_ms: u64,
    at: Instant,
    jumped: Option<Instant>,
}

impl Time {
    fn new(unix_ms: u64) -> Self {
        Self {
            believed_ms: unix_ms,
            at: monotonic(),
            jumped: None,
        }
    }

    /// Checks the clock. Returns the time to use.
    fn check(&mut self, unix_ms: u64, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.at).saturating_add(JUMP);
        let latest_ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        if unix_ms <= self.believed_ms.saturating_add(latest_ms) {
            self.jumped = None;
        } else {
            let jumped = *self.jumped.get_or_insert(now);
            if now.saturating_duration_since(jumped) < DOUBT {
                return self.believed_ms;
            }
            self.jumped = None;
        }
        (self.believed_ms, self.at) = (unix_ms, now);
        unix_ms
    }
}

fn is_low(root: &Path) -> bool {
    // The directory is created with the first output.
    let there = if root.exists() { Some(root) } else { root.parent() };
    there.and_then(FreeSpace::at).is_some_and(|free| free.is_low())
}

struct Segment {
    path: PathBuf,
    written_ms: u64,
    bytes: u64,
}

/// The output of one function.
struct KeptOutput {
    directory: PathBuf,
    /// The segments that may be removed, oldest first.
    may_go: VecDeque<Segment>,
    /// Bytes of the output, including the segment that is written to.
    bytes: u64,
}

impl KeptOutput {
    /// Removes the oldest segment, unless it was written to in the meantime. Returns its bytes.
    fn forget(&mut self) -> io::Result<u64> {
        let Some(segment) = self.may_go.pop_front() else {
            return Ok(0);
        };
        if std::fs::symlink_metadata(&segment.path).is_ok_and(|about| written_ms(&about) != segment.written_ms) {
            return Ok(0);
        }
        remove(&segment.path)?;
        self.bytes -= segment.bytes;
        // If the function has no more output, free the inode too; the next output creates the directory again.
        let _ = std::fs::remove_dir(&self.directory); // fails if the directory is not empty
        Ok(segment.bytes)
    }
}

/// Forgets output that is not kept, and on a disk that is nearly full as much as is needed. While there is little
/// output, recent output is not forgotten for that: this would not help a disk that other data has filled. Returns the
/// bytes that remain.
fn sweep(root: &Path, keep: &Retention<KeepOutput>, now_ms: u64, is_low: impl Fn() -> bool) -> io::Result<u64> {
    let mut all = find(root, now_ms)?;
    for kept in &mut all {
        let name = kept.directory.file_name().and_then(|name| name.to_str());
        let function = name.and_then(|name| FunctionName::of_file_form(name).ok());
        let of = function.map_or(keep.others, |function| keep.of(&function));
        let keep_for = of.keep_for.min(keep.keep_for);
        let oldest_ms = now_ms.saturating_sub(u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX));
        while let Some(oldest) = kept.may_go.front()
            && (oldest.written_ms < oldest_ms || kept.bytes > of.keep_bytes)
        {
            kept.forget()?;
        }
    }
    let mut left: u64 = all.iter().map(|kept| kept.bytes).sum();
    let recent_ms = now_ms.saturating_sub(u64::try_from(room::RECENT.as_millis()).unwrap_or(u64::MAX));
    loop {
        let is_too_much = left > keep.keep_bytes;
        if !is_too_much && !is_low() {
            break;
        }
        let may_go = |kept: &&mut KeptOutput| {
            let oldest = kept.may_go.front();
            oldest.is_some_and(|oldest| is_too_much || left >= room::SMALL || oldest.written_ms < recent_ms)
        };
        let removable = all.iter_mut().filter(may_go);
        let Some(most) = removable.max_by_key(|kept| kept.bytes) else {
            break;
        };
        // `forget` takes a segment off the list even if the file stays, so this loop ends.
        left -= most.forget()?;
    }
    Ok(left)
}

fn find(root: &Path, now_ms: u64) -> io::Result<Vec<KeptOutput>> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let directory = entry?.path();
        if directory.is_dir() {
            found.push(inspect(directory, now_ms)?);
        }
    }
    Ok(found)
}

fn written_ms(about: &Metadata) -> u64 {
    modified_ms(about).unwrap_or(0)
}

fn inspect(directory: PathBuf, now_ms: u64) -> io::Result<KeptOutput> {
    let numbers = segments(&directory)?;
    let newest = numbers.last().copied();
    let mut bytes = 0;
    let mut may_go = VecDeque::new();
    for number in numbers {
        let path = segment_path(&directory, number);
        let about = match std::fs::symlink_metadata(&path) {
            // The output thread has removed this segment since the directory was listed: it does so when it begins another one.
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
    Ok(KeptOutput {
        directory,
        may_go,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes, create_dir_all};
    use std::time::UNIX_EPOCH;

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
    fn remaining(root: &Path) -> Vec<String> {
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

    fn keep(seconds: u64, keep_bytes: u64) -> Retention<KeepOutput> {
        Retention {
            keep_for: Duration::from_secs(seconds),
            keep_bytes,
            ..Retention::default()
        }
    }

    #[test]
    fn one_that_is_written_to_since_it_was_inspected_stays() {
        let root = made(&[("a", 0, 500), ("a", 1, 300)]);
        let mut kept = inspect(root.path().join("a"), NOW).unwrap();
        let newest = segment_path(&kept.directory, 1);
        std::io::Write::write_all(&mut File::options().append(true).open(newest).unwrap(), b"again").unwrap();
        assert_eq!((kept.forget().unwrap(), kept.forget().unwrap()), (1000, 0));
        assert_eq!(remaining(root.path()), ["a/1"]);
    }

    const ALL: [(&str, u32, u64); 5] = [("a", 0, 500), ("a", 1, 300), ("a", 2, 10), ("b", 0, 400), ("c", 7, 100)];

    #[test]
    fn by_age_by_bytes_and_for_room() {
        for (keep, low, expected) in [
            (keep(1000, 9000), false, &["a/0", "a/1", "a/2", "b/0", "c/7"][..]),
            (keep(350, 9000), false, &["a/1", "a/2", "c/7"]),
            // The function with the most output loses some first, however old the output of others is.
            (keep(1000, 3000), false, &["a/2", "b/0", "c/7"]),
            // A file that is being written stays, whatever the rules say.
            (keep(5, 0), false, &["a/2"]),
            // Even on a nearly full disk, recent output stays if there is so little of it.
            (keep(1000, 9000), true, &["a/0", "a/1", "a/2", "b/0", "c/7"]),
        ] {
            let root = made(&ALL);
            let bytes = sweep(root.path(), &keep, NOW, || low).unwrap();
            assert_eq!(remaining(root.path()), expected, "{keep:?}");
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
            let of = KeepOutput {
                keep_for: Duration::from_secs(of.0),
                keep_bytes: of.1,
            };
            keep.functions = [("a".parse().unwrap(), of)].into_iter().collect();
            sweep(root.path(), &keep, NOW, || false).unwrap();
            assert_eq!(remaining(root.path()), expected, "{of:?}");
        }
    }

    #[test]
    fn a_clock_that_jumps_ahead_is_not_believed_at_once() {
        const DAY: u64 = 86_400_000;
        let begun = monotonic();
        let mut time = Time::new(NOW);
        let hours = |hours: u64| begun + Duration::from_secs(hours * 3600);
        for (hour, unix_ms, expected) in [
            (1, NOW + 3_600_000, NOW + 3_600_000),
            (2, NOW + 40 * DAY, NOW + 3_600_000),
            (3, NOW + 40 * DAY, NOW + 3_600_000),
            (4, NOW + 40 * DAY, NOW + 40 * DAY),
            (5, NOW, NOW),
        ] {
            assert_eq!(time.check(unix_ms, hours(hour)), expected, "{hour}");
        }
    }

    #[test]
    fn room_is_made_of_what_is_old_as_long_as_it_is_wanted() {
        const DAY: u64 = 86_400;
        let root = made(&[("a", 0, 9 * DAY), ("a", 1, 8 * DAY), ("a", 2, 10), ("b", 0, 6 * DAY)]);
        let asked = std::cell::Cell::new(0);
        let low_for = |times| {
            asked.set(asked.get() + 1);
            asked.get() <= times
        };
        sweep(root.path(), &keep(30 * DAY, 9000), NOW, || low_for(1)).unwrap();
        assert_eq!(remaining(root.path()), ["a/1", "a/2", "b/0"]);
        sweep(root.path(), &keep(30 * DAY, 9000), NOW, || true).unwrap();
        assert_eq!(remaining(root.path()), ["a/2", "b/0"]);
    }

    #[test]
    fn for_room_much_output_gives_its_recent_too() {
        let root = made(&[("a", 0, 500), ("a", 1, 300), ("a", 2, 10), ("b", 0, 400)]);
        let large = File::options()
            .write(true)
            .open(segment_path(&root.path().join("a"), 0))
            .unwrap();
        large.set_len(room::SMALL).unwrap();
        let written = UNIX_EPOCH + Duration::from_millis(NOW - 500_000);
        large.set_times(FileTimes::new().set_modified(written)).unwrap();
        sweep(root.path(), &keep(1000, u64::MAX), NOW, || true).unwrap();
        assert_eq!(remaining(root.path()), ["a/1", "a/2", "b/0"]);
    }

    #[test]
    fn where_nothing_was_printed_there_is_nothing_to_forget() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("logs");
        assert_eq!(sweep(&missing, &keep(3600, 0), NOW, || false).unwrap(), 0);
    }
}
