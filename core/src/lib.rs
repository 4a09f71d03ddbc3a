//! The knowledge and the decisions of fnd, without access to the machine.
//!
//! No I/O, no clock, no randomness, no logging, no locks, no async: the time and the seeded generator are arguments.
//! `fnd` and `fndctl` link this crate. `fnd-spawner`, which runs as root, links only [`fnd_wire`], so that the root
//! program contains no TOML or JSON parser.
//!
//! Files:
//! - `api`: bodies of the API and of status files
//! - `backoff`: the delay before a retry
//! - `check`: judges directories without a daemon
//! - `data`: the bytes of a payload, which core never reads
//! - `diagnostic`: one problem at one place of a file
//! - `examined`: the output of `fnd --examine`
//! - `explain`: the texts of `fndctl explain`
//! - `instant`: writes instants as text
//! - `json`: compacts JSON and measures its depth
//! - `judge`: bytes of files in, plans and documents out
//! - `manifest`: the keys of a function, resolved
//! - `outcome`: classes and reasons of ends, and their words
//! - `protocol`: messages between fnd and a worker
//! - `record`: what is stored of invocations and attempts
//! - `report`: what happened, for people and programs
//! - `runtime`: descriptions of languages
//! - `schema`: tables of keys, and the reader that checks files by them
//! - `settings`: the keys of fnd.toml, resolved
//! - `supervisor`: the state machine that decides everything while fnd runs
//! - `text`: serde forms of wire's types
//! - `trace`: trace contexts of requests and attempts
//! - `words`: the macro for enums whose values are words of the API

pub mod check;
pub mod data;
pub mod diagnostic;
pub mod examined;
pub mod explain;
pub mod instant;
pub mod json;
pub mod judge;
pub mod manifest;
pub mod runtime;
pub mod schema;
pub mod settings;

pub mod api;
pub mod backoff;
pub mod outcome;
pub mod protocol;
pub mod record;
pub mod report;
pub mod supervisor;
pub mod text;
pub mod trace;
mod words;
