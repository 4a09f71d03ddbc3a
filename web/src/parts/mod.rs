//! Parts of several pages. Everything here is pure: data in, markup out.
//!
//! Files:
//! - `actions`: buttons that change something, each with the line of `fndctl` that does the same
//! - `ansi`: the colours of a program's output
//! - `chart`: pictures of numbers
//! - `diff`: what differs between two releases
//! - `fields`: the form "Run", made of the schema of a function's input
//! - `filters`: the filters of a page, and the addresses that contain them
//! - `frame`: the document around a page
//! - `output`: lines of a program's output
//! - `tables`: tables, terms, and the states in them
//! - `text`: instants, durations, sizes and counts

pub(crate) mod actions;
pub(crate) mod ansi;
pub(crate) mod chart;
pub(crate) mod diff;
pub(crate) mod fields;
pub(crate) mod filters;
pub(crate) mod frame;
pub(crate) mod output;
pub(crate) mod tables;
pub(crate) mod text;
