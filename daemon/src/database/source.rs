//! The files that a salvage reads instead of a damaged database: a link to the database, with its log written anew, or without
//! a log if that is gone or not its own. The damaged files are not changed.

use super::aside::SUFFIXES;
use super::{LostCommits, beside, log};
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

/// Files that are removed with this value.
pub(crate) struct Copies(pub(crate) Vec<PathBuf>);

impl Copies {
    /// Returns the database, which is the first file.
    pub(crate) fn database(&self) -> Option<&Path> {
        self.0.first().map(PathBuf::as_path)
    }

    fn remove(&self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file); // it may not be there; the next salvage retries this
        }
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Links a database beside a path.
pub(crate) fn linked(from: &Path, to: &Path, lost: &LostCommits) -> io::Result<Copies> {
    let link = beside(to, "-linked");
    let files = Copies(SUFFIXES.map(|suffix| beside(&link, suffix)).into());
    // A salvage that was killed may have left its files here, and link(2) replaces none.
    files.remove();
    // A link needs no room on the disk, but not every file system has links.
    // The link or the copy is only read.
    if std::fs::hard_link(from, &link).is_err() {
        std::fs::copy(from, &link)?;
    }
    if let Some(end) = &lost.log {
        let old = BufReader::new(File::open(beside(from, "-wal"))?);
        let new = BufWriter::new(File::create(beside(&link, "-wal"))?);
        let pages = u32::try_from(std::fs::metadata(from)?.len() / log::PAGE as u64).unwrap_or(u32::MAX);
        log::write_anew(old, end, pages, new)?;
    }
    Ok(files)
}
