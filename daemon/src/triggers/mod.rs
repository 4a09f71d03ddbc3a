//! What starts functions: the machine's side. Each trigger brings facts, `fnd_core::triggers` decides, and a submission
//! follows.
//!
//! Files:
//! - `http`: the public listener
//! - `passwords`: computes the hashes of callers' passwords
//! - `replays`: remembers admitted signed requests over a restart

pub(crate) mod http;
pub mod passwords;
pub mod replays;
//! What makes functions run besides the control socket: the edges of triggers. They bring facts and submit; what they
//! decide is in core.
//!
//! Files:
//! - `secrets`: the secrets that requests are checked with

pub(crate) mod secrets;
