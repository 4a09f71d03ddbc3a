//! Runtimes as data: `runtimes/ID/runtime.toml` (docs/new-runtime.md).
//!
//! Files:
//! - `keys`: every key of runtime.toml
//! - `read`: reads runtime.toml
//! - `shebang`: reads `#!` lines
//! - `shipped`: the runtimes inside the program

pub mod keys;
pub mod read;
pub mod shebang;
pub mod shipped;

pub use keys::{Dependencies, RuntimePhase};

use crate::function::Mode;
use crate::settings::RuntimeSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A runtime: what fnd needs to run functions in a language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeSummary {
    /// Its id, `python`.
    pub id: String,
    /// Description for people.
    pub description: String,
    /// Suffixes that it claims, with the dot: `.py`.
    pub suffixes: Vec<String>,
    /// Other names of the runtime, `python2.7`.
    pub aliases: Vec<String>,
    /// Versions with their interpreters, the newest first. An interpreter may not be installed.
    pub versions: Vec<RuntimeVersion>,
    /// Whether functions may use it.
    pub enabled: bool,
    /// Command that prints the version of an interpreter, with `{interpreter}` in it; empty where there is none.
    #[serde(default)]
    pub probe: Vec<String>,
}

/// A version of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeVersion {
    /// Name of the version, `3.11`, or `default`.
    pub name: String,
    /// Absolute path of the interpreter.
    pub interpreter: String,
    /// Whether the interpreter is installed, as far as fnd can see.
    #[serde(default)]
    pub installed: bool,
    /// Real path of the interpreter; null where it is not installed.
    #[serde(default)]
    pub path: Option<String>,
}

impl RuntimeVersion {
    /// Returns a version of which nobody has found out whether it is installed.
    #[must_use]
    pub fn new(name: String, interpreter: String) -> Self {
        Self {
            name,
            interpreter,
            installed: false,
            path: None,
        }
    }
}

/// A runtime, from its `runtime.toml` and `[runtimes]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// The facts about the runtime that the API shows.
    pub summary: RuntimeSummary,
    /// Absolute paths of the interpreters that are tried, in order, where no version is requested; empty: the entry is
    /// executed itself.
    pub interpreters: Vec<String>,
    /// Base names that a `#!` line may use for it, `python3`; digits and dots may follow.
    pub names: Vec<String>,
    /// Starts an attempt of a script; absent: the runtime has only handlers.
    pub run: Option<RuntimePhase>,
    /// Starts a worker of a handler; absent: the runtime has no handlers.
    pub handle: Option<RuntimePhase>,
    /// Starts a worker of a module that only answers requests (`export default { fetch }`); absent: the runtime has no
    /// such modules.
    pub serve: Option<RuntimePhase>,
    /// Path of the program that serves handlers, in the directory of `runtime.toml`; absent: the entry itself uses the
    /// worker protocol.
    pub shim: Option<String>,
    /// Installs dependencies; absent: the runtime has none.
    pub install: Option<RuntimePhase>,
    /// Compiles functions, with their dependencies; absent: the runtime needs no compiler.
    pub compile: Option<RuntimePhase>,
    /// Checks the syntax of code, and runs nothing of it; absent: the runtime cannot.
    pub check: Option<RuntimePhase>,
    /// Fetches the code of functions with `[source]`; absent: the runtime cannot.
    pub fetch: Option<RuntimePhase>,
    /// Path of the program that installs dependencies, compiles or fetches code, in the directory of `runtime.toml`.
    pub installer: Option<String>,
    /// How functions get at dependencies that were installed.
    pub dependencies: Dependencies,
    /// The least version that it needs.
    pub min_version: Option<String>,
    /// Permissions that are always granted: the word after `--allow-`, then templates. Absent: the runtime has no
    /// permissions.
    pub permissions: Option<BTreeMap<String, Vec<String>>>,
    /// Whether byte-order marks and carriage returns are removed from the entry.
    pub unix_text: bool,
    /// Least memory with which it starts, in bytes.
    pub memory_floor: u64,
    /// Least number of processes and threads with which it starts.
    pub pids_floor: u32,
}

/// The first item of a command that `fnd-helper` executes.
pub(crate) const HELPER: &str = "{helper}";

