//! Parts that several verbs share. None of them knows a verb.
//!
//! Files:
//! - `answers`: requests whose answers are read or printed
//! - `backup_entries`: the entries that the archive of a backup may have
//! - `builds`: waits for builds and shows what they print
//! - `candidates`: words that a shell completes
//! - `confirm`: asks on the terminal before something is removed
//! - `conversion`: what became of files of other systems
//! - `copy`: copies the files of a function, and lists directories
//! - `event_words`: events in a few words
//! - `examine`: runs `fnd --examine` for `verify` and `backup`, and asks interpreters for their versions
//! - `filter`: the options that select runs, and pages put together
//! - `flat`: a document as lines of TOML
//! - `input`: the payload of `invoke` from the fields of an input
//! - `names`: names of functions, with patterns
//! - `page`: the program of the web page
//! - `payload`: the payload of `invoke` and `emit`
//! - `random`: names that nobody else has
//! - `releases`: the releases of a function
//! - `reread`: has fnd read secrets and service bindings again
//! - `results`: the result of a run
//! - `run_record`: all about one run
//! - `runs`: the run that an id, the end of one, or `--last` names
//! - `selection`: the options of `status` and `list` that select and sort functions
//! - `source`: the files of a function
//! - `ssh`: the command line of ssh
//! - `state_directory`: the state directory, and its lock
//! - `tables`: tables with a row for each item
//! - `versions`: of client, daemon and spawner
//! - `waiting`: what `invoke` waits for
//! - `watch`: `--watch` of `list` and `status`
//! - `working`: says what is being waited for

pub(crate) mod answers;
pub(crate) mod backup_entries;
pub(crate) mod builds;
pub(crate) mod candidates;
pub(crate) mod confirm;
pub(crate) mod conversion;
pub(crate) mod copy;
pub(crate) mod event_words;
pub(crate) mod examine;
pub(crate) mod filter;
pub(crate) mod flat;
pub(crate) mod input;
pub(crate) mod names;
pub(crate) mod page;
pub(crate) mod payload;
pub(crate) mod random;
pub(crate) mod releases;
pub(crate) mod reread;
pub(crate) mod results;
pub(crate) mod run_record;
pub(crate) mod runs;
pub(crate) mod selection;
pub(crate) mod source;
pub(crate) mod ssh;
pub(crate) mod state_directory;
pub(crate) mod tables;
pub(crate) mod versions;
pub(crate) mod waiting;
pub(crate) mod watch;
pub(crate) mod working;

pub(crate) use fnd_import::quoted;

use crate::exit::{CommandFailure, Exit};
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Returns the failure of an operation on a file.
pub(crate) fn failed(what: &str, path: &Path, error: &Error) -> CommandFailure {
    let help = "run it with sudo: each function's files belong to its own user";
    failed_or_denied(what, path, error, help)
}

/// Returns the failure of an operation on a file; `help` is for a person who may not do it.
pub(crate) fn failed_or_denied(what: &str, path: &Path, error: &Error, help: &str) -> CommandFailure {
    let message = format!("failed to {what} `{}`: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied => CommandFailure::new(Exit::NotAllowed, message).help(help),
        _ => CommandFailure::failed(message),
    }
}
