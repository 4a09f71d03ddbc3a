//! What starts functions: each trigger's decisions, pure. The daemon's side brings facts and submits.
//!
//! Files:
//! - `route`: which route of the public listener a request is for, and whether it runs anything

pub mod route;