impl Runtime {
    /// Returns the first item of its commands, which is the same in all phases that start functions.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        let phase = self.run.as_ref().or(self.handle.as_ref())?;
        phase.command.first().map(String::as_str)
    }

    /// Says whether `fnd-helper` serves its functions, which it executes as they are.
    #[must_use]
    pub fn is_helped(&self) -> bool {
        self.program() == Some(HELPER)
    }

    /// Returns the phase that makes the tree of dependencies.
    #[must_use]
    pub fn build(&self) -> Option<&RuntimePhase> {
        // A language with a compiler has `compile` in place of `install`: its compiler fetches the packages, too.
        self.install.as_ref().or(self.compile.as_ref())
    }

    /// Returns the phase that starts a function of a mode; absent where the runtime has no such functions.
    #[must_use]
    pub fn phase(&self, mode: Mode) -> Option<&RuntimePhase> {
        match mode {
            Mode::Handler => self.handle.as_ref(),
            // A service starts like a script. So does a program that serves HTTP, unless its runtime does the serving.
            Mode::Script | Mode::Http | Mode::Service => self.run.as_ref(),
        }
    }

    /// Returns the version that a name asks for, if the name belongs to this runtime: `Some(None)` for `python`,
    /// `Some(Some("3.11"))` for `python3.11`.
    #[must_use]
    pub fn version_of<'n>(&self, name: &'n str) -> Option<Option<&'n str>> {
        let version = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        std::iter::once(&self.summary.id)
            .chain(&self.summary.aliases)
            .find_map(|known| name.strip_prefix(known.as_str()).filter(|rest| version(rest)))
            .map(|rest| Some(rest).filter(|rest| !rest.is_empty()))
    }

    /// Returns the declared version that a typed one means: `3.11` for `3.11` and `311`. `Some(None)` is any version:
    /// `3` where all versions begin with it. Absent: there is no such version.
    #[must_use]
    pub fn declared(&self, typed: &str) -> Option<Option<&str>> {
        let mut names = self.summary.versions.iter().map(|version| version.name.as_str());
        // Other systems write versions without a dot, such as Kyma's `python312`.
        let is_meant = |name: &&str| *name == typed || name.replace('.', "") == typed;
        if let Some(name) = names.clone().find(is_meant) {
            return Some(Some(name));
        }
        let begins = |name: &str| name.strip_prefix(typed).is_some_and(|rest| rest.starts_with('.'));
        let any = names.clone().any(begins);
        // If there were another major version too, `python3` as "any version" could start that one.
        (any && names.all(|name| name == DEFAULT || begins(name))).then_some(None)
    }

    /// Returns the public part as fnd tells it: with the interpreters that are tried where no version is requested.
    #[must_use]
    pub fn summary(&self) -> RuntimeSummary {
        let mut summary = self.summary.clone();
        // From the last to the first, so that inserting at the beginning keeps their order.
        for interpreter in self.interpreters.iter().rev() {
            if summary.versions.iter().all(|known| known.interpreter != *interpreter) {
                summary
                    .versions
                    .insert(0, RuntimeVersion::new(DEFAULT.to_owned(), interpreter.clone()));
            }
        }
        summary
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
            let version = RuntimeVersion::new(name.clone(), interpreter.clone());
            self.summary.versions.retain(|known| known.name != *name);
            if name == DEFAULT {
                self.interpreters.insert(0, interpreter.clone());
                self.summary.versions.insert(0, version);
            } else {
                self.summary.versions.push(version);
            }
        }
        // The newest version is first, after the default.
        self.summary
            .versions
            .sort_by_key(|version| std::cmp::Reverse(rank(&version.name)));
    }

    /// Returns the interpreters of a version. Without a version it returns all interpreters, the default ones first.
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

/// Name for an interpreter without a version, which is tried first where no version is requested.
pub const DEFAULT: &str = "default";

/// Returns the sort key of a version: the default is the highest, others are compared by their numbers.
fn rank(name: &str) -> (bool, Vec<u64>) {
    (
        name == DEFAULT,
        // Compared as texts, 3.9 would be newer than 3.11.
        name.split('.').map(|part| part.parse().unwrap_or(0)).collect(),
    )
}
