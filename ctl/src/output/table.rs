//! Tables: a line for each row, columns as wide as their cells, cut where they do not fit.

use super::escape;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table as Layout, Width, presets};
use std::borrow::Cow;

const GAP: u16 = 2;

/// The state of a row, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing is wrong.
    Plain,
    /// Something failed.
    Bad,
    /// Switched off.
    Dim,
}

/// A table; rows are one line each.
#[derive(Debug, Clone)]
pub(crate) struct TextTable {
    header: Vec<&'static str>,
    /// Whether columns without values stay: programs count them.
    fixed: bool,
    pub(super) rows: Vec<(Tone, Vec<String>)>,
}

impl TextTable {
    /// Returns an empty table.
    #[must_use]
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            fixed: false,
            rows: Vec::new(),
        }
    }

    /// Returns an empty table that always has all columns.
    #[must_use]
    pub(crate) fn fixed(header: &[&'static str]) -> Self {
        Self {
            fixed: true,
            ..Self::new(header)
        }
    }

    /// Appends a row; cells that are empty show as `-`.
    pub(crate) fn row(&mut self, tone: Tone, cells: impl IntoIterator<Item = String>) {
        let filled = cells.into_iter().map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                // A line end in a cell would break its row.
                escape(&cell, false)
            }
        });
        self.rows.push((tone, filled.collect()));
    }

    /// Returns the lines, header first. No line is wider than `width` if that is possible: a cell that does not fit
    /// ends in `…`.
    #[must_use]
    pub(crate) fn lines(&self, width: Option<u16>) -> Vec<String> {
        let one_line = |cells: Vec<String>| {
            let mut row = Row::from(cells);
            row.max_height(1);
            row
        };
        let mut layout = Layout::new();
        layout.load_style(presets::NOTHING).set_truncation_indicator("…");
        layout.set_content_arrangement(ContentArrangement::Dynamic);
        layout.set_header(one_line(self.header.iter().map(ToString::to_string).collect()));
        for (_, cells) in &self.rows {
            layout.add_row(one_line(cells.clone()));
        }
        let mut widths = layout.column_max_content_widths();
        if let Some(width) = width {
            self.shrink(&mut widths, width);
        }
        for (column, width) in layout.column_iter_mut().zip(widths) {
            column
                .set_padding((0, GAP))
                // comfy-table takes the padding out of a column's width.
                .set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + GAP)));
        }
        layout.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Returns the table without the columns that have no value in any row, if it is wider than `width` otherwise.
    pub(super) fn fitting(&self, width: u16) -> Cow<'_, Self> {
        let filled = self.filled_columns();
        if !self.fixed && filled.contains(&false) && self.total_width() > usize::from(width) {
            Cow::Owned(self.clone().with_columns(&filled))
        } else {
            Cow::Borrowed(self)
        }
    }

    /// Returns for each column whether a row has a value in it. The first one counts as filled.
    fn filled_columns(&self) -> Vec<bool> {
        // The header of a table without rows stays whole.
        let is_filled = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            column == 0 || self.rows.is_empty() || cells.any(|cell| cell != "-")
        };
        (0..self.header.len()).map(is_filled).collect()
    }

    /// Returns the width of the lines if nothing is cut.
    fn total_width(&self) -> usize {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(self.header.get(column).map_or(0, |text| text.len()))
        };
        let columns = self.header.len();
        (0..columns).map(width).sum::<usize>() + usize::from(GAP) * columns.saturating_sub(1)
    }

    fn with_columns(mut self, filled: &[bool]) -> Self {
        fn retain<T>(of: &mut Vec<T>, filled: &[bool]) {
            let mut filled = filled.iter();
            of.retain(|_| filled.next() == Some(&true));
        }
        retain(&mut self.header, filled);
        self.rows.iter_mut().for_each(|(_, cells)| retain(cells, filled));
        self
    }

    /// Narrows the widest column, down to its header, until all fit. The first column, which identifies a row, comes
    /// last.
    fn shrink(&self, widths: &mut [u16], width: u16) {
        let header = |place: usize| {
            self.header
                .get(place)
                .map_or(1, |text| u16::try_from(text.len()).unwrap_or(u16::MAX))
        };
        loop {
            let gaps = u16::try_from(widths.len().saturating_sub(1))
                .unwrap_or(u16::MAX)
                .saturating_mul(GAP);
            let total = widths.iter().fold(gaps, |sum, width| sum.saturating_add(*width));
            if total <= width {
                return;
            }
            let spare = |place: usize, width: u16| width > header(place).max(4);
            let others = widths
                .iter()
                .enumerate()
                .skip(1)
                .filter(|(place, width)| spare(*place, **width));
            let widest = others.max_by_key(|(_, width)| **width).map(|(place, _)| place);
            let Some(column) = widest.or((widths.first().is_some_and(|width| spare(0, *width))).then_some(0)) else {
                return;
            };
            if let Some(width) = widths.get_mut(column) {
                // By one each time, so that the wide columns become equally wide.
                *width -= 1;
            }
        }
    }
}
