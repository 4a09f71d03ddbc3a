//! A file that lists the directories that held functions. With it the next fnd can distinguish an empty directory that
//! is not mounted yet from one whose files were removed.
//!
//! There is one line for each directory: device, inode, path. It is not part of the ledger: a backup of the ledger may
//! be restored on another machine with other directories.

use super::presence::{DirectoryIdentity, KnownDirectories};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

/// Most bytes to read: far more than the directories need.
const MAX: u64 = 1 << 20;

/// The file and its contents.
#[derive(Debug)]
pub(super) struct ListedDirectories {
    path: PathBuf,
    pub(super) held: KnownDirectories,
    /// Whether the last write failed; logged once.
    failing: bool,
}

impl ListedDirectories {
    /// Reads the file. If the file is missing or cannot be read, nothing is known, and an empty directory then counts
    /// as empty.
    pub(super) fn open(path: PathBuf) -> Self {
        let held = match read(&path) {
            Ok(text) => lines(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => KnownDirectories::new(),
            Err(error) => {
                tracing::warn!(
                    "failed to read `{}`: {error}; a functions directory that is empty now counts as empty on purpose",
                    path.display()
                );
                KnownDirectories::new()
            }
        };
        Self {
            path,
            held,
            failing: false,
        }
    }

    /// Replaces the file if the directories have changed. The next scan retries a write that failed.
    pub(super) fn store(&mut self, held: KnownDirectories) {
        if held == self.held {
            return;
        }
        match self.replace(&held) {
            Ok(()) => {
                self.held = held;
                self.failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    let path = self.path.display();
                    tracing::warn!("failed to write `{path}`: {error}; it is tried again at the next scan");
                }
            }
        }
    }

    fn replace(&self, held: &KnownDirectories) -> io::Result<()> {
        let temporary = self.path.with_file_name(".directories");
        let mut file = fs::File::create(&temporary)?;
        for (path, DirectoryIdentity { device, inode }) in held {
            writeln!(file, "{device} {inode} {path}")?;
        }
        // After a power cut an unsynced file could be empty under its name. Then an empty directory would count as
        // emptied by a person, although its file system is only not mounted yet.
        file.sync_all()?;
        fs::rename(&temporary, &self.path)
    }
}

fn read(path: &std::path::Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the contents of the lines; skips invalid lines.
fn lines(text: &str) -> KnownDirectories {
    let line = |line: &str| {
        // The path comes last, because it may contain spaces.
        let mut words = line.splitn(3, ' ');
        let device = words.next()?.parse().ok()?;
        let inode = words.next()?.parse().ok()?;
        Some((words.next()?.to_owned(), DirectoryIdentity { device, inode }))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_read_and_what_is_damaged_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("directories");
        let mut file = ListedDirectories::open(path.clone());
        assert_eq!(file.held, KnownDirectories::new());
        let identity = DirectoryIdentity { device: 7, inode: 9 };
        let held: KnownDirectories = [("/etc/fnd/a directory".to_owned(), identity)].into();
        file.store(held.clone());
        assert_eq!(ListedDirectories::open(path.clone()).held, held);
        let mut text = fs::read(&path).unwrap();
        text.extend(b"7\nx 9 /a\n7 9\n");
        fs::write(&path, &text).unwrap();
        assert_eq!(ListedDirectories::open(path.clone()).held, held);
        text.push(0xff);
        fs::write(&path, &text).unwrap();
        assert_eq!(ListedDirectories::open(path.clone()).held, KnownDirectories::new());
        // The directory of the file is gone: nothing is kept back that could not be written.
        let mut gone = ListedDirectories::open(dir.path().join("gone/directories"));
        gone.store(held.clone());
        assert!(gone.failing && gone.held.is_empty());
        fs::create_dir(dir.path().join("gone")).unwrap();
        gone.store(held.clone());
        assert!(!gone.failing && gone.held == held);
    }
}
