//! What triggers decide. A trigger makes one submission; what follows is the same for every trigger.
//!
//! Files:
//! - `credentials`: whether a caller proves that it knows a secret
//! - `replay_file`: the bytes of the file that remembers admitted requests
//! - `replays`: which signed requests were admitted

pub mod credentials;
pub mod replay_file;
pub mod replays;
