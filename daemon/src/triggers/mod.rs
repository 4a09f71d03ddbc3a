//! What triggers need of the machine. What they decide is in `fnd_core::triggers`.
//!
//! Files:
//! - `passwords`: computes the hashes of callers' passwords
//! - `replays`: remembers admitted signed requests over a restart

pub mod passwords;
pub mod replays;
