//! A report as lines for people: one screen, if not much went wrong.

use super::summary::{FunctionSummary, Report, RunGroup};
use crate::common::tables::{bad_if, table, toned};
use crate::output::{TextTable, Tone, escape, wrap};
use crate::text::{duration, end_of, size};
use fnd_wire::units::counted;

/// Rows of each part; `-o json` has all.
const ROWS: usize = 15;

/// Returns the lines for a terminal of some columns. `instant` prints an instant.
pub(super) fn lines(report: &Report, columns: Option<u16>, instant: impl Fn(&str) -> String) -> Vec<String> {
    let mut lines = wrapped(&format!("{}: {}", report.node, report.verdict), columns);
    lines.push(format!("{} to {}", instant(&report.since), instant(&report.until)));
    lines.extend(cut(report));
    // Tables are indented.
    let narrower = columns.map(|columns| columns.saturating_sub(2));
    let failed = groups(&report.failures);
    part(&mut lines, "FAILED", failed.lines(narrower), report.failures.len());
    messages(&mut lines, &report.failures, columns);
    not_run(&mut lines, report, columns);
    let ran = ran(&report.functions);
    part(&mut lines, "RUNS", ran.lines(narrower), report.functions.len());
    lines.extend(most(&report.functions).iter().flat_map(|text| wrapped(text, columns)));
    lines
}

/// Returns how many runs the report is about, if not about all.
pub(super) fn cut(report: &Report) -> Option<String> {
    let is_cut = report.is_cut;
    is_cut.then(|| format!("there were more runs: these are the newest {}", report.runs))
}

/// Returns the report as one row, beside those of other machines.
pub(super) fn row(report: &Report) -> TextTable {
    let heads = ["RUNS", "FAILED", "SKIPPED", "DEAD LETTERS", "VERDICT"];
    toned(
        heads,
        [report],
        |report| bad_if(report.failed > 0),
        |report| {
            [
                report.runs.to_string(),
                report.failed.to_string(),
                report.skipped.to_string(),
                report.dead_letters.to_string(),
                report.verdict.clone(),
            ]
        },
    )
}

/// Returns runs that failed alike, as one line.
pub(super) fn failure(group: &RunGroup) -> String {
    let times = counted(group.count, "time", "times");
    format!("{} {}, {times}: {}", group.function, group.reason, group.message)
}

/// Adds a part with a heading, unless it is empty. The first line of a table is its header.
fn part(lines: &mut Vec<String>, heading: &str, table: Vec<String>, rows: usize) {
    if rows == 0 {
        return;
    }
    lines.extend([String::new(), heading.to_owned()]);
    lines.extend(table.into_iter().take(ROWS + 1).map(|line| format!("  {line}")));
    if rows > ROWS {
        lines.push(format!("  and {} more (-o json has all)", rows - ROWS));
    }
}

fn groups(groups: &[RunGroup]) -> TextTable {
    let heads = ["FUNCTION", "REASON", "TIMES", "NEWEST"];
    let tone = |_: &RunGroup| Tone::Bad;
    toned(heads, groups, tone, |group| {
        [
            group.function.clone(),
            group.reason.clone(),
            group.count.to_string(),
            end_of(&group.id).to_owned(),
        ]
    })
}

/// Adds the newest message of each group, whole.
fn messages(lines: &mut Vec<String>, groups: &[RunGroup], columns: Option<u16>) {
    // Messages have lines of their own, since a table would cut them off.
    for group in groups.iter().take(ROWS).filter(|group| !group.message.is_empty()) {
        let message = escape(&group.message, false);
        let line = format!("  {} {}: {message}", group.function, group.reason);
        lines.extend(wrapped(&line, columns));
    }
}

fn wrapped(text: &str, columns: Option<u16>) -> Vec<String> {
    wrap(text, columns, 4).lines().map(str::to_owned).collect()
}

