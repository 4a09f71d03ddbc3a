//! The control server over a real socket, in front of a whole daemon with a spawner that the test plays.
//!
//! Files:
//! - `crowd`: many callers: those that left, those that only follow, those that do not read or say nothing
//! - `described`: the description of the API, and what routes take and answer
//! - `http`: HTTP as bytes
//! - `limits`: what a peer can use up, and clients that break the rules
//! - `roles`: what a caller whose role is for some functions only gets
//! - `routes`: answers and refusals of routes

mod crowd;
mod described;
mod http;
mod limits;
mod roles;
mod routes;

/// The id of no invocation.
const UNKNOWN: &str = "01934567-89ab-7def-8123-000000000404";
