//! The knowledge and the decisions of fnd, without access to the machine.
//!
//! No I/O, no clock, no randomness, no logging, no locks, no async: the time and the seeded generator are arguments.
//! `fnd` and `fndctl` link this crate. The files that people write are judged by [`fnd_manifest`].
//!
//! Files:
//! - `access`: what a caller of the control socket may do
//! - `api`: bodies of the API and of status files
//! - `audit`: what callers of the control socket did, and what was refused to them
//! - `backoff`: the delay before a retry
//! - `data`: the bytes of a payload, which core reads only for values at a place
//! - `durations`: the last durations, and their quantiles
//! - `verify_report`: the output of `fnd --examine`
//! - `explain`: the reasons' texts of `fndctl explain`
//! - `glob`: patterns with `*`
//! - `hours`: how many invocations ended in each of the last hours
//! - `idempotency`: what makes two requests the same one
//! - `instant`: writes instants as text
//! - `input`: the fields of a function's input, by its JSON Schema
//! - `json`: compacts JSON and measures its depth
//! - `lifecycle`: the life of the versions of a function
//! - `mask`: masks the values of secrets in what is kept and shown
//! - `messages`: the events and actions of the machine of runs
//! - `mutants`: faults that the simulation of the daemon has to find
//! - `node_problems`: the codes of problems of the node, and what each means
//! - `path_steps`: the directories that a path leads through
//! - `places`: values at places of a request or a payload
//! - `quota`: quotas of home and cache
//! - `interned`: values that many functions have alike, stored once
//! - `records`: what is stored of invocations and attempts, and what travels with them
//! - `remedy`: the remedy for the message of a failed run
//! - `report`: what happened, for people and programs
//! - `run`: the machine of runs, functions and workers: the supervisor
//! - `run_state`: the state of that machine
//! - `kv`: what a change of a key of the state needs, and what it leads to
//! - `trace`: trace contexts of requests and attempts
//! - `triggers`: what each kind of trigger decides before it submits

#![warn(missing_docs)]

pub mod access;
pub mod api;
pub mod audit;
pub mod backoff;
pub mod data;
pub mod durations;
pub mod explain;
pub mod glob;
pub mod hours;
pub mod idempotency;
pub mod input;
pub mod instant;
pub mod interned;
pub mod json;
pub mod kv;
pub mod lifecycle;
pub mod mask;
mod messages;
#[cfg(feature = "simulate")]
pub mod mutants;
pub mod node_problems;
pub mod path_steps;
pub mod places;
pub mod quota;
pub mod records;
pub mod remedy;
pub mod report;
pub mod run;
mod run_state;
pub mod trace;
pub mod triggers;
pub mod verify_report;
