//! The files that people write: configuration, manifests, code and descriptions of runtimes; what they may say, and what
//! is wrong with them.
//!
//! Bytes of files go in; plans for the spawner, documents for fnd and diagnostics come out. No clock, no randomness, no
//! logging, no async. Only [`check::Disk`] and [`regular_file`] open files: `fnd-helper --judge` has none.
//!
//! Files:
//! - `check`: judges directories without a daemon
//! - `cron`: lines of cron, and the slots they have
//! - `diagnostic`: one problem at one place of a file
//! - `duration_words`: durations in words, as people write them
//! - `explain`: the keys' and diagnostics' texts of `fndctl explain`
//! - `foreign`: makes functions of other systems' files
//! - `function`: the keys of a function's manifest, resolved
//! - `json_schema`: JSON Schemas of the files, for editors
//! - `json_text`: JSON in the order in which it was written
//! - `judge`: bytes of files in, plans and documents out
//! - `regular_file`: opens what other people own, without waiting for them
//! - `resolve`: makes a function's manifest of its keys, the configuration and its runtime
//! - `runtime`: descriptions of languages
//! - `schema`: tables of keys, and the reader that checks files by them
//! - `settings`: the keys of fnd.toml, resolved
//! - `state_key`: names of the state that functions share
//! - `text`: serde forms of wire's types
//! - `warning`: the kinds of warnings, and where each is shown
//! - `words`: the macros for enums whose values are words, in files and in the API, and for tables of texts

#![warn(missing_docs)]

pub mod check;
pub mod cron;
pub mod diagnostic;
pub mod duration_words;
pub mod explain;
pub mod foreign;
pub mod function;
pub mod json_schema;
pub mod json_text;
pub mod judge;
pub mod regular_file;
pub mod resolve;
pub mod runtime;
pub mod schema;
pub mod settings;
pub mod state_key;
pub mod text;
pub mod warning;
pub mod words;
