//! What lies in the functions directories: names and stat results only. fnd reads no code; the spawner does.
//!
//! A thread of its own watches and scans, and tells the driver what to look at. Events are hints (the kernel drops and
//! misses some): each leads to a scan, and the scan's comparison decides.

mod pace;
mod scan;
mod versions;
mod walk;
mod watch;
mod watching;

pub use scan::Candidate;
pub use versions::Versions;
pub use walk::Rules;
pub use watch::{Catalog, CatalogEvent};
