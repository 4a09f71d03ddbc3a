//! Replaces a damaged database with a new one in steps, so that a crash between any two of them loses neither, and keeps the
//! damaged one under another name.
//!
//! ```text
//! NAME.salvage   rows are read into it; after a crash it is created anew
//!   └─ synced, renamed ─▶ NAME.salvaged-TIME   complete; after a crash the next start continues from here
//!        NAME, -wal, -shm ─▶ NAME.damaged-TIME, -wal, -shm
//!        NAME.salvaged-TIME ─▶ NAME
//! ```

use super::beside;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// How many damaged databases are kept. A disk that damages one a day must not be filled by them.
const KEPT: usize = 3;
/// Suffixes of a database and of the files that SQLite keeps beside it.
pub(super) const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The replacement of a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replacement<'a> {
    directory: &'a Path,
    /// The file name of the database.
    name: &'static str,
}

impl<'a> Replacement<'a> {
    pub(crate) const fn of(directory: &'a Path, name: &'static str) -> Self {
        Self { directory, name }
    }

    /// Returns the path of the database.
    pub(crate) fn path(&self) -> PathBuf {
        self.named("")
    }

    fn named(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}{suffix}", self.name))
    }

    /// Returns the path of the new database while rows are read into it. The files of an earlier try are removed.
    pub(crate) fn begin(&self) -> PathBuf {
        for path in self.starting_with(".salvage") {
            if !path.to_string_lossy().contains(".salvaged-") {
                let _ = std::fs::remove_file(path); // it is created anew
            }
        }
        self.named(".salvage")
    }

    /// Returns the path that a database which is set aside at a time gets.
    pub(crate) fn aside(&self, now_ms: u64) -> PathBuf {
        self.named(&format!(".damaged-{}", name_of(now_ms)))
    }

    /// Replaces the database with the new one.
    ///
    /// # Errors
    /// From the files; then the damaged one keeps its name, or the next start completes the replacement.
    pub(crate) fn complete(&self, now_ms: u64) -> io::Result<()> {
        let part = self.named(".salvage");
        // The next name says that the content is whole, so the content is on the disk before.
        File::open(&part).and_then(|file| file.sync_all())?;
        std::fs::rename(&part, self.named(&format!(".salvaged-{}", name_of(now_ms))))?;
        // From this name on the replacement is decided: after a crash the next start completes it.
        sync(self.directory)?;
        self.begin();
        self.finish()
    }

    /// Completes a replacement that a crash interrupted, and removes the oldest damaged databases.
    pub(crate) fn finish(&self) -> io::Result<()> {
        for whole in self.starting_with(".salvaged-") {
            let name = whole.to_string_lossy();
            let Some((_, name)) = name.rsplit_once(".salvaged-") else {
                continue;
            };
            let aside = self.named(&format!(".damaged-{name}"));
            for suffix in SUFFIXES {
                match std::fs::rename(beside(&self.path(), suffix), beside(&aside, suffix)) {
                    // A crash may have come between these renames, so some of the files may be aside already.
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            // SQLite must never use the write-ahead log of the damaged database for the new one.
            sync(self.directory)?;
            std::fs::rename(&whole, self.path())?;
            sync(self.directory)?;
        }
        self.remove_oldest(KEPT);
        Ok(())
    }

    /// Gives the database the name of one that is set aside, without a new one in its place. Returns the name.
    pub(crate) fn set_aside(&self, now_ms: u64) -> PathBuf {
        // Before the renames: if the clock was set back, the name of the new one is the oldest.
        self.remove_oldest(KEPT - 1);
        let aside = self.aside(now_ms);
        for suffix in SUFFIXES {
            // It may not exist; if the database stays, the next try to open it fails.
            let _ = std::fs::rename(beside(&self.path(), suffix), beside(&aside, suffix));
        }
        aside
    }

    fn remove_oldest(&self, kept: usize) {
        for path in self.asides().iter().rev().skip(kept) {
            tracing::warn!("removing `{}`: {kept} newer damaged ones are kept", path.display());
            for suffix in SUFFIXES {
                let _ = std::fs::remove_file(beside(path, suffix)); // the next start retries this
            }
        }
    }

    /// Returns the damaged databases that were set aside, oldest first.
    pub(crate) fn asides(&self) -> Vec<PathBuf> {
        let mut found = self.starting_with(".damaged-");
        found.retain(|path| !path.to_string_lossy().ends_with("-wal") && !path.to_string_lossy().ends_with("-shm"));
        found.sort(); // their names are times
        found
    }

    fn starting_with(&self, suffix: &str) -> Vec<PathBuf> {
        let prefix = format!("{}{suffix}", self.name);
        let entries = std::fs::read_dir(self.directory).into_iter().flatten().flatten();
        let fits = |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        entries.filter(fits).map(|entry| entry.path()).collect()
    }
}

fn name_of(now_ms: u64) -> String {
    let text = fnd_core::instant::text(now_ms);
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
