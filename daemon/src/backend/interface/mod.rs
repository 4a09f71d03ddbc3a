//! The interface of the daemon for the routes of the control server: one trait for each resource, in plain types of core. So
//! the server can be tested with a fake daemon (`tests/control/fake`).
//!
//! Files:
//! - `events`: requests about events
//! - `functions`: requests about functions
//! - `invocations`: requests about invocations
//! - `node`: requests about the node
//! - `state`: requests about the state
//! - `streams`: requests for data that is still arriving
//! - `uploads`: requests that change the files of functions

mod events;
mod functions;
mod invocations;
mod node;
mod state;
mod streams;
mod uploads;

pub use events::EventBackend;
pub use functions::FunctionBackend;
pub use invocations::InvocationBackend;
pub use node::NodeBackend;
pub use state::StateBackend;
pub use streams::StreamBackend;
pub use uploads::UploadBackend;

/// The daemon behind the control socket.
pub trait Backend:
    EventBackend + FunctionBackend + InvocationBackend + StreamBackend + NodeBackend + StateBackend + UploadBackend
{
}

impl<T: EventBackend + FunctionBackend + InvocationBackend + StreamBackend + NodeBackend + StateBackend + UploadBackend>
    Backend for T
{
}
