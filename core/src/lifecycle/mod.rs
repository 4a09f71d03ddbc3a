//! The life of the versions of a function: which files are installed, built and checked, and which release serves. It does
//! nothing of this by itself.
//!
//! Files:
//! - `builds`: which dependencies of functions are installed next
//! - `checks`: which files have their syntax checked before they serve
//! - `installer`: the queue of functions to install, a bounded number at a time
//! - `release`: the releases of a function: which serves, which is held, what is installed next
//! - `retries`: retries of files that were refused for a reason outside of the file
//! - `source_files`: where the files of a function are
//! - `sources`: when code that comes from a source is fetched again
//! - `waiting_builds`: the files that wait for builds, and the ends of builds
//! - `versions`: which installed versions of each function are on the disk, and which of them may be deleted

pub mod builds;
pub mod checks;
pub mod installer;
pub mod release;
mod retries;
mod source_files;
pub mod sources;
pub mod versions;
pub mod waiting_builds;

pub use source_files::SourceFiles;
