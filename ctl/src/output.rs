//! Prints results, tables, documents and errors, in the form that was asked for. Nothing else prints.
//!
//! Text of functions is untrusted: on a terminal its control characters are shown, not executed.
//!
//! Files:
//! - `table`: tables

mod table;

pub(crate) use table::{Table, Tone};

use crate::cli::Format;
use crate::exit::{Exit, Failure};
use anstyle::{AnsiColor, Style};
use fnd_manifest::diagnostic::{Colour, Diagnostic};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

/// Width of a table where neither the terminal nor `COLUMNS` gives one.
const WIDTH: u16 = 80;

/// The destination and the form of printed text.
#[derive(Debug)]
pub(crate) struct Output {
    /// The form, from `-o`.
    pub(crate) format: Format,
    /// Whether tables have their first line.
    headers: bool,
    terminal: bool,
    colours: bool,
    /// Columns; absent means unlimited.
    width: Option<u16>,
    /// The zone in which instants are shown; absent where they stay in UTC.
    zone: Option<TimeZone>,
}

impl Output {
    /// Returns an output for this process.
    #[must_use]
    pub(crate) fn new(format: Format, headers: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|width| *width > 0);
        let window = || {
            rustix::termios::tcgetwinsize(io::stdout())
                .ok()
                .map(|size| size.ws_col)
                .filter(|width| *width > 0)
        };
        let width = match (format, terminal) {
            (Format::Wide, _) => None,
            (_, true) => columns.or_else(window).or(Some(WIDTH)),
            // A pipe gets whole names unless `COLUMNS` gives a width.
            (_, false) => columns,
        };
        Self {
            format,
            headers,
            terminal,
            colours: terminal && !is_set("NO_COLOR") && !dumb,
            width,
            // A pipe gets UTC, for programs.
            zone: terminal.then(TimeZone::system),
        }
    }

    /// Prints an answer of the API: its own body, the same as YAML, or the table that `table` prints.
    ///
    /// # Errors
    /// The body is not a valid `T`, or standard output cannot be written.
    pub(crate) fn document<T: serde::de::DeserializeOwned>(
        &self,
        body: &[u8],
        table: impl FnOnce(&T, &Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.line(&self.untrusted(&String::from_utf8_lossy(body))),
            Format::Yaml => self.yaml(body),
            Format::Table | Format::Wide | Format::Name | Format::Raw => table(&parse(body)?, self),
        }
    }

    /// Prints a JSON body as YAML.
    ///
    /// # Errors
    /// The body is not JSON, or standard output cannot be written.
    pub(crate) fn yaml(&self, body: &[u8]) -> Result<(), Failure> {
        let value: serde_json::Value = parse(body)?;
        let text = serde_saphyr::to_string(&value);
        let text =
            text.map_err(|error| Failure::new(Exit::FunctionFailed, format!("failed to write YAML: {error}")))?;
        self.raw(escape_for(self.terminal, &text).as_bytes())
    }

    /// Clears the terminal for new content that replaces everything shown so far; prints an empty line where standard
    /// output is no terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        // Cursor to the upper left, then erase the display (ECMA-48: CUP, ED).
        self.raw(if self.terminal { b"\x1b[H\x1b[2J" } else { b"\n" })
    }

    /// Prints a table; of names only the first column.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        if self.format == Format::Name {
            let mut names = table.rows.iter().filter_map(|(_, cells)| cells.first());
            return names.try_for_each(|name| self.line(name));
        }
        let table = match self.format {
            Format::Wide => Cow::Borrowed(table),
            _ => table.fitting(self.width.unwrap_or(WIDTH)),
        };
        let lines = table.lines(self.width);
        for (number, line) in lines.iter().enumerate().skip(usize::from(!self.headers)) {
            let tone = number
                .checked_sub(1)
                .and_then(|row| table.rows.get(row))
                .map(|(tone, _)| *tone);
            let style = match tone {
                None => Style::new().bold(),
                Some(Tone::Plain) => Style::new(),
                Some(Tone::Bad) => AnsiColor::Red.on_default(),
                Some(Tone::Dim) => Style::new().dimmed(),
            };
            self.line(&self.paint(style, line))?;
        }
        Ok(())
    }

    /// Prints problems of files, each with the line it points at.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic]) -> Result<(), Failure> {
        let colour = if self.colours { Colour::Ansi } else { Colour::Plain };
        diagnostics
            .iter()
            .try_for_each(|diagnostic| self.line(&diagnostic.render(colour)))
    }

    /// Prints a line of fndctl or of a function.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Prints a line that stands out on a terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn heading(&self, text: &str) -> Result<(), Failure> {
        self.line(&self.paint(Style::new().bold(), &escape(text, false)))
    }

    /// Prints a line that may be wider than the terminal: it is broken between words, and its further lines are indented.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn wrapped(&self, text: &str, indent: usize) -> Result<(), Failure> {
        self.line(&wrap(text, self.width, indent))
    }

    /// Returns an instant of the API for people: on a terminal in local time.
    #[must_use]
    pub(crate) fn instant(&self, text: &str) -> String {
        self.zone
            .as_ref()
            .map_or_else(|| text.to_owned(), |zone| local(text, zone))
    }

    /// Prints a function's bytes unchanged. On a terminal, unless raw was asked for, control characters are escaped and
    /// a line end is added.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn result(&self, bytes: &[u8]) -> Result<(), Failure> {
        if !self.terminal || self.format == Format::Raw {
            return self.raw(bytes);
        }
        let mut text = escape(&String::from_utf8_lossy(bytes), true);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.raw(text.as_bytes())
    }

    /// Returns a line that a function printed, with control characters escaped unless raw was asked for. In a pipe too:
    /// its other end often prints to a terminal (`fndctl logs F | tail`).
    #[must_use]
    pub(crate) fn printed(&self, text: &str) -> String {
        if self.format == Format::Raw {
            text.to_owned()
        } else {
            escape(text, true)
        }
    }

    /// Returns JSON of the API, with control characters escaped on a terminal. Elsewhere it is unchanged, for programs.
    #[must_use]
    pub(crate) fn untrusted(&self, text: &str) -> String {
        escape_for(self.terminal, text)
    }

    /// Prints bytes as they are. A reader that stops reading, as `head` does, is no failure.
    ///
    /// # Errors
    /// Standard output cannot be written for another reason.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::new(Exit::Fine, "")),
            Err(error) => Err(Failure::new(
                Exit::FunctionFailed,
                format!("failed to write to standard output: {error}"),
            )),
        }
    }

    /// Prints a function's line to standard error.
    pub(crate) fn aside(&self, text: &str) {
        say(&self.printed(text));
    }

    /// Returns whether standard output and standard error go to the same place, such as one terminal.
    #[must_use]
    pub(crate) fn is_one_place(&self) -> bool {
        let place = |about: rustix::fs::Stat| (about.st_dev, about.st_ino);
        let out = rustix::fs::fstat(io::stdout()).map(place);
        out.is_ok() && out == rustix::fs::fstat(io::stderr()).map(place)
    }

    /// Returns whether somebody sees progress.
    #[must_use]
    pub(crate) fn shows_progress(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Reports progress, on standard error and only if that is a terminal.
    pub(crate) fn progress(&self, text: &str) {
        if self.shows_progress() {
            say(&escape(text, false));
        }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.colours {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Prints a failure to standard error.
pub(crate) fn failure(failure: &Failure) {
    if !failure.message.is_empty() {
        say(&format!("error: {}", escape(&failure.message, true)));
    }
    if let Some(help) = &failure.help {
        say(&format!("  help: {}", escape(help, true)));
    }
}

fn say(text: &str) {
    // An error is ignored: there is no other place to report that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Reads an answer of the API.
///
/// # Errors
/// The body is not a valid `T`.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::new(Exit::NotReachable, format!("failed to read fnd's answer: {error}"))
            .help("fnd and fndctl may be of different versions: `fndctl version` shows both")
    })
}

fn escape_for(terminal: bool, text: &str) -> String {
    if terminal { escape(text, true) } else { text.to_owned() }
}

/// Returns an instant as the local time of a zone. `--since` and `--until` accept the same form.
fn local(text: &str, zone: &TimeZone) -> String {
    match text.parse::<Timestamp>() {
        Ok(instant) => instant
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S%.3f")
            .to_string(),
        Err(_) => text.to_owned(),
    }
}

/// Returns a text in lines that are not wider than `width`, unless a word is.
fn wrap(text: &str, width: Option<u16>, indent: usize) -> String {
    let width = width.map_or(usize::MAX, usize::from);
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_inclusive(' ') {
        if column > indent && column + word.trim_end().chars().count() > width {
            lines.truncate(lines.trim_end().len());
            lines.push_str(&format!("\n{:indent$}", ""));
            column = indent;
        }
        lines.push_str(word);
        column += word.chars().count();
    }
    lines
}

/// Returns text in which characters that control a terminal are shown as escapes. Line ends and tabs may stay.
#[must_use]
pub(crate) fn escape(text: &str, keep_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Direction marks reorder the text after them, so they are as bad as control characters.
        let direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() && !(keep_lines && matches!(c, '\n' | '\t'))) || direction {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_break_between_words() {
        for (width, expected) in [
            (None, "error  disk  there is no room left on it"),
            (Some(20), "error  disk  there\n    is no room left\n    on it"),
            (
                Some(3),
                "error\n    disk\n    there\n    is\n    no\n    room\n    left\n    on\n    it",
            ),
        ] {
            assert_eq!(wrap("error  disk  there is no room left on it", width, 4), expected);
        }
    }

    #[test]
    fn instants_are_local() {
        let zone = TimeZone::posix("JST-9").unwrap();
        assert_eq!(local("2026-11-21T23:00:00.120Z", &zone), "2026-11-22 08:00:00.120");
        assert_eq!(local("-", &zone), "-");
    }

    #[test]
    fn text_of_functions_does_not_control_a_terminal() {
        assert_eq!(
            escape("a\u{1b}[31mb\r\n\tc\u{9b}d", true),
            "a\\u{1b}[31mb\\r\n\tc\\u{9b}d"
        );
        assert_eq!(escape("a\nb\u{202e}c", false), "a\\nb\\u{202e}c");
        assert_eq!(escape("žluťoučký 🐎", false), "žluťoučký 🐎");
    }
}
