//! The exit codes of `fndctl`, and the failure that carries one.

use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::outcome::{Class, Reason};
use fnd_core::remedy::remedy;
use fnd_manifest::diagnostic::Diagnostic;
use std::process::ExitCode;

/// An exit code; the numbers are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Fine = 0,
    /// The function failed, was cancelled or skipped; fnd itself failed at a request; or `doctor` found an error.
    FunctionFailed = 1,
    /// The command line, a file named on it, or a value in it is wrong. clap's own errors end with this, too.
    Usage = 2,
    /// No such function or invocation, or this fnd does not support it yet.
    NoSuchThing = 3,
    /// No daemon answers on the socket.
    NotReachable = 4,
    /// The socket's mode or the user's role does not allow it.
    NotAllowed = 5,
    /// The function's timeout, or that of a wait, is over; the message says which.
    Timeout = 6,
    /// Queue full, rate, overlap, another version of a key of the state, or fnd cannot run anything now; a later try may succeed.
    Busy = 7,
    /// A manifest is invalid.
    InvalidManifest = 8,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Returns the exit code for an error code of the API. An ended invocation with an error code has failed, whatever
    /// the reason.
    #[must_use]
    pub(crate) fn of(code: Code) -> Self {
        match code {
            Code::BadRequest
            | Code::BadJson
            | Code::MethodNotAllowed
            | Code::TooLarge
            | Code::Unprocessable
            | Code::Input
            | Code::KeyReused
            | Code::HeadersTooLarge => Self::Usage,
            Code::NotAllowed | Code::Unauthorized | Code::ChainTooLong | Code::NotUploaded => Self::NotAllowed,
            Code::NotFound | Code::NotConfigured | Code::NotSupportedYet | Code::NotKept => Self::NoSuchThing,
            Code::Timeout | Code::SlowRequest | Code::NotEnded => Self::Timeout,
            Code::QueueFull
            | Code::Rate
            | Code::Overlap
            | Code::Replayed
            | Code::Conflict
            | Code::WaitsForItself
            | Code::Unavailable
            | Code::TooManyConnections => Self::Busy,
            Code::Invalid | Code::InvalidManifest => Self::InvalidManifest,
            Code::FunctionFailed
            | Code::Cancelled
            | Code::Internal
            | Code::BadAnswer
            | Code::Disabled
            | Code::Release
            | Code::Skipped
            | Code::CouldNotRun
            | Code::StateFull
            | Code::OverQuota => Self::FunctionFailed,
        }
    }

    /// Returns this verdict once its report was printed. The verdict also stands if the reader of standard output left, as
    /// `head` does: `fndctl validate | head` must not call an invalid manifest fine.
    ///
    /// # Errors
    /// Standard output cannot be written for another reason.
    pub(crate) fn after(self, printed: Result<(), CommandFailure>) -> Result<Self, CommandFailure> {
        match printed {
            Err(failure) if failure.exit != Self::Fine => Err(failure),
            Ok(()) | Err(_) => Ok(self),
        }
    }
}

/// Why a command did not succeed, for people.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) exit: Exit,
    /// The problem: lower case, no final period. Empty where everything was printed already.
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// Problems of files, printed before the message.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The name of a function that does not exist; before the failure is printed, it is compared with those that exist.
    pub(crate) unknown: Option<String>,
}

impl CommandFailure {
    /// Returns a failure without advice.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            help: None,
            diagnostics: Vec::new(),
            unknown: None,
        }
    }

    /// Returns a failure for which no other exit code stands.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::FunctionFailed, message)
    }

    /// Returns a failure of the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Returns the failure with advice.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<Problem> for CommandFailure {
    fn from(problem: Problem) -> Self {
        // A newer fnd may have a code that this fndctl does not know.
        let exit = Code::parse(&problem.code).map_or(Exit::FunctionFailed, Exit::of);
        let never_started = problem.reason.is_some_and(|reason| reason.class() == Class::Skipped);
        // With an id, the problem is about a run of that function.
        let unknown = problem
            .function
            .as_ref()
            .filter(|_| exit == Exit::NoSuchThing && problem.invocation.is_none());
        let unknown = unknown.map(ToString::to_string);
        // The words of an interpreter often do not say what helps.
        let remedy = problem.reason.and_then(|reason| remedy(reason, &problem.detail));
        let message = match (&problem.function, problem.reason) {
            (Some(function), Some(reason)) if never_started => {
                format!("`{function}` was skipped (`{reason}`): {}", problem.detail)
            }
            // A sentence that names the function already needs no second name.
            (Some(function), Some(reason))
                if !problem.detail.contains(&format!("`{function}`"))
                    && !problem.detail.starts_with("the invocation ") =>
            {
                format!("`{function}` ended with `{reason}`: {}", problem.detail)
            }
            _ => problem.detail,
        };
        let mut failure = Self::new(exit, message);
        failure.unknown = unknown;
        if let (false, Some(function)) = (problem.input.is_empty(), &problem.function) {
            failure.help = Some(format!("`fndctl show {function}` lists the fields of its input"));
        }
        if !problem.diagnostics.is_empty() {
            failure.message = "nothing was changed, since fnd refuses the files".to_owned();
            failure.diagnostics = problem.diagnostics;
        }
        if let Some(id) = problem
            .invocation
            // A run that was skipped has printed nothing.
            .filter(|_| problem.reason.is_some() && !never_started)
        {
            let output = match (problem.reason, &problem.function) {
                // A process is loaded for many runs, so what it printed belongs to none.
                (Some(Reason::Load), Some(function)) => {
                    format!("fndctl logs {function} shows what it printed while it was loaded")
                }
                _ => format!("fndctl logs --id {id} shows its output"),
            };
            failure.help = Some(remedy.map_or_else(|| output.clone(), |remedy| format!("{remedy}; {output}")));
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::ids::{FunctionName, InvocationId};

    #[test]
    fn the_help_leads_to_what_was_printed() {
        let function = FunctionName::new("web/hello").unwrap();
        for (reason, expected) in [
            (
                Reason::Exit(3),
                format!("fndctl logs --id {} shows its output", InvocationId(7)),
            ),
            (
                Reason::Load,
                "fndctl logs web/hello shows what it printed while it was loaded".to_owned(),
            ),
        ] {
            let problem = Problem::new(Code::FunctionFailed, "it is broken");
            let problem = problem.of(&function).in_invocation(InvocationId(7), Some(reason));
            assert_eq!(CommandFailure::from(problem).help, Some(expected));
        }
    }

    #[test]
    fn exit_codes_never_change() {
        for (code, exit) in [
            (Code::FunctionFailed, 1),
            (Code::Cancelled, 1),
            (Code::Skipped, 1),
            (Code::BadJson, 2),
            (Code::NotFound, 3),
            (Code::NotConfigured, 3),
            (Code::NotAllowed, 5),
            (Code::Timeout, 6),
            (Code::QueueFull, 7),
            (Code::Conflict, 7),
            (Code::StateFull, 1),
            (Code::OverQuota, 1),
            (Code::Rate, 7),
            (Code::Invalid, 8),
        ] {
            assert_eq!(Exit::of(code) as u8, exit, "{}", code.as_str());
        }
    }
}
