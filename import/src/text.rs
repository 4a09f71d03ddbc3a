//! A foreign text file: its lines, and the place of each field.

use crate::failure::{FailureKind, ImportFailure};
use fnd_manifest::foreign::Field;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest file that is read. A crontab or a unit has a few KiB.
const SIZE_MAX: u64 = 1 << 20;

/// A text and its name.
#[derive(Debug, Clone)]
pub(crate) struct ImportText {
    /// The file, as the user wrote it.
    pub(crate) name: String,
    /// Its lines, without their ends.
    pub(crate) lines: Vec<String>,
}

impl ImportText {
    /// Returns the lines of a text.
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            lines: text.lines().map(str::to_owned).collect(),
        }
    }

    /// # Errors
    /// It is missing, unreadable, larger than 1 MiB, or no UTF-8.
    pub(crate) fn read(path: &Path) -> Result<Self, ImportFailure> {
        let name = path.display().to_string();
        let bytes = read(path)?;
        let text = String::from_utf8(bytes).map_err(|_| {
            ImportFailure::invalid(format!("`{name}` is no text in UTF-8"))
                .help("name a text file; `iconv -f ENCODING -t UTF-8` converts another encoding")
        })?;
        Ok(Self::new(&name, &text))
    }

    /// Returns the field at a line and a column; both count from 1.
    pub(crate) fn field(&self, name: &str, line: usize, column: usize) -> Field {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        field(&self.name, name, (number(line), number(column)), &self.lines)
    }

    /// Returns the whole file as a field.
    pub(crate) fn whole(&self, name: &str) -> Field {
        self.field(name, 1, 1)
    }
}

/// Reads a number within bounds.
pub(crate) fn within<T: FromStr + PartialOrd>(text: &str, bounds: RangeInclusive<T>) -> Option<T> {
    text.parse().ok().filter(|number| bounds.contains(number))
}

/// Returns a field of a file with these lines; lines and columns count from 1.
pub(crate) fn field(file: &str, name: &str, (line, column): (u32, u32), lines: &[String]) -> Field {
    let index = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    // A comment in a manifest and a row of the report have no use for more.
    let excerpt = lines.get(index).map(|text| text.chars().take(400).collect());
    Field {
        file: file.to_owned(),
        name: name.to_owned(),
        line,
        column,
        excerpt: excerpt.unwrap_or_default(),
    }
}

/// Returns the absolute path of the directory of a file.
pub(crate) fn directory_of(file: &Path) -> PathBuf {
    let full = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    full.parent().unwrap_or(Path::new("/")).to_owned()
}

/// Reads the bytes of a file.
///
/// # Errors
/// As for [`ImportText::read`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ImportFailure> {
    let name = path.display();
    let refused = |error: std::io::Error| {
        let message = format!("failed to read `{name}`: {error}");
        match error.kind() {
            ErrorKind::PermissionDenied => {
                ImportFailure::new(FailureKind::NotAllowed, message).help("run it with sudo")
            }
            _ => ImportFailure::usage(message),
        }
    };
    let file = File::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.is_dir() {
        return Err(ImportFailure::usage(format!("`{name}` is a directory")).help("name the file in it"));
    }
    let mut bytes = Vec::new();
    // One byte more shows that there is too much, also where no size is known before, as of a pipe.
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > SIZE_MAX {
        let message = format!("`{name}` is larger than 1 MiB");
        return Err(ImportFailure::invalid(message));
    }
    Ok(bytes)
}
