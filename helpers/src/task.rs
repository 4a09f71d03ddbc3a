//! Reads the command line. Its options are those that `fnd` itself had for these tasks: an older fnd-spawner still uses them.

use crate::{decrypt, find_secret, judge, lambda, measure, unpack, watch};
use fnd_wire::frame::PROTOCOL_MIN;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The task of a process of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Judges manifests, in the form of this protocol of fnd-spawner.
    Judge(u16),
    /// Unpacks the archive on descriptor 0, which ends with this suffix.
    Unpack(String),
    /// Decrypts a secret.
    Decrypt,
    /// Finds a secret in YAML files.
    FindSecret,
    /// Encrypts a value.
    Encrypt,
    /// Makes a key.
    Keygen,
    /// Watches the directories of a function.
    Watch,
    /// Counts the bytes in the home and the cache of a function.
    Measure([PathBuf; 2]),
    /// Serves the function whose `bootstrap` is this file, with at most so many calls at once.
    Lambda(PathBuf, u32),
}

impl Task {
    /// Returns the task that a command line names, given without the program's name; nothing if it names none.
    #[must_use]
    pub fn of(arguments: &[OsString]) -> Option<Self> {
        let (first, rest) = arguments.split_first()?;
        let first = first.to_str()?;
        Some(match (first, rest) {
            // A spawner of the first release names no protocol.
            ("--judge", []) => Self::Judge(PROTOCOL_MIN),
            ("--judge", [protocol]) => Self::Judge(protocol.to_str()?.strip_prefix("--protocol=")?.parse().ok()?),
            ("--decrypt", []) => Self::Decrypt,
            ("--find-secret", []) => Self::FindSecret,
            ("--encrypt", []) => Self::Encrypt,
            ("--keygen", []) => Self::Keygen,
            ("--watch", []) => Self::Watch,
            ("--measure", [home, cache]) => Self::Measure([home.into(), cache.into()]),
            ("--lambda", [entry, concurrency]) => {
                let concurrency = concurrency.to_str()?.parse::<u32>().ok().filter(|calls| *calls > 0)?;
                Self::Lambda(entry.into(), concurrency)
            }
            (_, []) => Self::Unpack(first.strip_prefix("--unpack=")?.to_owned()),
            _ => return None,
        })
    }

    /// Does the task in this process.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        // The program that started this process sees its end and reports it.
        let ended = match self {
            Self::Judge(protocol) => judge::run(*protocol).is_ok(),
            Self::Unpack(suffix) => unpack::run(suffix).is_ok(),
            Self::Decrypt => decrypt::run().is_ok(),
            Self::FindSecret => find_secret::run().is_ok(),
            Self::Encrypt => return decrypt::run_encrypt(),
            Self::Keygen => return decrypt::run_keygen(),
            Self::Watch => return watch::run(),
            Self::Measure(directories) => return measure::run(directories),
            Self::Lambda(entry, concurrency) => return lambda::run(entry, *concurrency),
        };
        if ended { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Task> {
        let words: Vec<_> = line.split_whitespace().map(OsString::from).collect();
        Task::of(&words)
    }

    #[test]
    fn a_command_line_names_one_task_or_none() {
        assert_eq!(of("--judge"), Some(Task::Judge(PROTOCOL_MIN)));
        assert_eq!(of("--judge --protocol=4"), Some(Task::Judge(4)));
        assert_eq!(of("--unpack=.tar.gz"), Some(Task::Unpack(".tar.gz".to_owned())));
        assert_eq!(of("--measure /h /c"), Some(Task::Measure(["/h".into(), "/c".into()])));
        assert_eq!(of("--watch"), Some(Task::Watch));
        assert_eq!(
            of("--lambda /c/bootstrap 4"),
            Some(Task::Lambda("/c/bootstrap".into(), 4))
        );
        for nothing in [
            "",
            "judge",
            "--help",
            "--judge --protocol=x",
            "--judge --protocol",
            "--judge --protocol=4 --watch",
            "--unpack",
            "--measure /h",
            "--watch --decrypt",
            "--lambda /c/bootstrap",
            "--lambda /c/bootstrap 0",
        ] {
            assert_eq!(of(nothing), None, "{nothing}");
        }
    }
}
