//! What triggers decide. A trigger makes one submission; what follows is the same for every trigger.
//!
//! Files:
//! - `credentials`: whether a caller proves that it knows a secret

pub mod credentials;
