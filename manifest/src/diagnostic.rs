//! Problems in texts that people write: the place, the expectation and the advice.
//!
//! A diagnostic contains the line it points at, so that it can be shown where the file is not available (`fndctl` on
//! the other side of the socket). This module finds no problems and reads no file.

use crate::warning::Warning;
use crate::words;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Severity of a problem.
    pub enum Severity {
        /// The file is refused.
        Error = "error",
        /// The file is accepted; something in it does not do what it seems to do.
        Warning = "warning",
    }
}

/// One problem at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// Whether the problem refuses the file.
    pub severity: Severity,
    /// Stable word for scripts and `fndctl explain`, such as `unknown-key`.
    pub code: String,
    /// The file; absent where the problem belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The place in the file; absent where the problem concerns the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The problem: lower case, no final period, one line.
    pub message: String,
    /// Advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Further notes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A place in a text file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1; 0 if it is not known.
    pub column: u32,
    /// Number of characters that are marked within the line, at least 1; 0 if the text of the line is not known.
    pub length: u32,
    /// The text of the line, at most 200 characters; empty if it is not known.
    pub excerpt: String,
}

/// Longest part of a line kept with a diagnostic, in characters.
pub const EXCERPT_MAX: usize = 200;

/// Says whether a character only shows itself: it is no control character, and it neither reorders nor hides text.
#[must_use]
pub fn is_plain(c: char) -> bool {
    let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !hides
}

/// Returns a text with tabs as spaces and all other characters that are not plain replaced, so that the text cannot
/// move a cursor or forge a line.
fn plain(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => result.push(' '),
            c if is_plain(c) => result.push(c),
            _ => result.push('\u{fffd}'),
        }
    }
    result
}

impl Diagnostic {
    /// Returns the diagnostic on one line, for logs: `error: /etc/x.toml:7:11: unknown runtime; did you mean `python`?`.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}: {}", self.severity.as_str(), self.text())
    }

    /// Returns the diagnostic on one line, without its severity: for where a level or a heading is before it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(file) = &self.file {
            text.push_str(&plain(file));
            if let Some(place) = &self.place {
                text.push_str(&format!(":{}", place.line));
            }
            if let Some(place) = self.place.as_ref().filter(|place| place.column > 0) {
                text.push_str(&format!(":{}", place.column));
            }
            text.push_str(": ");
        }
        text.push_str(&plain(&self.message));
        for more in self.help.iter().chain(&self.notes) {
            text.push_str("; ");
            text.push_str(&plain(more));
        }
        text
    }

    /// Returns the kind of a warning; nothing for an error.
    #[must_use]
    pub fn kind(&self) -> Option<Warning> {
        match self.severity {
            Severity::Warning => Warning::parse(&self.code),
            Severity::Error => None,
        }
    }

    /// Says whether the author of the file probably expects something else than what it does. Such a file does not run by
    /// itself.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        self.kind().is_some_and(Warning::holds)
    }

    /// Returns the diagnostic with its line, for people; several lines, the last without a line end.
    #[must_use]
    pub fn render(&self, colour: Colour) -> String {
        let message = plain(&self.message);
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let excerpt = self
            .place
            .as_ref()
            .map(|place| plain(&place.excerpt))
            .unwrap_or_default();
        let file = self.file.as_deref().map(plain).unwrap_or_default();
        let help = self.help.as_deref().map(plain);
        let notes: Vec<String> = self.notes.iter().map(|note| plain(note)).collect();
        let mut group = Group::with_title(level.primary_title(message.as_str()));
        if let Some(place) = self
            .place
            .as_ref()
            .filter(|place| place.excerpt.is_empty() && place.length == 0)
        {
            // An interpreter that checks code reports a line by its number, without its text.
            let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
            let origin = Origin::path(file.as_str()).line(number(place.line));
            group = group.element(match place.column {
                0 => origin,
                column => origin.char_column(number(column)),
            });
        } else if let Some(place) = &self.place {
            // `plain` has put one character in place of each, so the columns are still right.
            let from = byte_of(&excerpt, place.column.saturating_sub(1));
            let to = byte_of(&excerpt, place.column.saturating_sub(1).saturating_add(place.length)).max(from);
            let line = usize::try_from(place.line).unwrap_or(usize::MAX);
            let snippet = Snippet::source(excerpt.as_str()).line_start(line).path(file.as_str());
            group = group.element(snippet.annotation(AnnotationKind::Primary.span(from..to)));
        } else if !file.is_empty() {
            group = group.element(Origin::path(file.as_str()));
        }
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        for note in &notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        let renderer = match colour {
            Colour::Plain => Renderer::plain(),
            Colour::Ansi => Renderer::styled(),
        };
        renderer.render(&[group])
    }
}

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain text without escape sequences.
    Plain,
    /// Colours of ANSI terminals.
    Ansi,
}

/// Returns the byte position of a character, or of the end.
fn byte_of(text: &str, character: u32) -> usize {
    let character = usize::try_from(character).unwrap_or(usize::MAX);
    text.char_indices().nth(character).map_or(text.len(), |(at, _)| at)
}
