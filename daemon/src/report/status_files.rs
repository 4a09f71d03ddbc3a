//! Status files: `RUN/status/FUNCTION.json`. A file is replaced whole, so that a reader sees the old or the new one and
//! no mixture.
//!
//! They are written on the driver's thread: on tmpfs that takes 18 us, less than handing the file to another thread and
//! back. Under load a function's file is written at most every 50 ms: its first change at once, the changes within the
//! next 50 ms together, so that the last state is always there soon. A caller that must know when a change is in the
//! file waits for that ([`StatusFiles::written`]). On a real file system (a development run directory) a replacement
//! takes 1 ms.

use fnd_core::api::FunctionStatus;
use fnd_wire::ids::FunctionName;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

/// Least time between two writes of one function's file. No reader that polls notices it, and 20 writes a second cost
/// little.
const AT_MOST_EVERY: Duration = Duration::from_millis(50);

/// Room that is kept for functions whose files were written lately.
const RECENT_KEPT: usize = 64;

/// Pause before a failed write is retried. No event tells that a disk has room again, and until then the file is wrong.
const TRIED_AGAIN: Duration = Duration::from_secs(1);

/// The directory of status files.
#[derive(Debug)]
pub(crate) struct StatusFiles {
    directory: OwnedFd,
    mode: Mode,
    /// Whether files of an earlier fnd may be there: until the first scan is over.
    may_be_there: bool,
    /// When each function's file was last written, for those written in the last 50 ms or with changes waiting.
    recent: HashMap<FunctionName, RecentStatus>,
    /// Not later than the first of those changes is to be written: ten thousand functions change within a moment.
    next: Option<Duration>,
    /// Functions whose last write failed, so that each failure is reported once.
    failing: HashSet<FunctionName>,
    /// Callers that wait until a function's changes are written.
    waiting: HashMap<FunctionName, Vec<oneshot::Sender<()>>>,
}

#[derive(Debug)]
struct RecentStatus {
    written: Duration,
    changed: bool,
}

/// A status file could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} status file `{file}`")]
pub(crate) struct StatusError {
    operation: &'static str,
    file: String,
    #[source]
    source: io::Error,
}

impl StatusError {
    fn new(operation: &'static str, file: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self {
            operation,
            file: file.into(),
            source: source.into(),
        }
    }
}

impl StatusFiles {
    /// Opens the directory, made if it is not there. `mode` is the mode of the files (`[status] mode`). Nothing
    /// is synced: the directory is on tmpfs, where that is of no use.
    ///
    /// # Errors
    /// The directory cannot be made or opened.
    pub(crate) fn open(directory: &Path, mode: u32) -> Result<Self, StatusError> {
        let shown = || directory.display().to_string();
        let failed = |error: io::Error| StatusError::new("open the directory of", shown(), error);
        std::fs::create_dir_all(directory).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let mode = Mode::from_raw_mode(mode & 0o777);
        Ok(Self {
            directory: opened,
            mode,
            may_be_there: true,
            recent: HashMap::new(),
            next: None,
            failing: HashSet::new(),
            waiting: HashMap::new(),
        })
    }

    /// Changes the mode of files written from now on.
    pub(crate) fn set_mode(&mut self, mode: u32) {
        self.mode = Mode::from_raw_mode(mode & 0o777);
    }

    /// Records that a function's status has changed. Returns whether to write it now; if not, [`Self::due`] will name
    /// it.
    pub(crate) fn changed(&mut self, function: &FunctionName, mono: Duration) -> bool {
        let fresh = RecentStatus {
            written: mono,
            changed: false,
        };
        match self.recent.get_mut(function) {
            Some(recent) if mono < recent.written + AT_MOST_EVERY => {
                recent.changed = true;
                let due = recent.written + AT_MOST_EVERY;
                self.is_due(due);
                false
            }
            Some(recent) => {
                *recent = fresh;
                true
            }
            None => {
                // At the start the files of all functions are written, most of them more than 50 ms ago.
                if self.recent.len() == self.recent.capacity() {
                    self.recent
                        .retain(|_, recent| recent.changed || mono < recent.written + AT_MOST_EVERY);
                }
                self.recent.insert(function.clone(), fresh);
                true
            }
        }
    }

