//! Records: what is stored of invocations and attempts, and what travels with them. The supervisor produces them, the
//! ledger stores them, triggers and the API read them; they know none of these.
//!
//! Wall-clock instants are Unix milliseconds, durations are microseconds, sizes are bytes.
//!
//! Files:
//! - `accepted`: an invocation as it is first stored, and whether it may become a dead letter
//! - `attempt`: an ended attempt, and what it used
//! - `attributes`: the attributes of an event
//! - `caller`: the caller of the control socket that has asked for a run
//! - `cause`: what made a trigger run a function, beside the payload
//! - `invocation`: the state of an invocation, final or not
//! - `marks`: what is remembered of schedules, files and messages with an invocation
//! - `outcome`: classes and reasons of ends, and their words
//! - `payload`: the input of an invocation, and its result
//! - `place`: the value of `[queue] key` in a payload
//! - `protocol`: messages between fnd and a worker

mod accepted;
mod attempt;
mod attributes;
mod caller;
pub mod cause;
mod invocation;
mod marks;
pub mod outcome;
mod payload;
mod place;
pub mod protocol;

pub use accepted::{Accepted, may_become_dead_letter};
pub use attempt::{AttemptRecord, Usage, UsageSum};
pub use attributes::Attributes;
pub use caller::Caller;
pub use invocation::{InvocationFilter, InvocationRecord, Unfinished};
pub use marks::{FileMark, LastSlot, MessageMark, SeenFile, StreamPlace};
pub use payload::{Payload, Response, RunResult};
