//! What happens, one line each: kept for a while, numbered, and told to whoever reads ([`fnd_core::happening`]).
//!
//! ```text
//! observe (what the supervisor decided) ─▶ Ring (bounded, numbered) ─▶ reader: from a number on, by a filter ─▶ its connection
//!                                                                       too slow: told how many it missed
//! ```
//! A reader is a number: it holds nothing up, and costs nothing but being woken. Nothing here outlives fnd; the history does.

mod happening;
mod reader;
mod ring;

pub(crate) use happening::{Happening, What};
pub(crate) use reader::{Next, news, read, tell};
pub use reader::{Since, StreamQuery};
pub(crate) use ring::Ring;
