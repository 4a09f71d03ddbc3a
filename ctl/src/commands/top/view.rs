//! The lines that `top` draws; this file knows no terminal.

use super::rates::{FunctionRate, RatesOrder, UsageRates};
use crate::common::answers::or_dash;
use crate::common::tables::{tone_of_state, toned};
use crate::output::{KeyPress, LineStyle, ScreenLine, TextTable, escape};
use crate::text::size;
use fnd_wire::units::counted;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopPage {
    List,
    /// The selected function.
    One,
    Help,
}

/// The person's current choices: page, order and function.
#[derive(Debug)]
pub(super) struct TopView {
    pub(super) page: TopPage,
    pub(super) order: RatesOrder,
    /// The selected function; absent before somebody chose one.
    selected: Option<String>,
    /// The first row that is shown.
    first: usize,
    /// Why the newest reading failed.
    pub(super) failure: Option<String>,
}

const KEYS: [&str; 9] = [
    "c          sort by CPU",
    "m          sort by memory",
    "r          sort by runs a second",
    "n          sort by name",
    "Up Down    select a function, also k and j",
    "Enter      show the selected function",
    "Esc        back",
    "?          show this, and leave it",
    "q          end",
];

impl TopView {
    pub(super) fn new(order: RatesOrder) -> Self {
        Self {
            page: TopPage::List,
            order,
            selected: None,
            first: 0,
            failure: None,
        }
    }

    /// Does what a key means. Returns false at the end.
    pub(super) fn press(&mut self, key: KeyPress, rates: &mut UsageRates) -> bool {
        match (key, self.page) {
            (KeyPress::Interrupt | KeyPress::Char('q'), _) => return false,
            (KeyPress::Char('c'), _) => self.order = RatesOrder::Cpu,
            (KeyPress::Char('m'), _) => self.order = RatesOrder::Memory,
            (KeyPress::Char('r'), _) => self.order = RatesOrder::Runs,
            (KeyPress::Char('n'), _) => self.order = RatesOrder::Name,
            (KeyPress::Char('?' | 'h'), TopPage::List | TopPage::One) => self.page = TopPage::Help,
            (KeyPress::Char('?' | 'h') | KeyPress::Back | KeyPress::Enter, TopPage::Help)
            | (KeyPress::Back, TopPage::One) => {
                self.page = TopPage::List;
            }
            (KeyPress::Up | KeyPress::Char('k'), _) => self.select(rates, -1),
            (KeyPress::Down | KeyPress::Char('j'), _) => self.select(rates, 1),
            (KeyPress::Enter, TopPage::List) => {
                if self.selected.is_none() {
                    self.select(rates, 0);
                }
                self.page = TopPage::One;
            }
            (KeyPress::Enter, TopPage::One)
            | (KeyPress::Back, TopPage::List)
            | (KeyPress::Other | KeyPress::Char(_), _) => {}
        }
        rates.sort(self.order);
        true
    }

    /// Selects the function that is so many rows below the selected one; the first if none is selected.
    fn select(&mut self, rates: &UsageRates, rows: isize) {
        let place = self.place(rates).map_or(0, |place| place.saturating_add_signed(rows));
        let place = place.min(rates.functions.len().saturating_sub(1));
        // The name is kept and not the row: in another order the same function stays selected.
        self.selected = rates.functions.get(place).map(|rate| rate.function.clone());
    }

