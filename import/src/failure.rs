//! Why files of other systems could not be read or written.

use fnd_manifest::diagnostic::Diagnostic;

/// The kind of a failure; the caller chooses an exit code by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A file that was named cannot be read or written, or a program that reads it cannot be started.
    Usage,
    /// There is no such unit or crontab.
    NoSuchThing,
    /// Permission is denied.
    NotAllowed,
    /// The content of a file is wrong.
    InvalidManifest,
}

/// A failure, for people.
#[derive(Debug)]
pub struct ImportFailure {
    pub kind: FailureKind,
    /// The problem: lower case, no final period.
    pub message: String,
    pub help: Option<String>,
    pub diagnostics: Vec<Diagnostic>,
}

impl ImportFailure {
    /// Returns a failure without advice.
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            help: None,
            diagnostics: Vec::new(),
        }
    }

    /// Returns a failure about a file that was named.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Returns a failure about the content of a file.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(FailureKind::InvalidManifest, message)
    }

    /// Returns the failure with advice.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
