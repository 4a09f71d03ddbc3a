//! The pages of the documents, as tests read them: on this machine, and in a virtual machine with systemd.
//!
//! Files:
//! - `blocks`: fenced blocks, and what is done with each
//! - `commands`: commands and what they print
//! - `values`: values that differ from run to run

pub mod blocks;
pub mod commands;
mod values;
