//! The client of the control socket, for `fndctl` and `fnd-web`. It prints nothing and reads no command line.
//!
//! Files:
//! - `client`: requests to the control socket
//! - `failure`: why a request has no good answer

pub mod client;
pub mod failure;
