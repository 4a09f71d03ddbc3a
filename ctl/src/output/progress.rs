//! Progress on standard error: a bar or a counter that is drawn in place on a terminal, lines elsewhere if `--progress`
//! asks for them, and nothing otherwise.

use super::{escape, say};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;
use tokio::time::Instant;

/// The time between two lines where there is no terminal: a log should not consist of them.
const BETWEEN: Duration = Duration::from_secs(5);
/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(120);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgressForm {
    Drawn,
    Lines,
    None,
}

/// The progress of one piece of work. It vanishes from a terminal when it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    form: ProgressForm,
    bar: ProgressBar,
    /// The text of the last line, and when it was printed.
    line: Option<(String, Instant)>,
}

impl ProgressLine {
    /// Returns a counter, which shows nothing yet.
    pub(super) fn counter(form: ProgressForm) -> Self {
        let bar = ProgressBar::with_draw_target(None, target(form));
        // The template is a constant that indicatif accepts; its own default is a fallback.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        Self { form, bar, line: None }
    }

    /// Returns a bar for some bytes.
    pub(super) fn bytes(form: ProgressForm, what: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), target(form));
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Self { form, bar, line: None }
    }

    /// Shows a text in the place of the one before.
    pub(crate) fn say(&mut self, text: &str) {
        let text = escape(text, false);
        match self.form {
            ProgressForm::None => {}
            ProgressForm::Drawn => {
                // Without ticks of its own the spinner would stand still between two texts.
                self.bar.enable_steady_tick(TURN);
                self.bar.set_message(text);
            }
            ProgressForm::Lines => self.print(text),
        }
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.bar.inc(bytes as u64);
        if self.form == ProgressForm::Lines {
            let total = self.bar.length().unwrap_or(0).max(1);
            let percent = self.bar.position().saturating_mul(100) / total;
            self.print(format!("{} {percent}%", self.bar.message()));
        }
    }

    /// Prints a line, unless one was printed a moment ago or says the same.
    fn print(&mut self, text: String) {
        let is_due = |(said, at): &(String, Instant)| *said != text && at.elapsed() >= BETWEEN;
        if self.line.as_ref().is_none_or(is_due) {
            say(&text);
            self.line = Some((text, Instant::now()));
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn target(form: ProgressForm) -> ProgressDrawTarget {
    match form {
        ProgressForm::Drawn => ProgressDrawTarget::stderr(),
        // With `Lines` the bar only counts, and `print` shows the count.
        ProgressForm::Lines | ProgressForm::None => ProgressDrawTarget::hidden(),
    }
}
