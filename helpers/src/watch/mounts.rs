//! Mounts, of which inotify does not report: one over a watched directory, or below it.

use std::ffi::OsStr;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The table of mounts that this process sees. It is ready with `POLLPRI` after each change (proc_pid_mountinfo(5)).
pub(super) struct Mounts {
    table: std::fs::File,
}

impl AsFd for Mounts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.as_fd()
    }
}

impl Mounts {
    /// Opens the table; nothing where `/proc` is not mounted.
    pub(super) fn open() -> Option<Self> {
        let table = std::fs::File::open("/proc/self/mountinfo").ok()?;
        Some(Self { table })
    }

    pub(super) fn read(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let whole = self.table.rewind().and_then(|()| self.table.read_to_end(&mut text));
        // A table that cannot be read has no mounts: the next one differs, and causes a scan.
        whole.map(|_| text).unwrap_or_default()
    }
}

/// Returns the mounts below a directory: device and path of each.
pub(super) fn below(table: &[u8], directory: &Path) -> Vec<(Vec<u8>, PathBuf)> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = fields.nth(2)?.to_vec();
        let point = PathBuf::from(OsStr::from_bytes(&unescape(fields.nth(1)?)));
        (point != directory && point.starts_with(directory)).then_some((device, point))
    };
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Returns a path without the escapes of the table: `\040` is a space.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut path = Vec::new();
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                path.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                path.push(*first);
                rest = after;
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_are_found_by_their_names() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /srv/in rw - tmpfs t rw\n\
            3 2 0:6 / /srv/in/a\\040b rw - tmpfs t rw\n4 1 0:7 / /srv/inside rw - tmpfs t rw\n";
        let found = below(table, Path::new("/srv/in"));
        assert_eq!(found, [(b"0:6".to_vec(), PathBuf::from("/srv/in/a b"))]);
        assert_eq!(unescape(b"a\\134b\\0"), b"a\\b\\0");
    }
}
