//! Keeps two spawners that run as root on one machine from giving the same user to functions of both.
//!
//! A spawner locks its `[users] range` in a file that is the same for all of them: the byte N of that file stands for
//! the user N (record locks, fcntl(2)). So the kernel refuses ranges that overlap, names the process that holds the
//! other range, and ends a lock with its process, in whatever way the process ends. Processes that a spawner forks do
//! not inherit the lock.

use crate::log::Failed as _;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The lock file, in a directory that root owns on every system and that is empty after a boot.
pub const FILE: &str = "/run/fnd-users.lock";

/// The open lock file. A process opens it only once: the locks end when the process closes any descriptor of that file.
pub struct Ranges(File);

impl Ranges {
    /// Opens the lock file, or makes it.
    ///
    /// # Errors
    /// Why the file can't be opened, or who else could change it; for people.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file =
            options.open(path).failed(&format!("open `{shown}`, in which each instance of fnd locks its users"))?;
        match crate::policy::insecure_above(path, &[0]) {
            Some(bad) => Err(format!("users other than root can change `{}`, so `{shown}` is not used", bad.display())),
            None => Ok(Self(file)),
        }
    }

    /// Locks the users from the first to the last until this process ends. The lock stays when another range is
    /// configured, since functions may still run as users of this one.
    ///
    /// # Errors
    /// The process that holds some of them, for people; then no user is locked.
    #[expect(clippy::cast_possible_truncation, reason = "constants of fcntl(2), none above 2")]
    pub fn take(&self, (first, last): (u32, u32)) -> Result<(), String> {
        let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
        let (l_start, l_len) = (first.into(), i64::from(last) - i64::from(first) + 1);
        let mut lock = libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 };
        match fcntl(&self.0, FcntlArg::F_SETLK(&lock)) {
            // Another process has a lock; the next call says which one.
            Err(Errno::EACCES | Errno::EAGAIN) => {}
            locked => return locked.map(drop).failed("lock the users of functions"),
        }
        fcntl(&self.0, FcntlArg::F_GETLK(&mut lock)).failed("find the process that uses the users of functions")?;
        if lock.l_type == libc::F_UNLCK as libc::c_short {
            return self.take((first, last)); // the other process has ended meanwhile
        }
        let (from, to) = (lock.l_start, lock.l_start + lock.l_len - 1);
        // The kernel gives 0 for a process that is not visible in this pid namespace.
        let who = match lock.l_pid {
            1.. => format!("process {}{}", lock.l_pid, state_of(lock.l_pid)),
            _ => "a process of another container".to_owned(),
        };
        Err(format!("another instance of fnd has {from} to {to} ({who}), and `[users] range` is {first} to {last}"))
    }
}

/// Returns, in words, the state directory of another spawner as its command line has it.
fn state_of(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip_while(|word| *word != b"--state").skip(1);
    let state = words.next().map(|word| Path::new(std::ffi::OsStr::from_bytes(word)).display().to_string());
    state.map(|state| format!(", state directory `{state}`")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, chown, symlink};

    #[test]
    fn only_a_file_of_roots_is_used_and_no_link_is_followed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("lock"), dir.path().join("target"));
        let ranges = Ranges::open(&path).unwrap();
        ranges.take((70_000, 70_009)).unwrap();
        ranges.take((70_005, 70_020)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        chown(&path, Some(12_001), None).unwrap();
        let why = Ranges::open(&path).err().unwrap();
        assert!(why.contains("users other than root can change"), "{why}");
        std::fs::remove_file(&path).unwrap();
        symlink(&target, &path).unwrap();
        assert!(Ranges::open(&path).is_err() && !target.exists());
        // Users who can write to the directory could replace the file.
        std::fs::remove_file(&path).unwrap();
        chown(dir.path(), Some(12_001), None).unwrap();
        assert!(Ranges::open(&path).err().unwrap().contains("users other than root can change"));
    }
}
