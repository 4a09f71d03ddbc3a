//! Prints results, tables, documents and errors, in the form that was asked for. Nothing else prints.
//!
//! Text of functions is untrusted: on a terminal its control characters are shown, not executed.
//!
//! Files:
//! - `exact`: a JSON document as a value that no number spoils
//! - `jq`: expressions of `--jq`
//! - `pager`: the pager
//! - `progress`: bars and counters
//! - `screen`: the whole terminal, for `top`
//! - `table`: tables
//! - `text`: escapes, local times, long lines

mod exact;
mod jq;
mod pager;
mod progress;
mod screen;
mod table;
mod text;

pub(crate) use jq::Jq;
pub(crate) use progress::ProgressLine;
pub(crate) use screen::{KeyPress, LineStyle, Screen, ScreenLine};
pub(crate) use table::{TextTable, Tone};
pub(crate) use text::{escape, wrap};

use crate::exit::{CommandFailure, Exit};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use fnd_manifest::diagnostic::{Colour, Diagnostic};
use jiff::tz::TimeZone;
use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};
use std::rc::Rc;
use text::{escape_for, local};

/// Width of a table where neither the terminal nor `COLUMNS` gives one.
const WIDTH: u16 = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people, no wider than the terminal.
    Table,
    /// A table with more columns and of any width.
    Wide,
    /// The JSON that fnd's API answers.
    Json,
    /// The same document as YAML.
    Yaml,
    /// Names or ids only, one on each line; only for verbs that print a table.
    Name,
    /// The bytes of a function, unchanged; only for `invoke`, `result`, `logs` and `state get`.
    Raw,
}

impl Format {
    /// Returns whether the form is a document for programs.
    pub(crate) fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// The destination and the form of printed text.
#[derive(Debug)]
pub(crate) struct Output {
    /// The form, from `-o`.
    pub(crate) format: Format,
    wanted: ColorChoice,
    /// How progress is shown.
    progress: progress::ProgressForm,
    terminal: bool,
    colours: bool,
    /// Columns; absent means unlimited.
    width: Option<u16>,
    /// The zone in which instants are shown; absent where they stay in UTC.
    zone: Option<TimeZone>,
    /// The output so far, for the pager; absent where nothing is paged.
    paged: RefCell<Option<Vec<u8>>>,
}

/// How to print, from the command line.
#[derive(Debug, Clone)]
pub(crate) struct ColorChoice {
    /// The form, from `-o`.
    pub(crate) format: Format,
    /// `--no-headers` was not given.
    pub(crate) headers: bool,
    /// `-q`: only names, ids and results are printed.
    pub(crate) quiet: bool,
    /// `--jq`, which is applied to each JSON document.
    pub(crate) jq: Option<Rc<Jq>>,
    /// `--progress`.
    pub(crate) progress: bool,
    /// Whether the verb prints a text that people read from its beginning to its end.
    pub(crate) pages: bool,
}

impl Output {
    /// Returns an output for this process.
    #[must_use]
    pub(crate) fn new(wanted: ColorChoice) -> Self {
        let format = wanted.format;
        let terminal = io::stdout().is_terminal();
        // An empty `NO_COLOR` counts as absent (no-color.org).
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|width| *width > 0);
        let window = || {
            let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
            size.map(|size| size.ws_col).filter(|width| *width > 0)
        };
        let width = match (format, terminal) {
            (Format::Wide, _) => None,
            // `COLUMNS` is the width that the person prefers, so it wins over the size of the window.
            (_, true) => columns.or_else(window).or(Some(WIDTH)),
            // A pipe gets whole names unless `COLUMNS` gives a width.
            (_, false) => columns,
        };
        Self {
            format,
            progress: match wanted.progress {
                _ if wanted.quiet => progress::ProgressForm::None,
                // A dumb terminal cannot move its cursor, so nothing can be drawn in place.
                _ if io::stderr().is_terminal() && !dumb => progress::ProgressForm::Drawn,
                true => progress::ProgressForm::Lines,
                false => progress::ProgressForm::None,
            },
            terminal,
            colours: terminal && !is_set("NO_COLOR") && !dumb,
            width,
            // A pipe gets UTC, for programs.
            zone: terminal.then(TimeZone::system),
            paged: RefCell::new((terminal && wanted.pages && !dumb).then(Vec::new)),
            wanted,
        }
    }

    /// Returns an output that prints in the same form, without a pager.
    #[must_use]
    pub(crate) fn unpaged(&self) -> Self {
        Self::new(ColorChoice {
            pages: false,
            ..self.wanted.clone()
        })
    }