    fn place(&self, rates: &UsageRates) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        rates.functions.iter().position(|rate| rate.function == *selected)
    }

    /// Returns the lines for a terminal of some columns and rows.
    pub(super) fn lines(&mut self, rates: &UsageRates, columns: u16, rows: u16) -> Vec<ScreenLine> {
        let failure = match &self.failure {
            Some(failure) => line(&format!("no answer: {failure}"), LineStyle::Bold),
            None => line("", LineStyle::Plain),
        };
        let mut lines = vec![line(&self.summary(rates), LineStyle::Bold), failure];
        match self.page {
            TopPage::Help => lines.extend(KEYS.map(|key| line(key, LineStyle::Plain))),
            TopPage::One => lines.extend(self.one(rates)),
            TopPage::List => lines.extend(self.list(rates, columns, usize::from(rows).saturating_sub(lines.len()))),
        }
        // A terminal that gets more lines than it has rows would scroll.
        lines.truncate(usize::from(rows));
        let columns = usize::from(columns);
        for line in &mut lines {
            line.text = escape(&line.text, false).chars().take(columns).collect();
        }
        lines
    }

    fn summary(&self, rates: &UsageRates) -> String {
        let all = &rates.functions;
        let cpu: f64 = all.iter().filter_map(|rate| rate.cpu_percent).sum();
        let memory = all.iter().filter_map(|rate| rate.memory_bytes).sum();
        let running: u32 = all.iter().map(|rate| rate.running).sum();
        let queued: u32 = all.iter().map(|rate| rate.queued).sum();
        format!(
            "{}, {running} running, {queued} queued, CPU {cpu:.1}%, memory {}; by {}; ? keys, q end",
            counted(all.len(), "function", "functions"),
            size(Some(memory)),
            self.order.as_str()
        )
    }

    /// Returns the table, scrolled so that the selected function is seen.
    fn list(&mut self, rates: &UsageRates, columns: u16, rows: usize) -> Vec<ScreenLine> {
        // One row is for the header.
        let rows = rows.saturating_sub(1).max(1);
        let place = self.place(rates);
        if let Some(place) = place {
            self.first = self.first.min(place).max((place + 1).saturating_sub(rows));
        }
        // Functions may have gone since the list was scrolled.
        self.first = self.first.min(rates.functions.len().saturating_sub(rows));
        let table = table(rates).lines(Some(columns));
        let mut lines = table.iter().enumerate();
        let header = lines.next().map(|(_, text)| line(text, LineStyle::Bold));
        let shown = lines.skip(self.first).take(rows).map(|(number, text)| {
            // The header is line 0.
            let rate = number.checked_sub(1).and_then(|row| rates.functions.get(row));
            let look = match rate {
                _ if place.is_some_and(|place| place + 1 == number) => LineStyle::Selected,
                Some(rate) if rate.running == 0 && rate.pids.is_none() => LineStyle::Dim,
                _ => LineStyle::Plain,
            };
            line(text, look)
        });
        header.into_iter().chain(shown).collect()
    }

    fn one(&self, rates: &UsageRates) -> Vec<ScreenLine> {
        let Some(rate) = self.place(rates).and_then(|place| rates.functions.get(place)) else {
            return vec![line("the function is gone: Esc goes back", LineStyle::Plain)];
        };
        let of = |used: String, limit: String| match limit.as_str() {
            "" => or_dash(used),
            limit => format!("{} of {limit}", or_dash(used)),
        };
        let FunctionRate {
            function,
            runs,
            failures,
            ..
        } = rate;
        let throttled = or_dash(percent(rate.throttled_percent));
        let rows = [
            ("function", function.clone()),
            ("state", rate.state.as_str().to_owned()),
            ("CPU", of(percent(rate.cpu_percent), percent(rate.cpu_limit_percent))),
            ("throttled", format!("{throttled} of the periods of its CPU limit")),
            ("memory", of(size(rate.memory_bytes), size(rate.memory_limit_bytes))),
            ("processes", or_dash(pids(rate))),
            ("running", rate.running.to_string()),
            ("queued", queued(rate)),
            (
                "runs",
                format!("{runs}, {failures} failed, {:.1} a second", rate.runs_per_second),
            ),
        ];
        let rows = rows.map(|(name, value)| line(&format!("{name:13} {value}"), LineStyle::Plain));
        let verbs = ["logs -f", "history", "show"];
        let verbs = verbs.map(|verb| line(&format!("fndctl {verb} {function}"), LineStyle::Dim));
        let empty = line("", LineStyle::Plain);
        rows.into_iter().chain([empty]).chain(verbs).collect()
    }
}

/// Returns the table of functions.
pub(super) fn table(rates: &UsageRates) -> TextTable {
    let heads = [
        "FUNCTION",
        "CPU",
        "THROTTLED",
        "MEMORY",
        "LIMIT",
        "PIDS",
        "RUNNING",
        "QUEUED",
        "RUNS/S",
    ];
    toned(heads, &rates.functions, |rate| tone_of_state(rate.state), cells)
}

