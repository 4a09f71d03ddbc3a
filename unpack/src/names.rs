//! Finds names that are in one another's way: equal ones, and those that a file system without case, or one that normalizes
//! letters, would take for equal. Such an archive would be another function on another machine.

use fnd_wire::archive::{ENTRIES_MAX, Why};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use unicode_normalization::UnicodeNormalization as _;

/// The names of an archive: of its files, and of all directories that these are in.
#[derive(Debug, Default)]
pub(crate) struct EntryNames {
    /// By the form in which equal names are equal: the name as it is, and whether it is a directory.
    known: HashMap<String, (String, bool)>,
}

impl EntryNames {
    /// Adds a path and the directories above it.
    ///
    /// # Errors
    /// Why the path can't be beside those that are known.
    pub(crate) fn add(&mut self, path: &str, is_directory: bool) -> Result<(), Why> {
        // An archive need not have entries for the directories of its files.
        for (end, _) in path.match_indices('/') {
            self.add_one(path.get(..end).unwrap_or(path), true)?;
        }
        self.add_one(path, is_directory)
    }

    fn add_one(&mut self, path: &str, is_directory: bool) -> Result<(), Why> {
        let full = self.known.len() >= ENTRIES_MAX;
        match self.known.entry(folded(path)) {
            Entry::Occupied(known) => match known.get() {
                (name, _) if name != path => Err(Why::Alike),
                (_, true) if is_directory => Ok(()),
                _ => Err(Why::Twice),
            },
            Entry::Vacant(_) if full => Err(Why::TooMany),
            Entry::Vacant(new) => {
                new.insert((path.to_owned(), is_directory));
                Ok(())
            }
        }
    }
}

/// Returns the form in which names are equal that differ only by case or by the form of their letters.
fn folded(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    // The letters are decomposed before their case changes, as for caseless matching in Unicode (section 3.13).
    let lower: String = path.nfd().flat_map(char::to_lowercase).collect();
    lower.nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_some_file_system_takes_for_equal_are_found() {
        let add = |paths: &[(&str, bool)]| {
            let mut names = EntryNames::default();
            paths
                .iter()
                .try_for_each(|(path, is_directory)| names.add(path, *is_directory))
        };
        let files = |one: &str, two: &str| add(&[(one, false), (two, false)]);
        assert_eq!(files("a", "b"), Ok(()));
        assert_eq!(files("d/a", "d/b"), Ok(()));
        assert_eq!(add(&[("d", true), ("d", true), ("d/a", false)]), Ok(()));
        assert_eq!(files("a", "a"), Err(Why::Twice));
        assert_eq!(files("a", "a/b"), Err(Why::Twice));
        assert_eq!(files("a/b", "a"), Err(Why::Twice));
        assert_eq!(add(&[("a", false), ("a", true)]), Err(Why::Twice));
        assert_eq!(files("Makefile", "makefile"), Err(Why::Alike));
        assert_eq!(files("Lib/a", "lib/b"), Err(Why::Alike));
        assert_eq!(files("caf\u{e9}", "cafe\u{301}"), Err(Why::Alike));
        assert_eq!(files("\u{c9}", "e\u{301}"), Err(Why::Alike));
        assert_eq!(files("\u{212b}", "\u{e5}"), Err(Why::Alike));
    }

    #[test]
    fn directories_count_even_if_only_names_show_them() {
        let mut names = EntryNames::default();
        let path = |number: usize| format!("{number}/f");
        for number in 0..ENTRIES_MAX / 2 {
            names.add(&path(number), false).unwrap();
        }
        assert_eq!(names.add(&path(ENTRIES_MAX), false), Err(Why::TooMany));
    }
}
