//! A function that is resolved: facts that are not keys, and its problems.

use crate::diagnostic::Diagnostic;
use crate::function::Mode;
use crate::runtime::Runtime;
use crate::schema::source::Source;
use crate::schema::tree::TomlPosition;
use std::collections::BTreeMap;

/// Problems of a function, with the sources to which they refer.
#[derive(Debug)]
pub struct FunctionProblems<'a> {
    /// The sources, indexed by [`TomlPosition::source`].
    pub sources: &'a [&'a Source],
    /// The problems, in the order in which they were found.
    pub problems: Vec<Diagnostic>,
    /// Whether the function is a stored version, and not a file that people wrote.
    pub is_stored: bool,
}

impl FunctionProblems<'_> {
    /// Adds a problem at a value; without a value the problem concerns the whole function.
    pub fn add(&mut self, at: Option<&TomlPosition>, problem: Diagnostic) {
        let source = at.and_then(|at| Some((self.sources.get(at.source)?, at)));
        self.problems.push(match source {
            Some((source, at)) => problem.at(source, at.value.clone()),
            None => problem,
        });
    }

    /// Adds an error at a value, with its help.
    pub fn error(
        &mut self,
        at: Option<&TomlPosition>,
        code: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(at, Diagnostic::error(code, message).with_help(help));
    }

    /// Adds the error that a value cannot stand beside others, with its help.
    pub fn impossible(&mut self, at: Option<&TomlPosition>, message: impl Into<String>, help: impl Into<String>) {
        self.error(at, "impossible", message, help);
    }

    /// Adds a problem of a whole file, with its help.
    pub fn in_file(&mut self, file: &str, problem: Diagnostic, help: impl Into<String>) {
        self.problems.push(problem.in_file(file).with_help(help));
    }

    /// Says whether one of the problems is an error.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.problems.iter().any(Diagnostic::is_error)
    }

    /// Says whether one of the problems means that the author probably expects something else of the file than a script.
    #[must_use]
    pub fn doubtful(&self) -> bool {
        self.problems.iter().any(Diagnostic::is_doubt)
    }
}

/// Facts about a function that are not keys of its manifest.
#[derive(Debug)]
pub struct ResolvedSubject<'a> {
    /// How the function is run.
    pub mode: Mode,
    /// Whether its runtime serves HTTP for it (`export default { fetch }`).
    pub serves: bool,
    /// Its runtime.
    pub runtime: &'a Runtime,
    /// The path of the file that runs.
    pub path: &'a str,
    /// The file that runs, relative to the code directory.
    pub entry: String,
    /// Variables of its `env_file`.
    pub env_file: BTreeMap<String, String>,
    /// Whether root owns its code and manifest.
    pub trusted: bool,
}
