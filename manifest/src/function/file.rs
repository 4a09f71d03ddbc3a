//! Values of `[[file]]`: which changes count, which names match, and what happens to a file afterwards.

use super::keys::FileTrigger;
use crate::schema::TextGrammar;
use crate::schema::pick::FromValue;
use crate::schema::tree::TomlValue;
use crate::words;
use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

words! {
    /// Changes of a file.
    pub enum FileChange {
        /// A file with a new name.
        Created = "created",
        /// New content under a known name.
        Modified = "modified",
        /// A file that is gone.
        Deleted = "deleted",
    }
}

/// A pattern of file names.
pub(crate) const PATTERN: TextGrammar = TextGrammar {
    name: "Glob",
    expected: "a pattern of file names such as `*.csv` or `*.{csv,txt}`, without `/`",
    holds: |text| matcher(text).is_some(),
    pattern: || "^[^/]+$".to_owned(),
};

/// `keep`, `delete`, or `move:` and a directory.
pub(crate) const ACTION: TextGrammar = TextGrammar {
    name: "FileAction",
    expected: "`keep`, `delete`, or `move:` and a directory such as `move:done`",
    holds: |text| FileAction::parse(text).is_some(),
    pattern: || "^(keep|delete|move:.+)$".to_owned(),
};

/// The treatment of a file after its invocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum FileAction {
    /// It stays where it is.
    #[default]
    Keep,
    /// The file is deleted.
    Delete,
    /// It is moved to this directory, which is relative to the watched one or absolute.
    Move(String),
}

impl FileAction {
    /// Parses `keep`, `delete` or `move:DIRECTORY`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "keep" => Some(Self::Keep),
            "delete" => Some(Self::Delete),
            _ => {
                let directory = text.strip_prefix("move:").filter(|directory| !directory.is_empty())?;
                Some(Self::Move(directory.to_owned()))
            }
        }
    }

    /// Returns the directory to which files in `watched` are moved, without `.` and `..`.
    #[must_use]
    pub fn destination(&self, watched: &str) -> Option<PathBuf> {
        match self {
            Self::Keep | Self::Delete => None,
            Self::Move(directory) => Some(normal(&Path::new(watched).join(directory))),
        }
    }
}

impl TryFrom<String> for FileAction {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or(text)
    }
}

impl From<FileAction> for String {
    fn from(action: FileAction) -> Self {
        match action {
            FileAction::Keep => "keep".to_owned(),
            FileAction::Delete => "delete".to_owned(),
            FileAction::Move(directory) => format!("move:{directory}"),
        }
    }
}

impl FromValue for FileAction {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        value.map_or(Some(Self::default()), |value| Self::parse(&value.text()))
    }
}

impl FileTrigger {
    /// Returns whether something happens to the files after their invocation.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.then != FileAction::Keep || self.failed != FileAction::Keep
    }
}

/// Returns the matcher of a pattern of file names; nothing for a text that is no pattern. It does not treat hidden files
/// in a special way.
#[must_use]
pub fn matcher(pattern: &str) -> Option<GlobMatcher> {
    // Only the name of a file is compared, so a pattern with `/` would fit none.
    if pattern.is_empty() || pattern.contains('/') {
        return None;
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().ok()?;
    Some(glob.compile_matcher())
}

/// Returns a path without `.` and `..`, as text alone: no link is followed.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                // Above `/` this leaves `/`, as the kernel does.
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn an_action_is_written_as_it_is_read() {
        for text in ["keep", "delete", "move:done", "move:/srv/done", "move:../done"] {
            assert_eq!(String::from(FileAction::parse(text).unwrap()), text);
        }
        for text in ["", "move:", "remove", "move done"] {
            assert_eq!(FileAction::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_destination_is_relative_to_the_watched_directory() {
        let to = |text: &str| FileAction::parse(text).unwrap().destination("/srv/in");
        assert_eq!(to("keep"), None);
        assert_eq!(to("move:done"), Some("/srv/in/done".into()));
        assert_eq!(to("move:./a/../done/"), Some("/srv/in/done".into()));
        assert_eq!(to("move:../done"), Some("/srv/done".into()));
        assert_eq!(to("move:/var/done"), Some("/var/done".into()));
    }

    #[test]
    fn patterns_match_names_and_any_bytes() {
        let fits = |pattern: &str, name: &[u8]| matcher(pattern).unwrap().is_match(OsStr::from_bytes(name));
        assert!(fits("*", b"a.csv"));
        assert!(fits("*.{csv,txt}", b"a.txt"));
        assert!(fits("[a-c]?.csv", b"b1.csv"));
        assert!(fits("*.csv", b"\xff\n.csv"));
        assert!(!fits("*.csv", b"a.CSV"));
        for wrong in ["", "a/*.csv", "[", "{a"] {
            assert!(matcher(wrong).is_none(), "{wrong}");
        }
    }
}
