//! The stream of happenings, one line each: kept for a while, numbered, and sent to its readers
//! ([`fnd_core::api::stream`]).
//!
//! ```text
//! report event ─▶ Ring (bounded, numbered) ─▶ reader: from a number on, by a filter ─▶ its connection
//!                                              too slow: gets the number it missed
//! ```
//! A reader's only state is a number: a reader delays nothing, and costs only its wake-ups. The stream does not outlive
//! fnd; the history does.
//!
//! Files:
//! - `happening`: a happening in the form in which it is kept
//! - `reader`: a reader of the stream
//! - `ring`: the last happenings, numbered

mod happening;
mod reader;
mod ring;

pub(crate) use happening::{EventKind, Happening};
pub(crate) use reader::subscribe;
pub use reader::{Since, StreamQuery};
pub(crate) use ring::Ring;
