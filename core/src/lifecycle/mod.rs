//! Decides about the versions of functions: which files are installed, built and checked, and which release serves, gets a share
//! of the calls, is held, or waits. Facts come in as calls of [`Lifecycle`]: files appeared, the spawner has answered, a build
//! has ended, a version serves or cannot be loaded, a person wants another release. [`Order`]s go out. The machine does nothing
//! by itself: it starts no process, reads no file and no clock.
//!
//! Words: the *file* of a function is the source that people wrote, also if it is a directory or an archive. A *copy* is the
//! stored copy of an installed version, which the spawner can install again without the file. A *tree* is a directory with
//! dependencies, with fetched code or with a compiled program. A *lane* is a place where one build runs at a time. A *book* is a
//! table of state.
//!
//! ```text
//!  file ─▶ judging ─┬─ needs a tree ─▶ building ─┬─ built ──▶ judging
//!   ▲               │                            └─ failed ─▶ refused
//!   │ retry, poll   ├─ refused ───────────────────────────▶ refused: the version before serves on
//!   │               └─ good ─┬─ a hold is in force ────────▶ waiting ── hold ends ──▶ (good)
//!   │                        ├─ to be checked ─▶ checking ─┬─ wrong ──▶ refused
//!   │                        │                             └─ passed ─▶ (loading)
//!   │                        ├─ share of the calls ────────▶ canary ─┬─ promoted ─▶ (loading)
//!   │                        │                                       └─ failed, stopped ─▶ waiting
//!   │                        └─ else ─▶ loading ─┬─ loaded ─────▶ serving ── another serves ──▶ retired
//!   │                                            └─ not loaded ─▶ failed: tried again
//!   └── copy of a release ◀── rollback, pin, promotion, new secret, start of fnd
//! ```
//! [`release`] draws the states of one release. *Loading* is the supervisor's part: it starts one worker of the new version and
//! says whether that worker became ready. [`Lifecycle::serving`] says which version serves, and
//! [`Releases::state`](release::Releases::state) says which state a release has.
//!
//! Files with the methods that take facts:
//! - `files`: files that appear, change or disappear, and the requests to install them
//! - `answers`: the spawner's answers about files and copies
//! - `installed`: files and copies that are installed
//! - `refused`: files and copies that cannot be used
//! - `internal_runs`: builds and checks, which run as functions of fnd's own
//! - `clean_builds`: builds from scratch that a person asks for
//! - `people`: what people do with releases
//! - `serving`: versions that serve, get a share of the calls, or cannot be loaded
//! - `disk`: which versions stay on the disk
//! - `tables`: the tables of routes, subscriptions and calls of the versions that serve
//!
//! Files with books:
//! - `all_releases`: the releases of all functions, and the callers who wait for one
//! - `builds`: which dependencies of functions are installed next
//! - `checks`: which files have their syntax checked before they serve
//! - `consumers`: which function has which consumer of NATS, and functions whose consumer belongs to another function
//! - `hooks`: which functions call which, and functions that would close a cycle
//! - `installer`: the queue of functions to install, a bounded number at a time
//! - `registry`: all functions
//! - `release`: the releases of a function: which serves, which is held, what is installed next
//! - `retries`: retries of files that were refused for a reason outside of the file
//! - `routes`: which function has which route, and functions whose route belongs to another function
//! - `sources`: when code that comes from a source is fetched again
//! - `versions`: which installed versions of each function are on the disk, and which of them may be deleted
//! - `waiting_builds`: the files that wait for builds, and the ends of builds
//!
//! Files with values and conversions:
//! - `check_end`: reads the result of a run of checks, and makes problems of it
//! - `function`: a function as it was judged last, and where its files are
//! - `installed_version`: a version with its manifest
//! - `manifest_rules`: makes the rules of the supervisor from a manifest
//! - `order`: the orders that the driver carries out

mod all_releases;
mod answers;
pub mod builds;
mod check_end;
pub mod checks;
mod clean_builds;
mod consumers;
mod disk;
mod files;
pub mod function;
mod hooks;
mod installed;
pub mod installed_version;
pub mod installer;
mod internal_runs;
pub mod manifest_rules;
pub mod order;
mod people;
mod refused;
pub mod registry;
pub mod release;
mod retries;
mod routes;
mod serving;
pub mod sources;
mod tables;
#[cfg(test)]
mod tests;
pub mod versions;
pub mod waiting_builds;

pub use all_releases::{AwaitedRelease, held_words};
pub use answers::InstallAnswer;
pub use check_end::CheckEnd;
pub use function::SourceFiles;
pub use internal_runs::checker;
pub use order::{CallerNumber, InstallResult, Order, UploadSeen};
pub use people::{ChangeResult, ReleaseChange, ReleaseRequest};
pub use refused::diagnostic;
pub use refused::refused_by_0_1;

use crate::access::Author;
use crate::run::Now;
use crate::triggers::event::subscription::Subscriptions;
use all_releases::AllReleases;
use consumers::FunctionConsumers;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use hooks::FunctionHooks;
use installed_version::ServingVersion;
use installer::Installer;
use registry::Registry;
use release::Releases;
use routes::FunctionRoutes;
use sources::Sources;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use versions::Versions;
use waiting_builds::WaitingBuilds;

