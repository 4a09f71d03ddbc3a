//! A person's text with the positions in it.

use crate::diagnostic::{Diagnostic, EXCERPT_MAX, Place, Severity};
use crate::warning::Warning;
use std::ops::Range;

/// Largest TOML file that is read, in bytes.
pub const FILE_MAX: usize = 256 << 10;

/// A TOML text, either a whole file or extracted from the comments of another file, with a mapping to the positions in
/// that file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file, for diagnostics.
    pub file: String,
    /// The TOML text, without the comment marks of the other file.
    pub toml: String,
    /// The lines of `toml`, in order.
    lines: Vec<SourceLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceLine {
    /// Start of the line in `toml`.
    start: usize,
    /// Number of the line in the file, from 1.
    number: u32,
    /// The part of the file's line before the TOML text: `# `.
    prefix: String,
}

impl Source {
    /// Returns the source for a whole file.
    ///
    /// # Errors
    /// A diagnostic where the file is larger than [`FILE_MAX`] or is not UTF-8.
    pub fn whole(file: &str, bytes: &[u8]) -> Result<Self, Box<Diagnostic>> {
        if bytes.len() > FILE_MAX {
            let message = format!(
                "the file has {} bytes, more than the limit of {} KiB",
                bytes.len(),
                FILE_MAX >> 10
            );
            return Err(Box::new(Diagnostic::error("too-large", message).in_file(file)));
        }
        // Some editors write a byte-order mark: that is not the person's mistake.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::of_lines(
                file,
                text.split_inclusive('\n').zip(1..).map(|(line, n)| (n, "", line)),
            )),
            Err(error) => {
                // The text before the wrong byte is valid, so the report can name the line and the column of that byte.
                let good = String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
                let source = Self::of_lines(file, good.split_inclusive('\n').zip(1..).map(|(line, n)| (n, "", line)));
                let end = source.toml.len();
                Err(Box::new(
                    Diagnostic::error("not-utf8", "the file is not UTF-8 text")
                        .at(&source, end..end)
                        .with_help("save it as UTF-8"),
                ))
            }
        }
    }

    /// Returns the source for some lines of a file, each with its number from 1, the part before the TOML text, and the
    /// text with its line end.
    pub fn of_lines<'a>(file: &str, from: impl Iterator<Item = (u32, &'a str, &'a str)>) -> Self {
        let mut toml = String::new();
        let mut lines = Vec::new();
        for (number, prefix, line) in from {
            lines.push(SourceLine {
                start: toml.len(),
                number,
                prefix: prefix.to_owned(),
            });
            toml.push_str(line);
        }
        Self {
            file: file.to_owned(),
            toml,
            lines,
        }
    }

    /// Returns the source for one line of a file.
    #[must_use]
    pub fn of_line(file: &str, number: u32, line: &str) -> Self {
        Self::of_lines(file, std::iter::once((number, "", line)))
    }

    /// Returns the numbers of its lines in the file, from 1.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().map(|line| line.number)
    }

    /// Returns the position in the file of a range of the TOML text.
    #[must_use]
    pub fn place(&self, span: &Range<usize>) -> Place {
        let index = self
            .lines
            .partition_point(|line| line.start <= span.start)
            .saturating_sub(1);
        let empty = SourceLine {
            start: 0,
            number: 1,
            prefix: String::new(),
        };
        let line = self.lines.get(index).unwrap_or(&empty);
        let end = self.lines.get(index + 1).map_or(self.toml.len(), |next| next.start);
        let text = self
            .toml
            .get(line.start..end)
            .unwrap_or_default()
            .trim_end_matches(['\n', '\r']);
        let chars = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        // A range may go on over several lines: only its part in the first line is shown.
        let cut = |from: usize, to: usize| {
            let from = from.clamp(line.start, line.start + text.len());
            let to = to.clamp(from, line.start + text.len());
            self.toml.get(from..to).unwrap_or_default()
        };
        let before = chars(&line.prefix).saturating_add(chars(cut(line.start, span.start)));
        Place {
            line: line.number,
            column: before.saturating_add(1),
            // A range may be empty, such as the end of the file. Without at least one marked character nobody would see
            // the place.
            length: chars(cut(span.start, span.end)).max(1),
            excerpt: line.prefix.chars().chain(text.chars()).take(EXCERPT_MAX).collect(),
        }
    }

    /// Returns the TOML text of the line that contains a position.
    #[must_use]
    pub fn line_text(&self, position: usize) -> &str {
        let position = position.min(self.toml.len());
        let start = self
            .toml
            .get(..position)
            .and_then(|head| head.rfind('\n'))
            .map_or(0, |at| at + 1);
        self.toml
            .get(start..)
            .and_then(|tail| tail.lines().next())
            .unwrap_or_default()
    }
}

impl Diagnostic {
    /// Returns an error without a place.
    #[must_use]
    pub fn error(code: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code: code.to_owned(),
            file: None,
            place: None,
            message: message.into(),
            help: None,
            notes: Vec::new(),
        }
    }

    /// Returns a warning without a place.
    #[must_use]
    pub fn warning(kind: Warning, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(kind.as_str(), message)
        }
    }

    /// Sets the file that the problem concerns as a whole.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Sets the place of the problem in a file.
    #[must_use]
    pub fn at(mut self, source: &Source, span: Range<usize>) -> Self {
        self.file = Some(source.file.clone());
        self.place = Some(source.place(&span));
        self
    }

    /// Sets the advice; advice that was set before is replaced.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a note after those that the problem has.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Says whether the problem is an error, which refuses the file.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
