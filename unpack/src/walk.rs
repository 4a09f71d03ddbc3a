//! Decides about each entry of an archive, whatever its format: skipped, refused, or given to the sink.

use crate::names::EntryNames;
use crate::{Sink, UnpackStop};
use fnd_wire::archive::{ArchiveRefusal, BYTES_MAX, ENTRIES_MAX, Why, check_path};
use fnd_wire::unpack::Unpacked;

/// Names that are skipped in directories, too.
const SKIPPED: [&str; 2] = [".git", "__pycache__"];
/// The directory that macOS adds beside the one that it packs.
const MACOS: &str = "__MACOSX";
/// Longest part of a name in a refusal, in characters.
const NAMED_MAX: usize = 1000;

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArchiveEntryKind {
    File,
    Directory,
    /// A kind that is refused.
    Other(Why),
}

/// An entry of an archive.
#[derive(Debug)]
pub(crate) struct ArchiveEntry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: ArchiveEntryKind,
    pub(crate) mode: u32,
    pub(crate) length: u64,
    /// Why its content can't be read.
    pub(crate) unreadable: Option<Why>,
}

/// Where the files of a function are in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Top {
    /// No file was seen yet.
    Unknown,
    /// All are in this directory.
    In(String),
    /// They are at the top.
    None,
}

/// The progress through an archive.
pub(crate) struct ArchiveWalk<'a> {
    names: EntryNames,
    entries: usize,
    bytes: u64,
    top: Top,
    /// The sink, and the beginning of all paths that it does not get; absent while the archive is only checked.
    sink: Option<(&'a mut dyn Sink, String)>,
}

impl<'a> ArchiveWalk<'a> {
    pub(crate) fn new(sink: Option<(&'a mut dyn Sink, String)>) -> Self {
        Self {
            names: EntryNames::default(),
            entries: 0,
            bytes: 0,
            top: Top::Unknown,
            sink,
        }
    }

    /// Returns the beginning of all paths: the one directory at the top, or nothing.
    ///
    /// # Errors
    /// If there is no file.
    pub(crate) fn top(self) -> Result<String, Why> {
        match self.top {
            Top::Unknown => Err(Why::Empty),
            Top::In(directory) => Ok(format!("{directory}/")),
            Top::None => Ok(String::new()),
        }
    }

    /// Counts an entry, or a header that only describes others.
    ///
    /// # Errors
    /// If there are too many.
    pub(crate) fn count(&mut self) -> Result<(), Why> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            Err(Why::TooMany)
        } else {
            Ok(())
        }
    }

    /// Decides about an entry; returns whether its content is wanted.
    ///
    /// # Errors
    /// [`UnpackStop`].
    pub(crate) fn entry(&mut self, entry: &ArchiveEntry<'_>) -> Result<bool, UnpackStop> {
        self.count()?;
        let refused = |why: Why| ArchiveRefusal {
            // That there are too many entries is not the fault of the last one.
            entry: (!matches!(why, Why::TooMany)).then(|| named(entry.name)),
            why,
        };
        let path = path(entry.name).map_err(refused)?;
        let mut parts = path.split('/');
        if path.is_empty() && entry.kind == ArchiveEntryKind::Directory {
            return Ok(false); // the directory that was packed
        }
        // Skipped entries may be of any kind: a link in `.git` is no reason to refuse the archive.
        if parts.clone().any(|part| SKIPPED.contains(&part)) || parts.next() == Some(MACOS) {
            return Ok(false);
        }
        match entry.kind {
            ArchiveEntryKind::Other(why) => return Err(refused(why).into()),
            // The bits of a directory have no effect: fnd makes the directories of an installed function itself. Directories
            // of teams often have the setgid bit.
            ArchiveEntryKind::File if entry.mode & 0o7000 != 0 => return Err(refused(Why::SpecialBits).into()),
            ArchiveEntryKind::File | ArchiveEntryKind::Directory => {}
        }
        check_path(&path).map_err(refused)?;
        self.names
            .add(&path, entry.kind == ArchiveEntryKind::Directory)
            .map_err(refused)?;
        if entry.kind == ArchiveEntryKind::Directory {
            return Ok(false);
        }
        // Checked only here: entries that are left out above need no content, and theirs may be encrypted, for example.
        if let Some(why) = entry.unreadable {
            return Err(refused(why).into());
        }
        self.bytes = self.bytes.saturating_add(entry.length);
        if self.bytes > BYTES_MAX {
            return Err(Why::TooLarge.into());
        }
        let directory = path.split_once('/').map(|(directory, _)| directory.to_owned());
        self.top = match (&self.top, directory) {
            (Top::Unknown, Some(directory)) => Top::In(directory),
            (Top::In(known), Some(directory)) if *known == directory => Top::In(directory),
            _ => Top::None,
        };
        if let Some((sink, top)) = &mut self.sink {
            let file = Unpacked {
                path: path.strip_prefix(top.as_str()).unwrap_or(&path).to_owned(),
                executable: entry.mode & 0o111 != 0,
                length: entry.length,
            };
            sink.file(&file).map_err(UnpackStop::Sink)?;
        }
        Ok(true)
    }

    /// Passes on the next bytes of the file.
    ///
    /// # Errors
    /// [`UnpackStop::Sink`].
    pub(crate) fn data(&mut self, bytes: &[u8]) -> Result<(), UnpackStop> {
        match &mut self.sink {
            Some((sink, _)) => sink.data(bytes).map_err(UnpackStop::Sink),
            None => Ok(()),
        }
    }
}

/// Returns an entry's name for people, of a length that fits into a message.
pub(crate) fn named(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(NAMED_MAX).collect()
}

/// Returns an entry's path without `.`, without doubled and without trailing slashes; empty for the directory itself.
fn path(name: &[u8]) -> Result<String, Why> {
    let name = str::from_utf8(name).map_err(|_| Why::BadName)?;
    if name.starts_with('/') {
        return Err(Why::Absolute);
    }
    let parts: Vec<&str> = name
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.contains(&"..") {
        return Err(Why::Outside);
    }
    if name.contains(|letter: char| letter == '\\' || letter.is_control()) {
        return Err(Why::BadName);
    }
    Ok(parts.join("/"))
}
