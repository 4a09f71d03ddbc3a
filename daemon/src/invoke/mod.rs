//! HTTP requests that run a function, from the headers to the answer. The API (which functions also reach at their sockets)
//! and the public listener decide who may call, and read the headers that only they have. Then both call this folder.
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
//! - `payload`: makes a payload of the headers and the body of a request
//! - `refusal`: requests that were not accepted, functions that are unknown
//! - `run`: runs the function of a request, and returns the answer

pub(crate) mod answer;
pub(crate) mod events;
pub(crate) mod payload;
pub(crate) mod refusal;
pub(crate) mod run;
