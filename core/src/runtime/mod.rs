//! Runtimes as data: `runtimes/ID/runtime.toml` (contract, section 8).

pub mod read;
pub mod shebang;

use crate::manifest::Mode;
use crate::settings::RuntimeSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `fndctl runtimes` and the scanner know of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSummary {
    /// Its id, `python`.
    pub id: String,
    /// What it is, for people.
    pub description: String,
    /// Suffixes it claims, with the dot: `.py`.
    pub suffixes: Vec<String>,
    /// Other names it goes by, `python2.7`.
    pub aliases: Vec<String>,
    /// Versions and the interpreter of each, the newest first; whether they are there is not known here.
    pub versions: Vec<RuntimeVersion>,
    /// Whether functions may use it.
    pub enabled: bool,
}

/// A version of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeVersion {
    /// Its name, `3.11`, or [`DEFAULT`].
    pub name: String,
    /// Absolute path.
    pub interpreter: String,
}

/// A runtime, as its `runtime.toml` and `[runtimes]` of the configuration say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// What everybody sees of it.
    pub summary: RuntimeSummary,
    /// Interpreters tried where no version is asked for, absolute, in order; empty: the entry is executed itself.
    pub interpreters: Vec<String>,
    /// Base names a `#!` line may use for it, `python3`; digits and dots may follow.
    pub names: Vec<String>,
    /// An attempt of a script.
    pub run: Phase,
    /// A worker of a handler; absent: it has no handlers.
    pub handle: Option<Phase>,
    /// A worker of a module that only answers requests (`export default { fetch }`); absent: it has none of those.
    pub serve: Option<Phase>,
    /// The program that serves handlers, as its `runtime.toml` is found; absent: the entry speaks the worker protocol itself.
    pub shim: Option<String>,
    /// Command that tells the version, `{interpreter}` in it; empty where there is none.
    pub probe: Vec<String>,
    /// What it always grants, where it knows permissions: word behind `--allow-`, then templates.
    pub permissions: Option<BTreeMap<String, Vec<String>>>,
    /// Whether byte-order marks and carriage returns are taken out of the entry.
    pub unix_text: bool,
    /// Bytes of memory below which it does not start.
    pub memory_floor: u64,
    /// Processes and threads below which it does not start.
    pub pids_floor: u32,
}

/// What is executed in a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Command line; the first item is `{interpreter}` or `{entry}`.
    pub command: Vec<String>,
    /// Environment, templates allowed.
    pub environment: Vec<(String, String)>,
    /// Base names of the only interpreters that a `#!` line may ask for here; none: any of the runtime's.
    pub names: Vec<String>,
    /// What it grants in this phase beyond what it always does, where it knows permissions.
    pub permissions: BTreeMap<String, Vec<String>>,
}

impl Runtime {
    /// Returns what starts a function of a mode; none where the runtime has no such functions.
    #[must_use]
    pub fn phase(&self, mode: Mode) -> Option<&Phase> {
        match mode {
            Mode::Script => Some(&self.run),
            Mode::Handler => self.handle.as_ref(),
            // A service is started like a script, and so is a program that serves HTTP unless its runtime does the serving.
            Mode::Http | Mode::Service => Some(&self.run),
        }
    }

    /// Returns the version a name asks for, if the name is this runtime's: `Some(None)` for `python`,
    /// `Some(Some("3.11"))` for `python3.11`.
    #[must_use]
    pub fn version_of<'n>(&self, name: &'n str) -> Option<Option<&'n str>> {
        let version = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        std::iter::once(&self.summary.id)
            .chain(&self.summary.aliases)
            .find_map(|known| name.strip_prefix(known.as_str()).filter(|rest| version(rest)))
            .map(|rest| Some(rest).filter(|rest| !rest.is_empty()))
    }

    /// Says whether a base name is one of its interpreters.
    #[must_use]
    pub fn is_interpreter(&self, name: &str) -> bool {
        let version = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        self.names
            .iter()
            .any(|known| name.strip_prefix(known.as_str()).is_some_and(version))
    }

    /// Applies `[runtimes] ID` of the configuration.
    pub fn configure(&mut self, settings: &RuntimeSettings) {
        self.summary.enabled = settings.enabled;
        for (name, interpreter) in &settings.interpreters {
            let version = RuntimeVersion {
                name: name.clone(),
                interpreter: interpreter.clone(),
            };
            self.summary.versions.retain(|known| known.name != *name);
            if name == DEFAULT {
                self.interpreters.insert(0, interpreter.clone());
                self.summary.versions.insert(0, version);
            } else {
                self.summary.versions.push(version);
            }
        }
        // The newest first, the default before all.
        self.summary
            .versions
            .sort_by_key(|version| std::cmp::Reverse(rank(&version.name)));
    }

    /// Returns the interpreters of a version, or where none is asked for every one there is, the default ones first.
    #[must_use]
    pub fn candidates(&self, version: Option<&str>) -> Vec<String> {
        let all = self.summary.versions.iter();
        match version {
            Some(name) => all
                .filter(|known| known.name == name)
                .map(|known| known.interpreter.clone())
                .collect(),
            None => {
                let mut result = self.interpreters.clone();
                for version in all {
                    if !result.contains(&version.interpreter) {
                        result.push(version.interpreter.clone());
                    }
                }
                result
            }
        }
    }
}

/// The version that is none: an interpreter tried first where no version is asked for.
pub const DEFAULT: &str = "default";

/// Returns what versions are sorted by: the default above all, then by numbers.
fn rank(name: &str) -> (bool, Vec<u64>) {
    (
        name == DEFAULT,
        name.split('.').map(|part| part.parse().unwrap_or(0)).collect(),
    )
}
