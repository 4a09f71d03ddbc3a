//! Tests of the supervisor: a table of cases per rule on a bench, and random events in a small simulated world.
//!
//! Files:
//! - `bench`: events in, actions out as words
//! - `books`: the books of a queue
//! - `canary`: a release that gets a share of the calls
//! - `chain`: functions that call functions
//! - `changes`: each change of a function is reported once
//! - `claims`: claimed before it begins
//! - `clock_steps`: the clock is set
//! - `end_one_call`: one of several calls of a worker ends
//! - `ends`: verdicts, timeout, deadline, cancel
//! - `flow`: groups of functions, and the order of one value of a key
//! - `full`: functions over their quota
//! - `functions`: new, changed and deleted functions
//! - `hooks`: calls that follow an end
//! - `input`: payloads and the schema of the function
//! - `joining`: a request that does not wait shares the invocation of callers who do
//! - `limits`: drain, stop, ten thousand functions
//! - `model`: random events
//! - `nats`: messages that several nodes share
//! - `pool`: workers of handlers
//! - `publish`: events
//! - `queue`: what is accepted
//! - `restart`: what an earlier fnd left
//! - `retry`: retries and polls
//! - `service`: services
//! - `starts`: starts that fail
//! - `takeover`: workers of an earlier fnd
//! - `world`: the simulated world

mod bench;
mod books;
mod canary;
mod chain;
mod changes;
mod claims;
mod clock_steps;
mod end_one_call;
mod ends;
mod flow;
mod full;
mod functions;
mod hooks;
mod input;
mod joining;
mod limits;
mod model;
mod nats;
mod pool;
mod publish;
mod queue;
mod restart;
mod retry;
mod service;
mod starts;
mod takeover;
mod world;
