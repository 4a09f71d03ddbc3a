//! Tables: a line for each row, columns as wide as their cells. Where there is no room for all of them, the columns that people
//! miss least go first, and then cells are cut.

use super::{WIDTH, escape};
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
    /// The columns that go where there is no room for all, in this order.
    giving_way: &'static [&'static str],
    pub(super) rows: Vec<(Tone, Vec<String>)>,
}

impl TextTable {
    /// Returns an empty table.
    #[must_use]
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            fixed: false,
            giving_way: &[],
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

    /// Returns the table whose columns of these heads go, in this order, where a terminal is too narrow for all columns.
    #[must_use]
    pub(crate) fn giving_way(self, heads: &'static [&'static str]) -> Self {
        Self {
            giving_way: heads,
            ..self
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

    /// Returns an empty table with a further column before the columns of this one.
    #[must_use]
    pub(crate) fn behind(&self, first: &'static str) -> Self {
        let mut header = vec![first];
        header.extend(&self.header);
        Self {
            header,
            rows: Vec::new(),
            ..*self
        }
    }

    /// Appends the rows of a table that lacks the first column, which gets this cell.
    pub(crate) fn append(&mut self, first: &str, table: &Self) {
        self.rows.extend(table.rows.iter().map(|(tone, cells)| {
            let cells = cells.iter().cloned();
            (*tone, std::iter::once(escape(first, false)).chain(cells).collect())
        }));
    }

    /// Appends a row that has only two cells, since something failed.
    pub(crate) fn without_cells(&mut self, first: &str, second: &str) {
        let mut cells = vec![String::new(); self.header.len()];
        for (cell, text) in cells.iter_mut().zip([first, second]) {
            text.clone_into(cell);
        }
        self.row(Tone::Bad, cells);
    }

    /// Returns the first cell of each row.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows
            .iter()
            .filter_map(|(_, cells)| cells.first().map(String::as_str))
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

    /// Returns the table with the columns that there is room for: those without a value in any row go first, then those that
    /// [give way](Self::giving_way). Where the width is unknown, no person reads the lines, and all columns with values stay.
    pub(super) fn fitting(&self, width: Option<u16>) -> Cow<'_, Self> {
        let room = usize::from(width.unwrap_or(WIDTH));
        if self.fixed || self.total_width() <= room {
            return Cow::Borrowed(self);
        }
        let mut table = self.clone().with_columns(&self.filled_columns());
        let mut heads = self.giving_way.iter().filter(|_| width.is_some());
        while table.total_width() > room
            && let Some(head) = heads.next()
        {
            let stays: Vec<bool> = table.header.iter().map(|text| text != head).collect();
            table = table.with_columns(&stays);
        }
        Cow::Owned(table)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of `fndctl status`, as recorded: 99 columns wide.
    fn status() -> TextTable {
        let heads = [
            "FUNCTION", "RUNTIME", "STATE", "LAST", "NEXT", "RUNS", "FAILED", "P50", "P99", "MEMORY",
        ];
        let service = [
            "shop/api",
            "node 22",
            "running",
            "up 3h, 2 restarts, :4711",
            "",
            "2",
            "0",
            "",
            "",
            "52M/60M",
        ];
        let script = [
            "nightly",
            "python 3.11",
            "ready",
            "exit-3 2m ago",
            "in 14h",
            "31",
            "2",
            "1.2s",
            "4.5s",
            "9M",
        ];
        let mut table = TextTable::new(&heads);
        for cells in [service, script] {
            table.row(Tone::Plain, cells.map(str::to_owned));
        }
        table.giving_way(&["P50", "P99", "MEMORY", "RUNTIME", "RUNS", "NEXT", "FAILED"])
    }

    #[test]
    fn columns_give_way_by_worth_before_cells_are_cut() {
        for (width, heads, is_cut) in [
            (
                None,
                "FUNCTION RUNTIME STATE LAST NEXT RUNS FAILED P50 P99 MEMORY",
                false,
            ),
            (
                Some(99),
                "FUNCTION RUNTIME STATE LAST NEXT RUNS FAILED P50 P99 MEMORY",
                false,
            ),
            (Some(80), "FUNCTION RUNTIME STATE LAST NEXT RUNS FAILED", false),
            (Some(60), "FUNCTION STATE LAST NEXT FAILED", false),
            (Some(40), "FUNCTION STATE LAST", true),
        ] {
            let table = status();
            let lines = table.fitting(width).lines(width);
            let shown: Vec<&str> = lines[0].split_whitespace().collect();
            assert_eq!(shown.join(" "), heads, "{width:?}");
            assert_eq!(!lines[1].contains(":4711"), is_cut, "{width:?}: {lines:?}");
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(usize::from(width.unwrap_or(99))), "{width:?}: {lines:?}");
        }
    }

    #[test]
    fn columns_give_way_behind_that_of_the_hosts_too() {
        let mut table = status().behind("HOST");
        table.append("vm1", &status());
        assert_eq!(
            table.fitting(Some(80)).header.join(" "),
            "HOST FUNCTION STATE LAST NEXT RUNS FAILED"
        );
    }

    #[test]
    fn columns_without_values_go_first_and_those_of_programs_stay() {
        let heads = |table: &TextTable| table.fitting(Some(20)).header.join(" ");
        let mut table = TextTable::new(&["FUNCTION", "NEXT", "LAST"]);
        table.row(Tone::Plain, ["a-name-of-some-length", "", "ok"].map(str::to_owned));
        assert_eq!(heads(&table), "FUNCTION LAST");
        assert_eq!(heads(&table.clone().giving_way(&["LAST"])), "FUNCTION");
        table.fixed = true;
        assert_eq!(heads(&table), "FUNCTION NEXT LAST");
    }
}
