//! What makes functions run besides the control socket: the edges of triggers. They bring facts and submit; what they
//! decide is in core.
//!
//! Files:
//! - `secrets`: the secrets that requests are checked with

pub(crate) mod secrets;
