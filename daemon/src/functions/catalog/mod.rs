//! The catalog lists the contents of the functions directories, by names and stat results only. fnd reads no code; the
//! spawner does.
//!
//! A separate thread watches and scans the directories, and tells the driver which functions to install. Events are
//! only hints (the kernel drops and misses some): each leads to a scan, and the comparison of the scan decides.
//!
//! `walk` reads one directory, `presence` decides whether the directory counts, and `scan` compares. `held` remembers
//! across a restart which directories held functions. `watching` and `mounts` give the hints, `written` knows which
//! files are complete, `marks` whether all hints have arrived, `rescan_timer` says when to scan, and `watch` is the
//! thread. `versions` tracks the installed versions.

mod held;
mod marks;
mod mounts;
mod presence;
mod rescan_timer;
mod scan;
mod versions;
mod walk;
mod watch;
mod watching;
mod written;

pub use presence::AWAY;
pub use scan::Candidate;
pub use versions::Versions;
pub use walk::Rules;
pub use watch::{Catalog, CatalogEvent, Places, Rescan};
