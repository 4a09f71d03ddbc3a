//! What lies in the functions directories: names and stat results only. fnd reads no code; the spawner does.
//!
//! A thread of its own watches and scans, and tells the driver what to look at. Events are hints (the kernel drops and
//! misses some): each leads to a scan, and the scan's comparison decides.
//!
//! `walk` reads one directory, `presence` says whether it counts, `scan` compares; `held` remembers over a restart which directories
//! held functions. `watching` and `mounts` give the hints, `written` which files are complete, `rescan_timer` says when to look, `watch` is the thread. `versions` is about what
//! is installed.

mod held;
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
pub use watch::{Catalog, CatalogEvent, Rescan};
