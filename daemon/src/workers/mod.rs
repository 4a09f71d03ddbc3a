//! What is attached to running workers.

pub mod output;
pub mod spawner;
pub mod usage;