/// Returns how many runs wait, and for what, if that is not a process: `3, for group db (2 of 2)`.
fn queued(rate: &FunctionRate) -> String {
    let waits_for = rate.waits_for.as_ref();
    let waits_for = waits_for.map(|waits_for| format!(", for {}", waits_for.words()));
    format!("{}{}", rate.queued, waits_for.unwrap_or_default())
}

fn cells(rate: &FunctionRate) -> [String; 9] {
    [
        rate.function.clone(),
        percent(rate.cpu_percent),
        percent(rate.throttled_percent.filter(|_| rate.cpu_percent.is_some())),
        size(rate.memory_bytes),
        size(rate.memory_limit_bytes),
        pids(rate),
        rate.running.to_string(),
        rate.queued.to_string(),
        format!("{:.1}", rate.runs_per_second),
    ]
}

fn line(text: &str, look: LineStyle) -> ScreenLine {
    ScreenLine {
        text: text.to_owned(),
        look,
    }
}

fn percent(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.1}%")).unwrap_or_default()
}

fn pids(rate: &FunctionRate) -> String {
    rate.pids.map(|pids| pids.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::rates;
    use super::*;

    fn texts(lines: &[ScreenLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn keys_sort_select_and_open() {
        let (mut view, mut rates) = (TopView::new(RatesOrder::Cpu), rates());
        let names = |lines: &[ScreenLine]| {
            let rows = lines.iter().skip(3);
            rows.filter_map(|line| line.text.split_whitespace().next().map(str::to_owned))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&view.lines(&rates, 80, 24)), ["ops/backup", "hello", "idle"]);
        assert!(view.press(KeyPress::Char('n'), &mut rates));
        assert_eq!(names(&view.lines(&rates, 80, 24)), ["hello", "idle", "ops/backup"]);
        for key in [
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Char('k'),
            KeyPress::Down,
            KeyPress::Down,
            KeyPress::Down,
        ] {
            assert!(view.press(key, &mut rates));
        }
        // The selection stays with its function in another order.
        assert!(view.press(KeyPress::Char('c'), &mut rates));
        let lines = view.lines(&rates, 80, 24);
        let selected = lines.iter().find(|line| line.look == LineStyle::Selected).unwrap();
        assert!(selected.text.starts_with("ops/backup"), "{lines:?}");
        assert!(view.press(KeyPress::Enter, &mut rates));
        let lines = view.lines(&rates, 80, 24);
        assert!(texts(&lines).contains(&"CPU           15.0% of 50.0%"), "{lines:?}");
        assert!(texts(&lines).contains(&"memory        8M of 256M"), "{lines:?}");
        assert!(view.press(KeyPress::Char('?'), &mut rates));
        assert!(texts(&view.lines(&rates, 80, 24)).contains(&"q          end"));
        assert!(view.press(KeyPress::Back, &mut rates) && view.page == TopPage::List);
        // A function that is gone.
        assert!(view.press(KeyPress::Enter, &mut rates));
        rates.functions.clear();
        assert!(texts(&view.lines(&rates, 80, 24))[2].contains("is gone"));
        assert!(!view.press(KeyPress::Char('q'), &mut rates) && !view.press(KeyPress::Interrupt, &mut rates));
    }

    #[test]
    fn a_small_terminal_scrolls_and_cuts() {
        let (mut view, mut rates) = (TopView::new(RatesOrder::Cpu), rates());
        let lines = view.lines(&rates, 40, 4);
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.text.chars().count() <= 40), "{lines:?}");
        assert!(lines[3].text.starts_with("ops/"), "{lines:?}");
        for _ in 0..3 {
            assert!(view.press(KeyPress::Down, &mut rates));
        }
        assert!(view.lines(&rates, 40, 4)[3].text.starts_with("idle"));
        view.failure = Some("fnd is gone".to_owned());
        assert_eq!(view.lines(&rates, 40, 4)[1].text, "no answer: fnd is gone");
        assert!(view.lines(&rates, 1, 0).is_empty());
    }
}
