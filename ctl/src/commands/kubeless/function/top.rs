//! `kubeless function top`: how often functions were called, and how long they took, from fnd's metrics.

use super::super::options::Namespace;
use super::list::details;
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{TextTable, Tone};
use fnd_import::kubeless::object::NAMESPACE;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubeless function top\n  kubeless function top --function hello --out yaml")]
pub(in crate::commands::kubeless) struct Args {
    /// Only this function.
    #[arg(short, long, value_name = "FUNCTION", add = candidates::functions())]
    function: Option<String>,

    #[command(flatten)]
    namespace: Namespace,
}

/// A row, with the names that Kubeless has.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Row {
    function: String,
    namespace: &'static str,
    method: String,
    message: String,
    total_calls: u64,
    total_failures: u64,
    total_duration_seconds: f64,
    avg_duration_seconds: f64,
}

/// # Errors
/// The function does not exist, or fnd cannot be reached.
pub(super) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    args.namespace.report(context);
    let named: Vec<String> = args.function.into_iter().collect();
    let functions = details(context, &named).await?;
    let metrics = context.client.get("/metrics").await?.body;
    let metrics = String::from_utf8_lossy(&metrics);
    let names = functions.iter().map(|detail| detail.status.function.as_str());
    let rows = rows(names, &metrics);
    context.made(&rows, |out| {
        let mut table = TextTable::fixed(&[
            "NAME",
            "NAMESPACE",
            "METHOD",
            "TOTAL_CALLS",
            "TOTAL_FAILURES",
            "TOTAL_DURATION_SECONDS",
            "AVG_DURATION_SECONDS",
            "MESSAGE",
        ]);
        for row in &rows {
            let shown = |value: String| if row.message.is_empty() { value } else { String::new() };
            let cells = [
                row.function.clone(),
                row.namespace.to_owned(),
                row.method.clone(),
                shown(row.total_calls.to_string()),
                shown(row.total_failures.to_string()),
                shown(row.total_duration_seconds.to_string()),
                shown(row.avg_duration_seconds.to_string()),
                row.message.clone(),
            ];
            table.row(Tone::Plain, cells);
        }
        out.table(&table)
    })
}

/// Returns a row for each function and method, from metrics in Prometheus's text form. A function that was never called has
/// no numbers, only a message.
fn rows<'a>(functions: impl Iterator<Item = &'a str>, metrics: &str) -> Vec<Row> {
    let mut found: BTreeMap<(&str, &str), Row> = BTreeMap::new();
    for (series, function, method, value) in metrics.lines().filter_map(sample) {
        let row = found.entry((function, method)).or_default();
        match series {
            "function_calls_total" => row.total_calls = value.parse().unwrap_or(0),
            "function_failures_total" => row.total_failures = value.parse().unwrap_or(0),
            "function_duration_seconds_sum" => row.total_duration_seconds = value.parse().unwrap_or(0.0),
            _ => {}
        }
    }
    let mut rows = Vec::new();
    for function in functions {
        let before = rows.len();
        for ((of, method), row) in &found {
            if *of == function && row.total_calls > 0 {
                // Exact up to four thousand million calls.
                let calls = f64::from(u32::try_from(row.total_calls).unwrap_or(u32::MAX));
                rows.push(Row {
                    function: function.to_owned(),
                    namespace: NAMESPACE,
                    method: (*method).to_owned(),
                    avg_duration_seconds: row.total_duration_seconds / calls,
                    ..row.clone()
                });
            }
        }
        if rows.len() == before {
            rows.push(Row {
                function: function.to_owned(),
                namespace: NAMESPACE,
                // fnd keeps these counters in memory, so a restart begins them anew.
                message: "it was not called since fnd started".to_owned(),
                ..Row::default()
            });
        }
    }
    rows
}

/// Returns the series, the function, the method and the value of a line; nothing for other lines.
fn sample(line: &str) -> Option<(&str, &str, &str, &str)> {
    // Lines without labels are comments, or metrics of the whole node.
    let (series, rest) = line.split_once('{')?;
    let (labels, value) = rest.split_once("} ")?;
    let label = |name: &str| {
        let (_, rest) = labels.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    // A histogram has its sum and its count beside the buckets, and only these are shown.
    let is_meant = series.starts_with("function_") && !series.ends_with("_bucket");
    let function = label("function").filter(|_| is_meant)?;
    Some((series, function, label("method")?, value.split(' ').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# TYPE function_calls_total counter\n\
        function_calls_total{function=\"hello\",method=\"GET\"} 4\n\
        function_calls_total{function=\"hello\",method=\"POST\"} 1\n\
        function_failures_total{function=\"hello\",method=\"GET\"} 1\n\
        function_duration_seconds_bucket{function=\"hello\",method=\"GET\",le=\"0.1\"} 4\n\
        function_duration_seconds_sum{function=\"hello\",method=\"GET\"} 0.5\n\
        function_duration_seconds_count{function=\"hello\",method=\"GET\"} 4\n\
        fnd_up 1\n";

    #[test]
    fn a_row_for_each_method() {
        let rows = rows(["hello", "other"].into_iter(), METRICS);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.function.as_str(),
                    row.method.as_str(),
                    row.total_calls,
                    row.total_failures,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [("hello", "GET", 4, 1), ("hello", "POST", 1, 0), ("other", "", 0, 0)]
        );
        assert!((rows[0].avg_duration_seconds - 0.125).abs() < 1e-9);
        assert!(rows[0].message.is_empty() && rows[2].message.contains("not called"));
    }
}
