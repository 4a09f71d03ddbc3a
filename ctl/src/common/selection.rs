//! The options of `status` and `list` that select functions and put them in order.

use crate::common::candidates;
use crate::common::names::{is_pattern, select};
use crate::context::Parameters;
use crate::exit::CommandFailure;
use crate::output::Format;
use clap::ValueEnum;
use fnd_core::api::FunctionStatus;
use std::cmp::Reverse;

/// The functions to show, and their order.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Show only these functions; a name may have `*` and `?`.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    functions: Vec<String>,

    /// Show only functions with this label; may be repeated, then a function must have all of them.
    #[arg(short, long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,

    /// Put the functions in this order; of numbers, the highest comes first.
    #[arg(long, value_name = "KEY", value_enum)]
    sort: Option<FunctionOrder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FunctionOrder {
    /// By name.
    Name,
    /// By the start of the last attempt, newest first.
    Last,
    /// By the number of runs.
    Runs,
    /// By the number of failed runs.
    Failed,
    /// By the memory in use, else by its peak.
    Memory,
    /// By the CPU time of the last attempt.
    Cpu,
    /// By the median duration.
    P50,
    /// By the 99th percentile of durations.
    P99,
    /// By state, then by name.
    State,
}

fn label(typed: &str) -> Result<(String, String), String> {
    let (key, value) = typed.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Selection {
    /// Returns the one function that is named, whose answer has more than those of several.
    pub(crate) fn alone(&self) -> Option<&str> {
        match self.functions.as_slice() {
            [name] if !is_pattern(name) && self.labels.is_empty() => Some(name),
            _ => None,
        }
    }

    /// Returns whether not all functions are wanted.
    pub(crate) fn selects(&self) -> bool {
        !self.functions.is_empty() || !self.labels.is_empty()
    }

    /// Returns whether names are given, which the API's own selection does not have.
    pub(crate) fn has_names(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Returns whether an answer of the API has to be changed.
    pub(crate) fn changes(&self) -> bool {
        self.selects() || self.sort.is_some()
    }

    /// Adds the labels to a request.
    pub(crate) fn add_labels(&self, parameters: &mut Parameters) {
        for (key, value) in &self.labels {
            parameters.add("label", Some(&format!("{key}={value}")));
        }
    }

    /// Leaves the selected functions, in their order.
    ///
    /// # Errors
    /// A name or a pattern matches no function.
    pub(crate) fn apply(&self, functions: &mut Vec<FunctionStatus>) -> Result<(), CommandFailure> {
        if !self.functions.is_empty() {
            let all: Vec<String> = functions.iter().map(|one| one.function.to_string()).collect();
            let names = select(&self.functions, &all)?;
            functions.retain(|one| names.iter().any(|name| name == one.function.as_str()));
        }
        let has = |one: &FunctionStatus, key, value| one.labels.get(key) == Some(value);
        functions.retain(|one| self.labels.iter().all(|(key, value)| has(one, key, value)));
        if let Some(key) = self.sort {
            sort(functions, key);
        }
        Ok(())
    }
}

/// Sorts functions; those without a value come last, and equal ones stay in the order of their names.
fn sort(functions: &mut [FunctionStatus], key: FunctionOrder) {
    // Durations of the API are never negative, so the order of their bits is that of their values.
    let bits = |ms: Option<f64>| Reverse(ms.map(f64::to_bits));
    match key {
        FunctionOrder::Name => functions.sort_by(|a, b| a.function.cmp(&b.function)),
        // The API writes all instants in one form, which sorts as text.
        FunctionOrder::Last => functions.sort_by_key(|one| Reverse(one.started_at.clone())),
        FunctionOrder::Runs => functions.sort_by_key(|one| Reverse(one.runs)),
        FunctionOrder::Failed => functions.sort_by_key(|one| Reverse(one.failures)),
        FunctionOrder::Memory => functions.sort_by_key(|one| Reverse(one.memory_bytes.or(one.memory_peak_bytes))),
        FunctionOrder::Cpu => functions.sort_by_key(|one| bits(one.cpu_ms)),
        FunctionOrder::P50 => functions.sort_by_key(|one| bits(one.p50_ms)),
        FunctionOrder::P99 => functions.sort_by_key(|one| bits(one.p99_ms)),
        FunctionOrder::State => functions.sort_by_key(|one| one.state.as_str()),
    }
}

/// Refuses `--watch` of selected functions in a form for programs: its lines are the changes that the API sends.
pub(crate) fn refuse_changes_of_some(format: Format) -> Result<(), CommandFailure> {
    if format.is_document() {
        let message = "`--watch` prints the changes of one function or of all in this format";
        return Err(CommandFailure::usage(message));
    }
    Ok(())
}