    /// Returns when [`Self::due`] next has something.
    #[must_use]
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.next
    }

    fn is_due(&mut self, at: Duration) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Returns the functions whose files are to be written now, in the order of their names.
    pub(crate) fn due(&mut self, mono: Duration) -> Vec<FunctionName> {
        let mut due = Vec::new();
        self.recent.retain(|function, recent| {
            if mono < recent.written + AT_MOST_EVERY {
                return true;
            }
            if recent.changed {
                due.push(function.clone());
                *recent = RecentStatus {
                    written: mono,
                    changed: false,
                };
            }
            // A function stays listed only if it was just written.
            recent.written == mono
        });
        // The order must not come from the hash table: the order of the files is visible.
        due.sort_unstable();
        self.recent.shrink_to(RECENT_KEPT);
        let waiting = self.recent.values().filter(|recent| recent.changed);
        self.next = waiting.map(|recent| recent.written + AT_MOST_EVERY).min();
        due
    }

    /// Records whether a function's file was written; if not, [`Self::due`] will name it again. Returns whether this
    /// failure is the first one since the last success.
    pub(crate) fn tried(&mut self, function: &FunctionName, mono: Duration, written: bool) -> bool {
        if written {
            self.failing.remove(function);
            for waiting in self.waiting.remove(function).into_iter().flatten() {
                let _ = waiting.send(()); // an error: the caller that waited has gone
            }
            return false;
        }
        // A time in the future, so that `due` names the function after the pause for failures and not before.
        let again = RecentStatus {
            written: mono + TRIED_AGAIN - AT_MOST_EVERY,
            changed: true,
        };
        self.recent.insert(function.clone(), again);
        self.is_due(mono + TRIED_AGAIN);
        self.failing.insert(function.clone())
    }

    /// Returns a receiver that resolves when a function's changes up to now are in its file; nothing where they are
    /// already. The sender is dropped when the function is removed.
    pub(crate) fn written(&mut self, function: &FunctionName) -> Option<oneshot::Receiver<()>> {
        self.recent.get(function).filter(|recent| recent.changed)?;
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting.entry(function.clone()).or_default();
        // While a file cannot be written, callers come and give up: their places are removed.
        waiting.retain(|waiting| !waiting.is_closed());
        waiting.push(sender);
        Some(receiver)
    }

    /// Returns every function with changes that wait, for fnd's end.
    pub(crate) fn all_due(&mut self) -> Vec<FunctionName> {
        self.next = None;
        let waiting = self.recent.drain().filter(|(_, recent)| recent.changed);
        let mut due: Vec<_> = waiting.map(|(function, _)| function).collect();
        due.sort_unstable();
        due
    }

    /// Replaces a function's status file.
    ///
    /// # Errors
    /// The file cannot be written; the old one is still there then.
    pub(crate) fn write(&self, status: &FunctionStatus) -> Result<(), StatusError> {
        let file = format!("{}.json", status.function.file_form());
        let failed = |error: io::Error| StatusError::new("write", &*file, error);
        let mut text = serde_json::to_vec(status).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        if self.may_be_there && self.is_there(&file, &text) {
            return Ok(());
        }
        self.replace(&file, &text).map_err(|errno| failed(errno.into()))
    }

    /// Returns whether an earlier fnd wrote the same, apart from the time. At a restart that is so for most of ten
    /// thousand files, and to read one takes a third of the time of a replacement. A file that cannot be read, or that
    /// somebody has changed, is replaced.
    fn is_there(&self, file: &str, text: &[u8]) -> bool {
        // Something else than a file may be there: it must not be followed, and not be waited for.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let Ok(opened) = rustix::fs::openat(&self.directory, file, flags, Mode::empty()) else {
            return false;
        };
        let is_ours = rustix::fs::fstat(&opened).is_ok_and(|about| {
            let is_file = FileType::from_raw_mode(about.st_mode).is_file();
            let has_mode = Mode::from_raw_mode(about.st_mode) == self.mode;
            let has_size = u64::try_from(about.st_size).ok() == u64::try_from(text.len()).ok();
            is_file && has_mode && has_size && about.st_uid == rustix::process::geteuid().as_raw()
        });
        // One byte more, to see the end of the file.
        let mut there = vec![0; text.len().saturating_add(1)];
        is_ours
            && rustix::io::read(&opened, &mut there)
                .is_ok_and(|length| there.get(..length).is_some_and(|there| is_same(there, text)))
    }

    fn replace(&self, file: &str, text: &[u8]) -> rustix::io::Result<()> {
        // No function's name begins with a dot. There is one writer, so one temporary name is enough.
        let temporary = ".new.json";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.directory, temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let mut rest = text;
        while !rest.is_empty() {
            let written = rustix::io::write(&opened, rest)?;
            rest = &rest[written..];
        }
        // The mode must not depend on the umask. It is set at the end, so that a reader can open only a complete file.
        rustix::fs::fchmod(&opened, self.mode)?;
        rustix::fs::renameat(&self.directory, temporary, &self.directory, file)
    }

    /// Removes the file of a function that is gone.
    ///
    /// # Errors
    /// The file is there and cannot be removed.
    pub(crate) fn remove(&mut self, function: &FunctionName) -> Result<(), StatusError> {
        self.recent.remove(function);
        self.waiting.remove(function);
        self.remove_file(format!("{}.json", function.file_form()))
    }

    /// Removes the files of functions that are gone. Called at start, after the first scan.
    ///
    /// # Errors
    /// The directory cannot be read or a file cannot be removed.
    pub(crate) fn keep_only(&mut self, functions: &HashSet<FunctionName>) -> Result<(), StatusError> {
        let failed = |errno: Errno| StatusError::new("list", "", errno);
        let known: HashSet<String> = functions
            .iter()
            .map(|function| format!("{}.json", function.file_form()))
            .collect();
        for entry in Dir::read_from(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(file) = entry.file_name().to_str() else { continue };
            if file.ends_with(".json") && !known.contains(file) {
                self.remove_file(file.to_owned())?;
            }
        }
        self.may_be_there = false;
        self.recent.retain(|function, _| functions.contains(function));
        self.waiting.retain(|function, _| functions.contains(function));
        Ok(())
    }

    fn remove_file(&self, file: String) -> Result<(), StatusError> {
        match rustix::fs::unlinkat(&self.directory, &*file, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(StatusError::new("remove", file, errno)),
        }
    }
}