fn not_run(lines: &mut Vec<String>, report: &Report, columns: Option<u16>) {
    let mut found = Vec::new();
    for one in report.stopped.iter().take(ROWS) {
        let colon = if one.why.is_empty() { "" } else { ": " };
        let (state, why) = (one.state.as_str(), escape(&one.why, false));
        found.push(format!("{} is {state}{colon}{why}", one.function));
    }
    for skip in report.skips.iter().take(ROWS) {
        found.push(format!("{}: {} {}", skip.function, skip.count, skip.reason));
    }
    if !report.idle.is_empty() {
        let names: Vec<&str> = report.idle.iter().take(ROWS).map(String::as_str).collect();
        let more = match report.idle.len().saturating_sub(ROWS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        found.push(format!("no run: {}{more}", names.join(", ")));
    }
    if report.dead_letters > 0 {
        found.push(format!("dead letters: {} (fndctl dead-letters)", report.dead_letters));
    }
    let problems = report.problems.iter();
    found.extend(problems.map(|problem| format!("problem: {}", escape(problem, false))));
    if !found.is_empty() {
        lines.extend([String::new(), "DID NOT RUN".to_owned()]);
        lines.extend(found.iter().flat_map(|text| wrapped(&format!("  {text}"), columns)));
    }
}

fn ran(functions: &[FunctionSummary]) -> TextTable {
    let heads = ["FUNCTION", "RUNS", "FAILED", "SKIPPED", "TIME", "CPU", "MEMORY"];
    table(heads, functions, |function| {
        [
            function.function.clone(),
            function.runs.to_string(),
            function.failed.to_string(),
            function.skipped.to_string(),
            duration(Some(function.duration_ms)),
            duration(function.cpu_ms),
            size(function.memory_peak_bytes),
        ]
    })
}

/// Returns which functions used most.
fn most(functions: &[FunctionSummary]) -> Option<String> {
    let cpu = functions.iter().filter(|one| one.cpu_ms.is_some());
    let cpu = cpu.max_by(|a, b| a.cpu_ms.unwrap_or(0.0).total_cmp(&b.cpu_ms.unwrap_or(0.0)))?;
    let memory = functions.iter().max_by_key(|one| one.memory_peak_bytes)?;
    let time = functions.iter();
    let time = time.max_by(|a, b| a.duration_ms.total_cmp(&b.duration_ms))?;
    let cpu = format!("{} {}", cpu.function, duration(cpu.cpu_ms));
    let memory = format!("{} {}", memory.function, size(memory.memory_peak_bytes));
    let time = format!("{} {}", time.function, duration(Some(time.duration_ms)));
    Some(format!("  most CPU: {cpu}; most memory: {memory}; most time: {time}"))
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::report;

    #[test]
    fn one_screen_says_what_happened() {
        let lines = super::lines(&report(), Some(60), str::to_owned);
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
        assert_eq!(
            lines,
            [
                "vm1: 3 of 6 runs failed, 1 function does not work, 2 dead",
                "    letters",
                "2026-11-20T08:01:00Z to 2026-11-21T08:01:00Z",
                "",
                "FAILED",
                "  FUNCTION  REASON   TIMES  NEWEST",
                "  mail      timeout  2      00000001",
                "  mail      exit-1   1      00000003",
                "  mail timeout: no answer in 180s",
                "  mail exit-1: no such host\\u{1b}[2J",
                "",
                "DID NOT RUN",
                "  old is disabled",
                "  bad is invalid: unknown runtime `pyhton`",
                "  hello: 1 skipped-overlap",
                "  no run: never",
                "  dead letters: 2 (fndctl dead-letters)",
                "",
                "RUNS",
                "  FUNCTION  RUNS  FAILED  SKIPPED  TIME   CPU    MEMORY",
                "  mail      4     3       0        6.00s  400ms  4M",
                "  hello     2     0       1        3.00s  200ms  6M",
                "  most CPU: mail 400ms; most memory: hello 6M; most time:",
                "    mail 6.00s",
            ]
        );
    }
}
