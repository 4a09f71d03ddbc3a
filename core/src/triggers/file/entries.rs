//! Which entry of `[[file]]` a path belongs to. Entries that name the same directory share it, and the first whose
//! pattern matches takes the file.

use fnd_manifest::function::file::{FileChange, matcher};
use fnd_manifest::function::keys::FileTrigger;
use globset::GlobMatcher;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

/// Returns the number of the watched directory of each entry: the position of the first entry with the same path.
#[must_use]
pub fn directories(entries: &[FileTrigger]) -> Vec<u16> {
    let first = |entry: &FileTrigger| {
        // Paths are compared part by part, so that `/in/` is the directory `/in`.
        let same = |other: &FileTrigger| Path::new(&other.path) == Path::new(&entry.path);
        let position = entries.iter().position(same).unwrap_or_default();
        u16::try_from(position).unwrap_or(u16::MAX)
    };
    entries.iter().map(first).collect()
}

/// The entries of a function.
#[derive(Debug, Default)]
pub struct Entries {
    entries: Vec<WatchedEntry>,
}

#[derive(Debug)]
struct WatchedEntry {
    directory: u16,
    trigger: FileTrigger,
    pattern: Option<GlobMatcher>,
}

impl Entries {
    /// Compiles the pattern of each entry; an entry whose pattern is invalid has none.
    #[must_use]
    pub fn new(triggers: Vec<FileTrigger>) -> Self {
        let numbers = directories(&triggers);
        let entry = |(directory, trigger): (u16, FileTrigger)| WatchedEntry {
            directory,
            pattern: matcher(&trigger.pattern),
            trigger,
        };
        Self {
            entries: numbers.into_iter().zip(triggers).map(entry).collect(),
        }
    }

    /// Returns the watched directories: number, path, and whether directories below count too.
    pub fn directories(&self) -> impl Iterator<Item = (u16, &str, bool)> {
        let first = |(position, entry): &(usize, &WatchedEntry)| usize::from(entry.directory) == *position;
        self.entries.iter().enumerate().filter(first).map(|(_, entry)| {
            let recursive = self.of(entry.directory).any(|(_, trigger)| trigger.recursive);
            (entry.directory, entry.trigger.path.as_str(), recursive)
        })
    }

    /// Returns the entries of a directory with their positions.
    pub(super) fn of(&self, directory: u16) -> impl Iterator<Item = (u16, &FileTrigger)> {
        let numbers = 0..u16::MAX;
        let mine = move |(_, entry): &(u16, &WatchedEntry)| entry.directory == directory;
        numbers
            .zip(&self.entries)
            .filter(mine)
            .map(|(position, entry)| (position, &entry.trigger))
    }

    /// Returns the number of the directory of an entry.
    pub(super) fn directory(&self, entry: u16) -> u16 {
        let entry = self.entries.get(usize::from(entry));
        entry.map_or(u16::MAX, |entry| entry.directory)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, entry: Option<u16>) -> Option<&FileTrigger> {
        self.entries.get(usize::from(entry?)).map(|entry| &entry.trigger)
    }

    /// Returns whether an entry wants to know of a change.
    pub(super) fn wants(&self, entry: Option<u16>, change: FileChange) -> bool {
        self.get(entry).is_some_and(|trigger| trigger.on.contains(&change))
    }

    /// Returns how long a file must rest. A program that keeps its file open may pause between two writes, so an open file must rest
    /// for the longer time.
    pub(super) fn quiet_time(&self, entry: Option<u16>, is_closed: bool) -> Duration {
        let time = |trigger: &FileTrigger| if is_closed { trigger.debounce } else { trigger.settle };
        self.get(entry).map(time).unwrap_or_default()
    }

    /// Returns the time between looks at all files of a directory.
    pub(super) fn every(&self, directory: u16) -> Option<Duration> {
        self.of(directory).filter_map(|(_, trigger)| trigger.every).min()
    }

    /// Returns the entry that takes a file; nothing if none does.
    pub(super) fn take(&self, directory: u16, path: &[u8]) -> Option<u16> {
        let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (Some(path.get(..at)?), path.get(at + 1..)?),
            None => (None, path),
        };
        // Hidden directories do not count, as in a shell's `*`: programs keep files there that are not complete.
        if above.is_some_and(|above| above.split(|byte| *byte == b'/').any(|part| part.starts_with(b"."))) {
            return None;
        }
        let takes = |entry: &WatchedEntry| {
            let visible = !name.starts_with(b".") || entry.trigger.pattern.starts_with('.');
            let matches = |pattern: &GlobMatcher| pattern.is_match(OsStr::from_bytes(name));
            entry.directory == directory
                && (above.is_none() || entry.trigger.recursive)
                && visible
                && entry.pattern.as_ref().is_some_and(matches)
        };
        u16::try_from(self.entries.iter().position(takes)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::entry;
    use super::*;

    #[test]
    fn the_first_entry_that_matches_takes_the_file() {
        let entries = Entries::new(vec![
            FileTrigger {
                pattern: "*.csv".to_owned(),
                ..entry("/in")
            },
            FileTrigger {
                recursive: true,
                ..entry("/in/")
            },
            FileTrigger {
                pattern: ".*".to_owned(),
                ..entry("/other")
            },
        ]);
        let numbers: Vec<_> = entries.directories().collect();
        assert_eq!(numbers, [(0, "/in", true), (2, "/other", false)]);
        for (directory, path, expected) in [
            (0, b"a.csv".as_slice(), Some(0)),
            (0, b"a.txt", Some(1)),
            (0, b"below/a.csv", Some(1)),
            (0, b".a.csv", None),
            (0, b".below/a.csv", None),
            (0, b"a/.b/a.csv", None),
            (0, b"\xff\n.csv", Some(0)),
            (2, b".a", Some(2)),
            (2, b"a", None),
            (2, b"below/.a", None),
            (1, b"a", None),
        ] {
            assert_eq!(entries.take(directory, path), expected, "{}", path.escape_ascii());
        }
    }
}