/// Returns whether two status files differ at most in the digits of the time at which they were written.
fn is_same(there: &[u8], text: &[u8]) -> bool {
    // A quotation mark within a text has a backslash before it, so this is the key.
    const KEY: &[u8] = br#""timestamp":""#;
    let Some(key) = text.windows(KEY.len()).position(|part| part == KEY) else {
        return false;
    };
    let (before, after) = text.split_at(key + KEY.len());
    let time = after.iter().position(|byte| *byte == b'"').unwrap_or(0);
    let is_time = |(there, new): (&u8, &u8)| there == new || (there.is_ascii_digit() && new.is_ascii_digit());
    there.len() == text.len()
        && there.starts_with(before)
        && there.ends_with(&after[time..])
        && there[before.len()..].iter().zip(&after[..time]).all(is_time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::run::FunctionState;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    fn status(function: &str, message: &str) -> FunctionStatus {
        let json = serde_json::json!({
            "status": "pending", "message": message, "timestamp": fnd_core::instant::text(0), "function": function,
            "state": FunctionState::Ready, "runs": 0, "failures": 0,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn files_are_named_after_the_function_and_have_the_mode() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::open(&directory.path().join("status"), 0o640).unwrap();
        let path = directory.path().join("status/ops.backup.json");
        files.write(&status("ops/backup", "hello")).unwrap();
        files.write(&status("hello", "x")).unwrap();
        let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written["message"], "hello");
        assert_eq!(written["exit_code"], serde_json::Value::Null);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        files.keep_only(&HashSet::from([name("hello")])).unwrap();
        assert!(!path.exists() && directory.path().join("status/hello.json").exists());
        files.remove(&name("hello")).unwrap();
        files.remove(&name("hello")).unwrap();
        assert_eq!(std::fs::read_dir(directory.path().join("status")).unwrap().count(), 0);
    }

    #[test]
    fn the_file_of_an_earlier_fnd_stays_if_only_the_time_has_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hello.json");
        let at = |unix_ms, message: &str| FunctionStatus {
            timestamp: fnd_core::instant::text(unix_ms),
            ..status("hello", message)
        };
        let open = || StatusFiles::open(directory.path(), 0o640).unwrap();
        let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
        open().write(&at(1_000, "said \"timestamp\":\"x")).unwrap();
        let (first, text) = (inode(), std::fs::read_to_string(&path).unwrap());
        open().write(&at(2_000, "said \"timestamp\":\"x")).unwrap();
        assert_eq!(
            (inode(), std::fs::read_to_string(&path).unwrap()),
            (first, text.clone())
        );
        // The file and a name for its inode, which is not used again in the meantime.
        let is_replaced = |damage: &dyn Fn()| {
            let kept = directory.path().join("kept");
            let _ = std::fs::remove_file(&kept);
            std::fs::hard_link(&path, &kept).unwrap();
            damage();
            let before = inode();
            open().write(&at(1_000, "said \"timestamp\":\"x")).unwrap();
            let now = std::fs::metadata(&path).unwrap();
            assert_eq!(now.permissions().mode() & 0o777, 0o640);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            inode() != before
        };
        let damaged = [
            text.replace("pending", "pendong"),
            text.replace("hello", "hullo"),
            text.replace("1970", "197x"),
            text.replace("said", "said "),
            text.trim_end().to_owned(),
            String::new(),
        ];
        for damaged in &damaged {
            assert!(is_replaced(&|| std::fs::write(&path, damaged).unwrap()), "{damaged}");
        }
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert!(is_replaced(&|| mode(0o666)), "another mode");
        assert!(!is_replaced(&|| {}), "it is as it was");
        let mut later = open();
        later.keep_only(&HashSet::from([name("hello")])).unwrap();
        let before = inode();
        later.write(&at(1_000, "said \"timestamp\":\"x")).unwrap();
        assert_ne!(inode(), before, "each later write is a new file");
    }

    #[test]
    fn what_could_not_be_written_is_tried_again_and_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let at = Duration::from_millis;
        let hello = name("hello");
        assert!(files.changed(&hello, at(0)));
        assert!(files.tried(&hello, at(0), false), "news");
        assert!(!files.changed(&hello, at(500)), "not more often under load");
        assert_eq!(files.next_due(), Some(at(1000)));
        assert_eq!(files.due(at(999)), []);
        assert_eq!(files.due(at(1000)), std::slice::from_ref(&hello));
        assert!(!files.tried(&hello, at(1000), false), "known");
        assert_eq!(files.due(at(2000)), std::slice::from_ref(&hello));
        assert!(!files.tried(&hello, at(2000), true));
        assert_eq!((files.due(at(3000)), files.next_due()), (Vec::new(), None));
    }

    #[test]
    fn functions_whose_files_were_written_earlier_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let at = Duration::from_millis;
        let waits = name("waits");
        assert!(files.changed(&waits, at(0)) && !files.changed(&waits, at(1)));
        for n in 0..10_000 {
            assert!(files.changed(&name(&format!("f{n}")), at(n)));
        }
        assert!(files.recent.capacity() < 1000, "{}", files.recent.capacity());
        assert!(!files.changed(&name("f9999"), at(10_000)), "it was just written");
        assert_eq!(files.due(at(10_000)), [waits]);
    }

    #[test]
    fn files_that_are_due_at_once_are_written_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let at = Duration::from_millis;
        let sorted = ["a", "b", "c", "d", "e", "f", "g", "h"].map(name);
        for function in sorted.iter().rev() {
            assert!(files.changed(function, at(0)) && !files.changed(function, at(1)));
        }
        assert_eq!(files.due(at(50)), sorted);
        for function in sorted.iter().rev() {
            assert!(!files.changed(function, at(51)));
        }
        assert_eq!(files.all_due(), sorted);
    }

    #[test]
    fn a_waiter_for_a_file_wakes_when_its_changes_are_written() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let at = Duration::from_millis;
        let hello = name("hello");
        assert!(files.written(&hello).is_none(), "nothing has changed");
        assert!(files.changed(&hello, at(0)));
        files.tried(&hello, at(0), true);
        assert!(files.written(&hello).is_none(), "its first change is written at once");
        assert!(!files.changed(&hello, at(10)));
        let [mut first, mut second] = [(); 2].map(|()| files.written(&hello).expect("it waits for the next write"));
        assert_eq!(files.due(at(50)), std::slice::from_ref(&hello));
        files.tried(&hello, at(50), false);
        assert!(first.try_recv().is_err() && second.try_recv().is_err(), "it failed");
        let third = files.written(&hello).expect("it waits for the next try");
        files.tried(&hello, at(1050), true);
        assert!(
            [first, second, third]
                .iter_mut()
                .all(|waiter| waiter.try_recv().is_ok())
        );
        assert!(files.changed(&hello, at(2000)) && !files.changed(&hello, at(2001)));
        let gone = files.written(&hello).expect("it waits");
        files.remove(&hello).unwrap();
        assert!(
            gone.blocking_recv().is_err(),
            "nobody waits for a function that is gone"
        );
    }

    #[test]
    fn a_reader_never_sees_a_torn_file() {
        let directory = tempfile::tempdir().unwrap();
        let files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let path = directory.path().join("hello.json");
        files.write(&status("hello", "")).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut read = 0;
                while !done.load(Ordering::Relaxed) || read == 0 {
                    let text = std::fs::read(&path).unwrap();
                    let status: FunctionStatus = serde_json::from_slice(&text).expect("whole at any time");
                    assert!(status.message.bytes().all(|byte| byte == b'x'));
                    read += 1;
                }
            });
            for length in 0..2000 {
                files.write(&status("hello", &"x".repeat(length * 7 % 9000))).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }

    #[test]
    fn changes_under_load_are_written_together() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = StatusFiles::open(directory.path(), 0o640).unwrap();
        let at = Duration::from_millis;
        let hello = name("hello");
        assert!(files.changed(&hello, at(0)));
        assert_eq!(files.next_due(), None);
        assert!(!files.changed(&hello, at(10)) && !files.changed(&hello, at(49)));
        assert!(files.changed(&name("other"), at(20)), "another function's is its own");
        assert_eq!(files.next_due(), Some(at(50)));
        assert_eq!(files.due(at(49)), []);
        assert_eq!(files.due(at(50)), std::slice::from_ref(&hello));
        assert_eq!((files.next_due(), files.due(at(200))), (None, Vec::new()));
        assert!(files.changed(&hello, at(201)) && !files.changed(&hello, at(202)));
        assert_eq!(files.all_due(), [hello]);
    }
}
