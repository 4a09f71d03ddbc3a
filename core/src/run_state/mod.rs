//! The state of the machine of runs: functions and their queues, invocations, workers, timers. Conclusions from one of them alone
//! (a place in the queue, a verdict, a record) are here, too.
//!
//! Nothing here knows the supervisor: `run` changes this state and decides what follows.
//!
//! Files:
//! - `changes`: reports the changes of a function before its status
//! - `failure_message`: messages of failures, with the key of the manifest that helps
//! - `function`: the state of one function
//! - `functions`: all functions, and their numbers
//! - `invocation`: one accepted request, until its record
//! - `lanes`: invocations with one value of a key
//! - `queue`: the books of a function's waiting work
//! - `releases`: the release that serves, the one on trial, a canary; what they take of the node's budget
//! - `run_record`: attempts and releases of an earlier fnd, from adoption records
//! - `timers`: all timers, and the next deadline
//! - `verdict`: reason and message of an end
//! - `worker`: one process tree and the attempts in it

pub(crate) mod changes;
pub(crate) mod failure_message;
pub(crate) mod function;
pub(crate) mod functions;
pub(crate) mod invocation;
mod lanes;
pub(crate) mod queue;
pub(crate) mod releases;
pub(crate) mod run_record;
pub(crate) mod timers;
pub(crate) mod verdict;
pub(crate) mod worker;

/// A function's index in the table; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FunctionKey(usize);

/// Converts a number of a manifest, 32 bits wide, to the machine's length type.
pub(crate) fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
