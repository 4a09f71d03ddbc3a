//! Where the files of a function are.

use fnd_wire::frame::STORED;
use fnd_wire::ids::{FunctionName, Version};

/// A function's files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceFiles {
    /// The function that the files make.
    pub function: FunctionName,
    /// Index of the functions directory; [`STORED`] for the copy of an installed version.
    pub directory: u16,
    /// Code file or directory, relative to the functions directory; of a copy the version in hexadecimal digits.
    pub source: String,
    /// Sidecar manifest, relative to the functions directory.
    pub sidecar: Option<String>,
    /// Whether `source` is a directory with `function.toml`.
    pub directory_form: bool,
}

impl SourceFiles {
    /// Returns the files of the copy of an installed version.
    #[must_use]
    pub fn of_copy(function: FunctionName, version: Version) -> Self {
        Self {
            function,
            directory: STORED,
            source: version.hex(),
            sidecar: None,
            directory_form: false,
        }
    }

    /// Returns the installed version whose copy these files are; nothing if they are the files that people wrote.
    #[must_use]
    pub fn copy(&self) -> Option<Version> {
        (self.directory == STORED).then(|| Version::parse(&self.source))?
    }
}
