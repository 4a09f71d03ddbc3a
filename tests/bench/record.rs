//! The history of figures: one line of JSON for each row of each run, in `target/bench.jsonl`.

use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// A row of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The commit, with `-dirty` for uncommitted changes; empty if nobody said it.
    #[serde(default)]
    pub(crate) commit: String,
    /// When the row was measured.
    #[serde(default)]
    pub(crate) time: String,
    pub(crate) part: String,
    pub(crate) row: String,
    /// Median of the rounds' medians, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p50_extremes_us: Option<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<f64>,
    /// Median of the rounds' rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_second_extremes: Option<(f64, f64)>,
    /// A value that is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

/// Appends rows to the history.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    file: Option<File>,
    commit: String,
}

impl Recorder {
    /// Opens the history that `FND_BENCH_RECORD` names; `FND_BENCH_COMMIT` is the commit. Without a name nothing is recorded.
    pub(crate) fn of_environment() -> Self {
        let file = std::env::var_os("FND_BENCH_RECORD").map(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            opened.unwrap_or_else(|error| panic!("failed to open `{}`: {error}", Path::new(&path).display()))
        });
        Self {
            file,
            commit: std::env::var("FND_BENCH_COMMIT").unwrap_or_default(),
        }
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let Some(file) = &mut self.file else { return };
        let record = Record {
            commit: self.commit.clone(),
            time: jiff::Timestamp::now().to_string(),
            ..record.clone()
        };
        let line = serde_json::to_string(&record).expect("a record is JSON");
        writeln!(file, "{line}").expect("the history is written");
    }
}

/// Reads a history.
///
/// # Errors
/// The file cannot be read, or a line is no record.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}
