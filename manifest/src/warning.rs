//! The kinds of warnings: where each is shown, and whether the first run of a script waits because of it.
//!
//! The list is closed. [`Diagnostic::warning`](crate::diagnostic::Diagnostic::warning) takes a kind and no text, and the
//! tables here match every kind, so nobody can add a warning without deciding who gets to see it. This module makes no
//! warning.

use crate::words;

words! {
    /// The kind of a warning; its word is the code of the diagnostic.
    pub enum Warning {
        /// The `#!` line names a program that does not run the file.
        Interpreter = "interpreter",
        /// The manifest and the `#!` line name different interpreters.
        TwoInterpreters = "two-interpreters",
        /// A function looks like a handler, and nothing calls it.
        NotCalled = "not-called",
        /// A block of PEP 723, which fnd does not read there.
        ScriptMetadata = "script-metadata",
        /// Permissions of the `#!` line, which a program cannot give itself.
        Permissions = "permissions",
        /// A setting has no effect beside another one.
        Pointless = "pointless",
        /// A line of cron runs in each second of a minute.
        EachSecond = "each-second",
        /// A limit that this machine cannot enforce.
        NotEnforced = "not-enforced",
        /// The files belong to another owner than before, so the function has another home.
        HomeSetAside = "home-set-aside",
        /// One interpreter runs all versions of a language.
        UncheckedVersion = "unchecked-version",
        /// The interpreter has another version than the manifest names.
        OtherVersion = "other-version",
        /// A field of another system's file means nearly the same here.
        ForeignDiffers = "foreign-differs",
        /// A field of another system's file has no effect here.
        ForeignNotHere = "foreign-not-here",
        /// A field of another system's file that this system does not know either.
        ForeignUnknown = "foreign-unknown",
        /// `[hooks]` or `[alert]` calls a function that does not exist.
        NoSuchFunction = "no-such-function",
        /// `[hooks]` or `[alert]` calls a function that the author of the file may not operate.
        NotOperated = "not-operated",
        /// A function is called about its own failures.
        AlertItself = "alert-itself",
        /// The hooks of a function are off, because they are part of a cycle.
        HookCycle = "hook-cycle",
        /// The files of a Python project lie in a directory of functions.
        PythonProject = "python-project",
        /// A file has the name of a function of an earlier directory.
        Shadowed = "shadowed",
        /// A file that no rule makes a function.
        NoFunction = "no-function",
        /// `[runtimes]` names a runtime that does not exist.
        UnknownRuntime = "unknown-runtime",
        /// `[[access]]` names a group or user that this machine does not have.
        UnknownHolder = "unknown-holder",
        /// The group of a working copy can write to a file.
        InsecureMode = "insecure-mode",
    }
}

/// Where a warning is shown. `fndctl validate` shows every warning that needs no running fnd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningPlaces {
    /// In full at its function: `status`, `doctor`, `reload`, `show`.
    Function,
    /// In full in `reload` and `show`; `status` and `doctor` say how many there are. These are fields of other systems' files,
    /// and versions that fnd cannot check: a file may have dozens of them, and for most nobody has to do anything.
    Counted,
    /// As a problem of the node: `status`, `doctor`, `reload`, `fnd_problems`.
    Node,
    /// `status`, `doctor` and `reload` list the file.
    File,
    /// Only in `fndctl validate`: fnd itself refuses the file, or cannot know.
    Validate,
}

impl Warning {
    /// Returns where warnings of this kind are shown.
    #[must_use]
    pub const fn shown(self) -> WarningPlaces {
        match self {
            Self::Interpreter
            | Self::TwoInterpreters
            | Self::NotCalled
            | Self::ScriptMetadata
            | Self::Permissions
            | Self::Pointless
            | Self::EachSecond
            | Self::NotEnforced => WarningPlaces::Function,
            Self::UncheckedVersion | Self::ForeignDiffers | Self::ForeignNotHere | Self::ForeignUnknown => {
                WarningPlaces::Counted
            }
            Self::NoSuchFunction
            | Self::NotOperated
            | Self::AlertItself
            | Self::HookCycle
            | Self::HomeSetAside
            | Self::PythonProject
            | Self::Shadowed
            | Self::UnknownRuntime
            | Self::UnknownHolder => WarningPlaces::Node,
            Self::NoFunction => WarningPlaces::File,
            Self::OtherVersion | Self::InsecureMode => WarningPlaces::Validate,
        }
    }

    /// Says whether the code would do something else than its author probably expects. Such a file does not run by
    /// itself until the file or its manifest says what is meant.
    #[must_use]
    pub const fn holds(self) -> bool {
        match self {
            Self::Interpreter | Self::NotCalled | Self::ScriptMetadata | Self::Permissions | Self::PythonProject => true,
            // The file itself says how the code runs: the manifest has priority over the `#!` line.
            Self::TwoInterpreters
            // A setting has no effect; the code is the one that was saved.
            | Self::Pointless
            | Self::NotEnforced
            // The code is the one that was saved; it finds an empty home.
            | Self::HomeSetAside
            // A schedule has no first run that could wait.
            | Self::EachSecond
            // Without an answer to the question whether it is the right version, waiting would have no end.
            | Self::UncheckedVersion
            | Self::OtherVersion
            // The functions that these systems' files describe do not run when they are saved.
            | Self::ForeignDiffers
            | Self::ForeignNotHere
            | Self::ForeignUnknown
            // The function itself runs as it should; others are not called.
            | Self::NoSuchFunction
            | Self::NotOperated
            | Self::AlertItself
            | Self::HookCycle
            // There is nothing that could run.
            | Self::Shadowed
            | Self::NoFunction
            | Self::UnknownRuntime
            | Self::UnknownHolder
            | Self::InsecureMode => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain;

    #[test]
    fn each_kind_has_a_text() {
        for kind in Warning::ALL {
            assert!(explain::diagnostic(kind.as_str()).is_some(), "{}", kind.as_str());
        }
    }

    /// A warning that makes a script wait must be where its author looks: nobody finds out otherwise why it does not run.
    #[test]
    fn what_holds_a_run_back_is_in_the_status() {
        for kind in Warning::ALL.into_iter().filter(|kind| kind.holds()) {
            assert!(
                matches!(kind.shown(), WarningPlaces::Function | WarningPlaces::Node),
                "{}",
                kind.as_str()
            );
        }
    }
}
