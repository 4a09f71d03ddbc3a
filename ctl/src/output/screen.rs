//! The whole terminal, for `fndctl top`: lines that are drawn anew, and keys.

use crate::exit::CommandFailure;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers, poll, read};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};
use std::io::{self, Write as _};
use std::time::Duration;

/// A line on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScreenLine {
    pub(crate) text: String,
    pub(crate) look: LineStyle,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineStyle {
    Plain,
    Bold,
    Dim,
    /// The one that Enter would open.
    Selected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPress {
    Char(char),
    Up,
    Down,
    Enter,
    Back,
    /// Ctrl-C.
    Interrupt,
    /// Nothing that has a meaning: the terminal has a new size, or another key.
    Other,
}

/// The terminal, from its opening until it is dropped. Then it is as before.
#[derive(Debug)]
pub(crate) struct Screen(());

impl Screen {
    /// Takes the terminal: keys come one by one, unseen, and what it showed is kept.
    ///
    /// # Errors
    /// It is no terminal that can do this.
    pub(crate) fn open() -> Result<Self, CommandFailure> {
        enable_raw_mode().map_err(failed)?;
        // The value exists before the next step, so that its `drop` also restores the terminal if that step fails.
        let screen = Self(());
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide, DisableLineWrap).map_err(failed)?;
        Ok(screen)
    }

    /// Returns columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        size().unwrap_or((80, 24))
    }

    /// Draws lines from the first row on; what is below them becomes empty.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(&self, lines: &[ScreenLine]) -> Result<(), CommandFailure> {
        let mut out = io::stdout().lock();
        let mut all = || -> io::Result<()> {
            // Each line replaces its old content. If the whole screen were cleared first, it would flicker.
            for (row, line) in (0..).zip(lines) {
                queue!(out, cursor::MoveTo(0, row), SetAttribute(attribute(line.look)))?;
                queue!(
                    out,
                    Print(&line.text),
                    SetAttribute(Attribute::Reset),
                    Clear(ClearType::UntilNewLine)
                )?;
            }
            let below = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            if below < self.size().1 {
                queue!(out, cursor::MoveTo(0, below), Clear(ClearType::FromCursorDown))?;
            }
            out.flush()
        };
        all().map_err(failed)
    }

    /// Returns the next key; nothing if none comes in this time.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn key(&self, patience: Duration) -> Result<Option<KeyPress>, CommandFailure> {
        if !poll(patience).map_err(failed)? {
            return Ok(None);
        }
        let Event::Key(key) = read().map_err(failed)? else {
            return Ok(Some(KeyPress::Other));
        };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        Ok(Some(match key.code {
            _ if key.kind == KeyEventKind::Release => KeyPress::Other,
            // In raw mode the terminal sends no SIGINT for Ctrl-C.
            KeyCode::Char('c') if control => KeyPress::Interrupt,
            KeyCode::Char(c) if !control => KeyPress::Char(c),
            KeyCode::Up => KeyPress::Up,
            KeyCode::Down => KeyPress::Down,
            KeyCode::Enter | KeyCode::Right => KeyPress::Enter,
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => KeyPress::Back,
            _ => KeyPress::Other,
        }))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors are ignored: a terminal that is gone needs nothing.
        let _ = execute!(io::stdout(), EnableLineWrap, cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn attribute(look: LineStyle) -> Attribute {
    match look {
        LineStyle::Plain => Attribute::Reset,
        LineStyle::Bold => Attribute::Bold,
        LineStyle::Dim => Attribute::Dim,
        LineStyle::Selected => Attribute::Reverse,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of `map_err`")]
fn failed(error: io::Error) -> CommandFailure {
    CommandFailure::failed(format!("failed to use the terminal: {error}"))
        .help("`fndctl top -b` prints one reading without it")
}
