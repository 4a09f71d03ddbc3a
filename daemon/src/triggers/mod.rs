//! What triggers need of the machine. What they decide is in `fnd_core::triggers`.
//!
//! Files:
//! - `passwords`: computes the hashes of callers' passwords

pub mod passwords;
