//! A request to run in HTTP: its payload, its answer, its refusal. The control API and the public listener share it.
//!
//! Files:
//! - `answer`: translates the end of a run into HTTP
//! - `events`: a request that brings events, and its answer
//! - `payload`: the body as payload
//! - `refusal`: requests that were not accepted, functions that are unknown

pub(crate) mod answer;
pub(crate) mod events;
pub(crate) mod payload;
pub(crate) mod refusal;
