//! Tables with a row for each item of a list.

use crate::exit::CommandFailure;
use crate::output::{Format, Output, TextTable, Tone};
use fnd_core::run::FunctionState;

/// Returns a table with a row for each item.
pub(crate) fn table<I: Copy, const N: usize>(
    heads: [&'static str; N],
    items: impl IntoIterator<Item = I>,
    cells: impl Fn(I) -> [String; N],
) -> TextTable {
    toned(heads, items, plain, cells)
}

/// Returns a table as [`table`] does; `tone` says how a row looks.
pub(crate) fn toned<I: Copy, const N: usize>(
    heads: [&'static str; N],
    items: impl IntoIterator<Item = I>,
    tone: impl Fn(I) -> Tone,
    cells: impl Fn(I) -> [String; N],
) -> TextTable {
    let mut table = TextTable::new(&heads);
    for item in items {
        table.row(tone(item), cells(item));
    }
    table
}

/// Returns a table that has more columns with `-o wide`: `cells` returns those of all columns.
pub(crate) fn widening<I: Copy>(
    out: &Output,
    (heads, more): (&[&'static str], &[&'static str]),
    items: impl IntoIterator<Item = I>,
    tone: impl Fn(I) -> Tone,
    cells: impl Fn(I) -> Vec<String>,
) -> TextTable {
    let more: &[&'static str] = if out.format == Format::Wide { more } else { &[] };
    let heads = [heads, more].concat();
    let mut table = TextTable::new(&heads);
    for item in items {
        table.row(tone(item), cells(item).into_iter().take(heads.len()));
    }
    table
}

/// Prints a page of a list, and how to ask for the next one.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn page(out: &Output, table: &TextTable, next: Option<&str>) -> Result<(), CommandFailure> {
    out.table(table)?;
    if let Some(next) = next {
        // The cursor goes to standard error: standard output has the entries, and nothing else.
        out.progress(&format!("for older ones: --after {next}"));
    }
    Ok(())
}

/// Returns how a row looks of which nothing is said.
pub(crate) fn plain<I: Copy>(_: I) -> Tone {
    Tone::Plain
}

/// Returns how the row of a function looks by its state.
pub(crate) fn tone_of_state(state: FunctionState) -> Tone {
    match state {
        FunctionState::Invalid | FunctionState::CrashLooping => Tone::Bad,
        FunctionState::Disabled => Tone::Dim,
        FunctionState::Building | FunctionState::Ready | FunctionState::Running => Tone::Plain,
    }
}

/// Returns how a row looks of which something failed, or not.
pub(crate) fn bad_if(has_failed: bool) -> Tone {
    if has_failed { Tone::Bad } else { Tone::Plain }
}
