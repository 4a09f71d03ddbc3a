//! The catalog lists the contents of the functions directories, by names and stat results only. fnd reads no code; the
//! spawner does.
//!
//! A separate thread watches and scans the directories, and tells the driver which functions to install. Events are
//! only hints (the kernel drops and misses some): each leads to a scan, and the comparison of the scan decides.
//!
//! `walk` reads one directory, `presence` decides whether the directory counts, and `scan` compares. `listed_directories`
//! remembers across a restart which directories held functions. `watching` and `mounts` give the hints, `written` knows which
//! files are complete, `marks` whether all hints have arrived, `rescan_timer` says when to scan, and `watch` is the
//! thread.
//!
//! Files:
//! - `listed_directories`: a file that lists the directories that held functions
//! - `marks`: tells when all events of the past have been handled
//! - `mounts`: reports mounts and unmounts, because no inotify event reports a mount over a directory
//! - `presence`: decides whether a functions directory counts
//! - `rescan_timer`: decides when to scan the functions directories, and what the end of a scan means
//! - `scan`: compares the functions directories with the functions reported before
//! - `walk`: reads one functions directory and returns its candidates with the state of their files
//! - `watch`: the catalog's thread
//! - `watching`: watches the directories with inotify, and interprets the events
//! - `written`: tracks which files are complete according to events

mod listed_directories;
mod marks;
mod mounts;
mod presence;
mod rescan_timer;
mod scan;
mod walk;
mod watch;
mod watching;
mod written;

pub use presence::AWAY;
pub use scan::Remembered;
pub(crate) use walk::marked;
pub use walk::{Findings, Unclaimed, WalkRules};
#[cfg(any(test, fuzzing, feature = "simulate"))]
pub(crate) use watch::detached::{CatalogRequest, DetachedCatalog};
pub use watch::{Catalog, CatalogEvent, CatalogPaths, Rescan};
