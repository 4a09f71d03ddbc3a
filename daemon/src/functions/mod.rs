//! From files to installed versions: what the catalog sees and the spawner answers becomes a list of changes for the driver.
//!
//! Files:
//! - `api_sockets`: the sockets at which functions reach the API
//! - `authors`: who answers for a function: root, the owner of its file, or who has uploaded it
//! - `catalog`: watches and scans the functions directories
//! - `dependencies`: functions whose dependencies are being installed, or could not be
//! - `directories`: directories that cannot be read
//! - `hooks`: which functions call which, and functions that would close a cycle
//! - `install`: what follows from the spawner's and the catalog's answers, as a list of changes
//! - `interpreters`: an interpreter that changes makes a new version
//! - `projects`: Python projects, whose functions do not run by themselves
//! - `registry`: each function's newest content and the version that serves
//! - `releases`: the releases of all functions, and the copies that are to be installed
//! - `reported`: the report of a reload
//! - `retention_policy`: how much history and output are kept
//! - `routes`: the table of routes, and functions whose route another one or `[http] events` has
//! - `rules`: what the supervisor has to know of a manifest
//! - `saved`: the callers who wait until a function serves its files as they are on the disk
//! - `subscriptions`: the table of subscriptions to events
//! - `syntax`: files whose syntax is checked before they serve, and what a failed check says

pub(crate) mod api_sockets;
mod authors;
pub mod catalog;
pub(crate) mod dependencies;
pub(crate) mod directories;
pub(crate) mod hooks;
pub(crate) mod install;
pub(crate) mod interpreters;
mod projects;
pub mod registry;
pub(crate) mod releases;
mod reported;
pub(crate) mod retention_policy;
pub(crate) mod routes;
pub mod rules;
pub(crate) mod saved;
mod subscriptions;
pub(crate) mod syntax;

use crate::functions::catalog::{Catalog, Unclaimed};
use crate::functions::directories::Unread;
use crate::functions::install::Judged;
use crate::functions::interpreters::Interpreters;
use crate::functions::registry::Registry;
use crate::uploads::under_way::Uploading;
use fnd_core::access::Author;
use fnd_core::lifecycle::installer::Installer;
use fnd_core::lifecycle::release::Releases;
use fnd_core::lifecycle::sources::Sources;
use fnd_core::lifecycle::versions::Versions;
use fnd_core::triggers::event::subscription::Subscriptions;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use tokio::sync::oneshot;

/// The functions: their files, installations and versions.
pub(crate) struct Functions {
    pub(crate) registry: Registry,
    pub(crate) interpreters: Interpreters,
    pub(crate) installer: Installer,
    pub(crate) versions: Versions,
    pub(crate) releases: releases::FunctionReleases,
    /// The authors of functions that serve; absent: root.
    authors: BTreeMap<FunctionName, Author>,
    pub(crate) routes: routes::FunctionRoutes,
    /// The table of the subscriptions that serve; absent: something has changed since it was made.
    subscriptions: Option<Rc<Subscriptions>>,
    pub(crate) hooks: hooks::FunctionHooks,
    pub(crate) sources: Sources,
    /// The functions whose dependencies are built anew by their next installation.
    pub(crate) rebuilt: BTreeSet<FunctionName>,
    /// Whether the directories have been quiet since the last change in them.
    quiet: bool,
    /// Whether a version was installed since the supervisor learned that they are quiet.
    unsettled: bool,
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
    /// Answers of the spawner about files that may have changed since it read them, by request.
    pub(crate) judged: HashMap<u32, Judged>,
    /// The callers that wait until a scan is over and everything it saw is installed or refused.
    pub(crate) settling: Vec<(u64, oneshot::Sender<()>)>,
    /// The callers who wait until a function is installed, or cannot be.
    pub(crate) build_callers: Vec<(FunctionName, oneshot::Sender<Result<(), String>>)>,
    /// The callers who wait until a function serves its files as they are on the disk.
    pub(crate) saved: saved::SavedFiles,
    /// Whether the service manager waits for the end of a reload.
    pub(crate) reloading: bool,
    /// The functions whose calls reach nobody, with the warnings about that.
    to_nobody: BTreeMap<FunctionName, Vec<Diagnostic>>,
    /// The problems of functions that the last reload, or the first scan, found.
    reported: reported::Problems,
}

impl Functions {
    /// Returns the part before its first scan. `versions` are the installed versions that the history knows.
    pub(crate) fn new(catalog: Catalog, versions: Versions) -> Self {
        Self {
            registry: Registry::default(),
            interpreters: Interpreters::new(),
            installer: Installer::default(),
            versions,
            releases: releases::FunctionReleases::default(),
            authors: BTreeMap::new(),
            routes: routes::FunctionRoutes::default(),
            subscriptions: None,
            hooks: hooks::FunctionHooks::default(),
            to_nobody: BTreeMap::new(),
            sources: Sources::default(),
            rebuilt: BTreeSet::new(),
            quiet: false,
            unsettled: false,
            catalog,
            uploads: Uploading::default(),
            name_problems: Vec::new(),
            projects: Vec::new(),
            unclaimed: Unclaimed::default(),
            unread: Unread::default(),
            judged: HashMap::new(),
            settling: Vec::new(),
            build_callers: Vec::new(),
            saved: saved::SavedFiles::default(),
            reloading: false,
            reported: reported::Problems::default(),
        }
    }

    /// Adds the releases that the history knows.
    pub(crate) fn with_releases(self, stored: Vec<(FunctionName, Releases)>) -> Self {
        let releases = releases::FunctionReleases::new(stored);
        Self { releases, ..self }
    }
}

#[cfg(test)]
mod tests;