    /// Returns the columns of a line; absent means unlimited.
    #[must_use]
    pub(crate) fn columns(&self) -> Option<u16> {
        self.width
    }

    /// Returns whether standard output is a terminal.
    #[must_use]
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Shows what was printed for the pager: with the pager if it is longer than the terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn finish(&self) -> Result<(), CommandFailure> {
        // `take` also ends the collecting, so that `raw` below writes to standard output.
        let Some(text) = self.paged.take() else { return Ok(()) };
        let rows = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        // The last row is for the shell's prompt.
        if rows > 0 && lines >= rows && pager::show(&text) {
            return Ok(());
        }
        self.raw(&text)
    }

    /// Prints an answer of the API: its own body, the same as YAML, or the table that `table` prints.
    ///
    /// # Errors
    /// The body is not a valid `T`, or standard output cannot be written.
    pub(crate) fn document<T: serde::de::DeserializeOwned>(
        &self,
        body: &[u8],
        table: impl FnOnce(&T, &Self) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        match self.format {
            Format::Json => self.json(body),
            Format::Yaml => self.yaml(body),
            Format::Table | Format::Wide | Format::Name | Format::Raw => table(&parse(body)?, self),
        }
    }

    /// Prints an answer like [`Self::document`], and ends the verb.
    ///
    /// # Errors
    /// As for [`Self::document`].
    pub(crate) fn answer<T: serde::de::DeserializeOwned>(
        &self,
        body: &[u8],
        table: impl FnOnce(&T, &Self) -> Result<(), CommandFailure>,
    ) -> Result<Exit, CommandFailure> {
        self.document(body, table).map(|()| Exit::Fine)
    }

    /// Prints JSON, on a terminal with control characters escaped; with `--jq` the values of the expression, each on a
    /// line.
    ///
    /// # Errors
    /// The expression does not fit the document, or standard output cannot be written.
    pub(crate) fn json(&self, body: &[u8]) -> Result<(), CommandFailure> {
        match &self.wanted.jq {
            None => self.line(&escape_for(self.terminal, &String::from_utf8_lossy(body))),
            Some(jq) => {
                let values = jq.apply(body)?;
                self.lines(values.iter().map(|value| escape_for(self.terminal, value)))
            }
        }
    }

    /// Prints a JSON body as YAML.
    ///
    /// # Errors
    /// The body is not JSON, or standard output cannot be written.
    pub(crate) fn yaml(&self, body: &[u8]) -> Result<(), CommandFailure> {
        // Results of functions have numbers that a plain JSON value would change: see `exact`.
        let value = exact::value(body).map_err(|error| unreadable(&error))?;
        let text = serde_saphyr::to_string(&value);
        let text = text.map_err(|error| CommandFailure::failed(format!("failed to write YAML: {error}")))?;
        self.raw(escape_for(self.terminal, &text).as_bytes())
    }

