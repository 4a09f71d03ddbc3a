//! A unit, the machine that it is for, and the function that is made of it, on its way.

use super::exec::Exec;
use super::parse::Specifiers;
use crate::script::{ReadScript, ScriptCode};
use crate::text::ImportText;
use crate::users::ImportedUsers;
use fnd_manifest::foreign::{ConversionReport, Field, MadeManifest};
use std::time::Duration;
use toml::Value;

/// A unit: its file, and its drop-ins.
#[derive(Debug)]
pub(super) struct Unit {
    /// `backup@db.service`.
    pub(super) name: String,
    pub(super) text: ImportText,
    pub(super) drop_ins: Vec<ImportText>,
}

impl Unit {
    /// Returns the file and its drop-ins, in the order in which they count.
    pub(super) fn texts(&self) -> impl Iterator<Item = &ImportText> {
        std::iter::once(&self.text).chain(&self.drop_ins)
    }
}

/// The facts about the machine.
#[derive(Clone, Copy)]
pub(super) struct SystemdMachine<'a> {
    pub(super) script: ReadScript,
    pub(super) users: ImportedUsers,
    /// The user of a unit that names none.
    pub(super) user: &'a str,
    /// Reads a file of variables, and says whether everybody may read it.
    pub(super) read: &'a dyn Fn(&str) -> Option<(String, bool)>,
    /// Returns the home of a user.
    pub(super) home: &'a dyn Fn(&str) -> Option<String>,
}

/// When a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnitStep {
    Condition,
    Before,
    Start,
    After,
}

/// A function on its way.
pub(super) struct UnitImport<'a> {
    pub(super) made: MadeManifest,
    pub(super) report: ConversionReport,
    pub(super) specifiers: Specifiers,
    pub(super) code: ScriptCode,
    /// Whether it is kept running.
    pub(super) service: bool,
    /// Whether it runs when something starts the unit, and nothing of the unit has said yet when that is.
    pub(super) starts: bool,
    pub(super) machine: SystemdMachine<'a>,
    pub(super) steps: Vec<(UnitStep, Exec, Field)>,
    /// Its directory, and whether it may be missing.
    pub(super) directory: Option<(String, bool)>,
    pub(super) umask: Option<String>,
    pub(super) groups: Vec<Value>,
    pub(super) hide: Vec<Value>,
    /// The pause before it is started again.
    pub(super) pause: Option<Duration>,
    /// Whether that pause grows.
    pub(super) grows: bool,
}