/// The facts about the node that a decision depends on.
#[derive(Clone, Copy)]
pub struct NodeFacts<'a> {
    /// The name of this machine.
    pub host: &'a str,
    /// The time of the fact that is being handled.
    pub now: Now,
    /// The paths of the functions directories, in their order.
    pub dirs: &'a [String],
    /// Whether the running spawner is that of fnd 0.1, which can neither fetch code nor prepare checks.
    pub is_spawner_of_0_1: bool,
    /// How many trees may be built at once.
    pub lanes: u32,
    /// Returns the largest memory reservation of an internal run, in bytes.
    pub internal_memory: &'a dyn Fn() -> u64,
    /// Returns whether a function has a run that is not over.
    pub is_live: &'a dyn Fn(&FunctionName) -> bool,
    /// Returns whether a run was cancelled and has not ended yet.
    pub is_cancelled: &'a dyn Fn(InvocationId) -> bool,
    /// Finds the author of files; the flag says that root owns all of them.
    pub author: &'a dyn Fn(&SourceFiles, bool) -> Author,
}

/// The versions of a function that the supervisor has besides the one that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Running {
    /// The version on trial, and whether it is to be a canary.
    pub trial: Option<(Version, bool)>,
    /// The version that gets a share of the calls.
    pub canary: Option<Version>,
}

/// A caller who waits until a function is installed or refused.
#[derive(Debug)]
struct BuildCaller {
    function: FunctionName,
    number: CallerNumber,
    /// The cancelled build that was still ending when the caller asked: the caller waits for the next one.
    after: Option<InvocationId>,
    /// The build that the caller has asked for, if it was cancelled and another caller has asked after that.
    cancelled: Option<InvocationId>,
}

/// The life of the versions of all functions.
#[derive(Debug, Default)]
pub struct Lifecycle {
    /// The functions as they were judged last.
    pub registry: Registry,
    /// The files and copies to install.
    pub installer: Installer,
    /// The files that wait for builds.
    pub builds: WaitingBuilds,
    /// The functions whose code is fetched.
    pub sources: Sources,
    /// The releases of the functions.
    pub releases: AllReleases,
    /// The installed versions on the disk.
    pub versions: Versions,
    /// The functions with versions to delete once the ledger has their releases.
    to_prune: BTreeSet<FunctionName>,
    /// The authors of functions that serve; absent: root.
    authors: BTreeMap<FunctionName, Author>,
    routes: FunctionRoutes,
    consumers: FunctionConsumers,
    hooks: FunctionHooks,
    /// The table of the subscriptions that serve; absent: something has changed since it was made.
    subscriptions: Option<Rc<Subscriptions>>,
    /// The warnings of functions whose `[hooks]` or `[alert]` call no function: the called function does not exist, or
    /// the hooks are off.
    to_nobody: BTreeMap<FunctionName, Vec<Diagnostic>>,
    /// The functions whose next installation asks the spawner for a build of their dependencies from scratch, until the spawner has
    /// answered. If the answer does not count, the next installation asks again.
    clean_builds: BTreeSet<FunctionName>,
    /// The trees that are built from scratch, each with the tree that it replaces, if that is known.
    trees_from_scratch: BTreeMap<Version, Option<Version>>,
    /// The functions whose secrets or interpreters have changed. If the file of such a function is refused, the release
    /// that serves is installed again from its copy, so that it gets the new secret or interpreter.
    renewed: BTreeSet<FunctionName>,
    /// Answers of the spawner about files, by request, until the catalog has said whether the files are still the same.
    judged: HashMap<u32, InstallAnswer>,
    /// The callers who wait until a function is installed or refused.
    build_callers: Vec<BuildCaller>,
    /// Whether the directories have been quiet since the last change in them.
    quiet: bool,
    /// Whether a version was installed since the supervisor learned last that the directories are quiet.
    unsettled: bool,
}

impl Lifecycle {
    /// Returns the machine before the first scan, with the releases and the installed versions that the ledger knows. `real`
    /// finds the real path of an interpreter, or returns the path as it is.
    #[must_use]
    pub fn new(releases: Vec<(FunctionName, Releases)>, versions: Versions, real: fn(&str) -> String) -> Self {
        Self {
            registry: Registry::new(real),
            releases: AllReleases::new(releases),
            versions,
            ..Self::default()
        }
    }

    /// Returns the author of a function that exists.
    #[must_use]
    pub fn author(&self, function: &FunctionName) -> Author {
        self.authors.get(function).copied().unwrap_or(Author::Root)
    }

    /// Returns the functions of authors other than root.
    pub fn of_others(&self) -> impl Iterator<Item = &FunctionName> {
        self.authors.keys()
    }

    /// Returns the version of a function that serves.
    #[must_use]
    pub fn serving(&self, name: &FunctionName) -> Option<&ServingVersion> {
        let function = self.registry.get(name)?;
        // Another version than the newest serves only while the newest one is on trial.
        let before = function.before.as_ref().and_then(|_| self.live(name));
        function.serving(before)
    }

    /// Says whether the ledger has a serving release of a function that could not be installed since fnd started. fnd
    /// tries again to install it.
    #[must_use]
    pub fn lacks_release(&self, name: &FunctionName) -> bool {
        let stored = self.releases.get(name).and_then(Releases::serving);
        stored.is_some() && self.serving(name).is_none()
    }

    /// Returns the version of a function that serves, if it has begun to serve since fnd started.
    #[must_use]
    pub fn live(&self, name: &FunctionName) -> Option<Version> {
        let releases = self.releases.get(name)?;
        releases.serving().filter(|serving| releases.is_live(*serving))
    }

    /// Returns the releases to store, and answers the callers whose release can no longer come.
    pub fn take_changed(&mut self, out: &mut Vec<Order>) -> Vec<(FunctionName, Option<String>)> {
        self.releases.answer_unwanted(out);
        self.releases.take_changed()
    }

    /// Forgets the callers who have left.
    pub fn forget_callers(&mut self, has_left: impl Fn(CallerNumber) -> bool) {
        self.releases.forget_callers(&has_left);
        self.build_callers.retain(|caller| !has_left(caller.number));
    }
}