    /// Clears the terminal for new content that replaces everything shown so far; prints an empty line where standard
    /// output is no terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn clear(&self) -> Result<(), CommandFailure> {
        // Cursor to the upper left, then erase the display (ECMA-48: CUP, ED).
        self.raw(if self.terminal { b"\x1b[H\x1b[2J" } else { b"\n" })
    }

    /// Prints a table; of names only the first column.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn table(&self, table: &TextTable) -> Result<(), CommandFailure> {
        if self.format == Format::Name {
            return self.lines(table.names());
        }
        let table = match self.format {
            Format::Wide => Cow::Borrowed(table),
            _ => table.fitting(self.width),
        };
        let lines = table.lines(self.width);
        for (number, line) in lines.iter().enumerate().skip(usize::from(!self.wanted.headers)) {
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
    pub(crate) fn diagnostics(&self, diagnostics: &[Diagnostic]) -> Result<(), CommandFailure> {
        let colour = if self.colours { Colour::Ansi } else { Colour::Plain };
        self.lines(diagnostics.iter().map(|diagnostic| diagnostic.render(colour)))
    }

    /// Prints a line of fndctl or of a function.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn line(&self, text: &str) -> Result<(), CommandFailure> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Prints lines, each with a line break after it.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn lines(&self, lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), CommandFailure> {
        lines.into_iter().try_for_each(|line| self.line(line.as_ref()))
    }

    /// Prints a line that stands out on a terminal.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn heading(&self, text: &str) -> Result<(), CommandFailure> {
        self.line(&self.paint(Style::new().bold(), &escape(text, false)))
    }

    /// Prints a line of a difference, in the colour of what it says.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn difference(&self, line: &str) -> Result<(), CommandFailure> {
        let style = match line.as_bytes().first() {
            // This case is first: the heads of the two files begin like changed lines.
            _ if line.starts_with("---") || line.starts_with("+++") => Style::new().bold(),
            Some(b'+') => AnsiColor::Green.on_default(),
            Some(b'-') => AnsiColor::Red.on_default(),
            Some(b'@') => AnsiColor::Cyan.on_default(),
            _ => Style::new(),
        };
        self.line(&self.paint(style, &self.printed(line)))
    }

    /// Prints a line about what was done; nothing with `-q`.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn remark(&self, text: &str) -> Result<(), CommandFailure> {
        if self.wanted.quiet { Ok(()) } else { self.line(text) }
    }

    /// Prints a line that may be wider than the terminal: it is broken between words, and its further lines are indented.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn wrapped(&self, text: &str, indent: usize) -> Result<(), CommandFailure> {
        self.line(&wrap(text, self.width, indent))
    }

    /// Returns an instant of the API for people: on a terminal in local time.
    #[must_use]
    pub(crate) fn instant(&self, text: &str) -> String {
        self.zone
            .as_ref()
            .map_or_else(|| text.to_owned(), |zone| local(text, zone))
    }

    /// Prints a function's bytes unchanged, or the values of `--jq` for them. On a terminal, unless raw was asked for, control
    /// characters are escaped and a line end is added.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn result(&self, bytes: &[u8]) -> Result<(), CommandFailure> {
        if self.wanted.jq.is_some() {
            return self.json(bytes);
        }
        match self.format {
            Format::Json => return self.json(&exact::as_json(bytes)?),
            Format::Yaml => return self.yaml(&exact::as_json(bytes)?),
            Format::Table | Format::Wide | Format::Name | Format::Raw => {}
        }
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

    /// Prints bytes as they are. A reader that stops reading, as `head` does, is no failure.
    ///
    /// # Errors
    /// Standard output cannot be written for another reason.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), CommandFailure> {
        if let Some(paged) = self.paged.borrow_mut().as_mut() {
            paged.extend(bytes);
            return Ok(());
        }
        let mut out = io::stdout().lock();
        // Standard output holds back the bytes after the last line end until it is flushed: a question has no line end.
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            // A failure without a message ends the verb at once, and prints nothing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(CommandFailure::new(Exit::Fine, "")),
            Err(error) => Err(CommandFailure::failed(format!(
                "failed to write to standard output: {error}"
            ))),
        }
    }

    /// Prints a function's line to standard error.
    pub(crate) fn aside(&self, text: &str) {
        say(&self.printed(text));
    }

    /// Prints a table to standard error.
    pub(crate) fn table_aside(&self, table: &TextTable) {
        let lines = table.lines(self.width);
        lines.iter().for_each(|line| self.aside(line));
    }

    /// Returns whether standard output and standard error go to the same place, such as one terminal.
    #[must_use]
    pub(crate) fn is_one_place(&self) -> bool {
        let place = |about: rustix::fs::Stat| (about.st_dev, about.st_ino);
        let out = rustix::fs::fstat(io::stdout()).map(place);
        out.is_ok() && out == rustix::fs::fstat(io::stderr()).map(place)
    }

    /// Returns whether only names, ids and results are printed.
    #[must_use]
    pub(crate) fn is_quiet(&self) -> bool {
        self.wanted.quiet
    }

    /// Returns whether somebody sees progress.
    #[must_use]
    pub(crate) fn shows_progress(&self) -> bool {
        !self.wanted.quiet && io::stderr().is_terminal()
    }

    /// Returns whether the progress of work is shown, in any form.
    #[must_use]
    pub(crate) fn reports(&self) -> bool {
        self.progress != progress::ProgressForm::None
    }

    /// Returns a counter of progress.
    #[must_use]
    pub(crate) fn counter(&self) -> ProgressLine {
        ProgressLine::counter(self.progress)
    }

    /// Returns a bar for some bytes.
    #[must_use]
    pub(crate) fn bytes(&self, what: &str, total: u64) -> ProgressLine {
        ProgressLine::bytes(self.progress, what, total)
    }

    /// Reports progress, or a tip, on standard error and only if that is a terminal.
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
pub(crate) fn failure(failure: &CommandFailure) {
    for problem in &failure.diagnostics {
        say(&format!("{}\n", escape(&problem.render(Colour::Plain), true)));
    }
    if !failure.message.is_empty() {
        // The message may have text of a function or of a file.
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
pub(crate) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, CommandFailure> {
    serde_json::from_slice(body).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> CommandFailure {
    CommandFailure::new(Exit::NotReachable, format!("failed to read fnd's answer: {error}"))
        .help("fnd and fndctl may be of different versions: `fndctl version` shows both")
}
