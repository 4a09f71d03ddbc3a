//! Opens regular files that belong to other people, without waiting for any of them.
//!
//! The owner of a file can exchange it for a FIFO between the moment when somebody looks at it and the moment when it is
//! opened; opening a FIFO waits for a writer. The owner can also hold a lease on the file (fcntl(2), `F_SETLEASE`): then
//! opening it waits until the owner gives up the lease, 45 seconds at most. `O_NONBLOCK` waits for neither.

use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, Error, ErrorKind, Read as _};
use std::path::Path;

/// Opens a regular file for reading. A symbolic link is followed: the caller decides where links may lead.
///
/// # Errors
/// `InvalidInput` if it is no regular file, `WouldBlock` if its owner holds a lease on it; otherwise those of open(2).
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device can have effects, so only a file that is regular now is opened. The name may mean another file when
    // it is opened, so the descriptor is looked at again.
    if !std::fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    // With NONBLOCK neither a pipe nor a lease makes open(2) wait. With NOCTTY no terminal becomes that of this
    // process.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    opened(File::from(openat(CWD, path, flags, Mode::empty()).map_err(leased)?))
}

/// Reads a regular file.
///
/// # Errors
/// As [`open`], and those of read(2).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn opened(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(not_regular())
    }
}

fn not_regular() -> Error {
    Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

fn leased(errno: rustix::io::Errno) -> Error {
    match Error::from(errno) {
        error if error.kind() == ErrorKind::WouldBlock => Error::new(
            ErrorKind::WouldBlock,
            "its owner holds a lease on it; try again in a minute",
        ),
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkfifoat;
    use std::fs;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_fifo_a_directory_and_a_device_are_refused_without_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        for path in [fifo.as_path(), directory.path(), Path::new("/dev/null")] {
            assert_eq!(
                open(path).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{}",
                path.display()
            );
        }
        // The name became a FIFO after it was looked at: this is what opening finds then.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(CWD, &fifo, flags, Mode::empty()).unwrap());
        assert_eq!(opened(file).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(
            open(&directory.path().join("gone")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    /// Of fcntl(2); the crate `libc` has no name for it.
    const F_SETSIG: libc::c_int = 10;

    #[test]
    #[expect(unsafe_code, reason = "neither nix nor rustix has F_SETLEASE")]
    fn a_lease_is_reported_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f.py");
        fs::write(&path, "code").unwrap();
        let holder = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let control = |command: libc::c_int, value: libc::c_int| {
            // SAFETY: both commands take a number, and the descriptor is open.
            unsafe { libc::fcntl(holder.as_raw_fd(), command, value) }
        };
        // The signal that asks to give the lease up is SIGIO by default, which would end the test; SIGURG is ignored.
        assert_eq!(control(F_SETSIG, libc::SIGURG), 0);
        assert_eq!(
            control(libc::F_SETLEASE, libc::F_WRLCK),
            0,
            "{}",
            Error::last_os_error()
        );
        assert_eq!(read(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(control(libc::F_SETLEASE, libc::F_UNLCK), 0);
        assert_eq!(read(&path).unwrap(), b"code");
    }
}
