//! A request to run in HTTP, from its headers to its answer. The API (which functions reach at their sockets, too) and the
//! public listener decide who may call and read their own headers; then both come here.
//!
//! ```text
//! control/routes/invoke.rs ─┐           ┌─▶ read the body ─▶ decide ─▶ payload ─▶ signature ─▶ submit ─▶ wait ─┐
//! public/submission.rs ─────┴─▶ run.rs ─┤                                                                      ├─▶ answer
//!                                       └─▶ decide without the body ─▶ pass the body on as a stream ───────────┘
//! ```
//!
//! Files:
//! - `answer`: translates the end of a run into HTTP
//! - `events`: a request that brings events, and its answer
//! - `payload`: headers and body of a request as payload
//! - `refusal`: requests that were not accepted, functions that are unknown
//! - `run`: the one way from a request to its answer

pub(crate) mod answer;
pub(crate) mod events;
pub(crate) mod payload;
pub(crate) mod refusal;
pub(crate) mod run;
