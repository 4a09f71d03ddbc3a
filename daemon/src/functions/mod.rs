//! The functions as files: what lies in the functions directories, who has written it, and who waits for it. Which version of a function
//! serves is decided by [`fnd_core::lifecycle`].
//!
//! Files:
//! - `api_sockets`: the sockets at which functions reach the API
//! - `authors`: who answers for a function: root, the owner of its file, or who has uploaded it
//! - `catalog`: watches and scans the functions directories
//! - `directories`: directories that cannot be read
//! - `interpreters`: an interpreter that changes makes a new version
//! - `projects`: Python projects, whose functions do not run by themselves
//! - `reported`: the report of a reload
//! - `retention_policy`: how much history and output are kept
//! - `saved`: the callers who wait until a function serves its files as they are on the disk
//! - `settling`: the callers who wait until everything that a scan saw is installed or refused
//! - `trials`: the callers who wait until it is decided whether newer versions can be loaded

pub(crate) mod api_sockets;
pub(crate) mod authors;
pub mod catalog;
pub(crate) mod directories;
pub(crate) mod interpreters;
mod projects;
pub(crate) mod reported;
pub(crate) mod retention_policy;
pub(crate) mod saved;
mod settling;
pub(crate) mod trials;

use crate::functions::catalog::{Catalog, Unclaimed};
use crate::functions::directories::Unread;
use crate::functions::interpreters::Interpreters;
use crate::ledger::DisabledBy;
use crate::uploads::under_way::Uploading;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::FunctionName;
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::oneshot;

/// The functions directories, and the callers who wait for the files in them.
pub(crate) struct Functions {
    pub(crate) interpreters: Interpreters,
    pub(crate) catalog: Catalog,
    /// The uploads that are under way.
    pub(crate) uploads: Uploading,
    /// Problems that the catalog saw in names and places.
    pub(crate) name_problems: Vec<Diagnostic>,
    /// Directories in which one file imports another.
    pub(crate) projects: Vec<Diagnostic>,
    /// Files that no rule makes a function.
    pub(crate) unclaimed: Unclaimed,
    /// Directories and files that the catalog could not read.
    pub(crate) unread: Unread,
    /// The callers that wait until a scan is over and everything it saw is installed or refused.
    settling: Vec<(u64, oneshot::Sender<()>)>,
    /// The callers who wait until a function serves its files as they are on the disk.
    pub(crate) saved: saved::SavedFiles,
    /// The callers who wait until it is decided whether newer versions can be loaded.
    pub(crate) trials: trials::TrialCallers,
    /// The users who have disabled functions. Whether one is disabled, the supervisor says.
    pub(crate) disabled: BTreeMap<FunctionName, DisabledBy>,
    /// Whether the service manager waits for the end of a reload.
    pub(crate) reloading: bool,
    /// The problems of functions that the last reload, or the first scan, found.
    reported: Option<Rc<reported::Problems>>,
}

impl Functions {
    /// Returns the part before its first scan.
    pub(crate) fn new(catalog: Catalog, disabled: BTreeMap<FunctionName, DisabledBy>) -> Self {
        Self {
            interpreters: Interpreters::new(),
            catalog,
            uploads: Uploading::default(),
            name_problems: Vec::new(),
            projects: Vec::new(),
            unclaimed: Unclaimed::default(),
            unread: Unread::default(),
            settling: Vec::new(),
            saved: saved::SavedFiles::default(),
            trials: trials::TrialCallers::default(),
            disabled,
            reloading: false,
            reported: None,
        }
    }
}

#[cfg(test)]
mod tests;
