//! The conformance suite: every runtime's shim, driven over a socket as fnd does (`runtimes/PROTOCOL.md`).
//!
//! It tests the runtimes of `runtimes/` and `examples/runtimes/`, the one of docs/new-runtime.md, and those in the directories
//! of `FND_CONFORMANCE`. Each runtime has the same functions, in `functions/ID`. If an optional function is missing, the
//! runtime does not support its feature.
#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

mod answers;
mod form_bodies;
mod form_express;
mod form_java;
mod form_kubeless;
mod form_kyma;
mod form_python;
mod form_python_load;
mod form_python_rafay;
mod form_rafay;
mod form_refused;
mod form_request;
mod forms;
mod javascript_process;
mod lambda;
mod life;
mod python_process;
mod round_trip;
mod runtimes;
mod worker;
