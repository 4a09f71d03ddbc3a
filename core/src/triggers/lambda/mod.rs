//! The events and answers of AWS Lambda, for functions that were written for it.
//!
//! Files:
//! - `answer`: reads a result as the answer to a request
//! - `event`: a request as an event, payload 2.0 of API Gateway
//! - `schedule`: a slot of a schedule as an event of EventBridge

mod answer;
mod event;
mod schedule;

pub use answer::{BadAnswer, HttpAnswer, begun, read};
pub use event::event;
pub use schedule::scheduled;

/// The id of the runtime whose functions get these events.
pub const RUNTIME: &str = "lambda";
