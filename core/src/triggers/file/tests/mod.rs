//! Tests of the machine, with a directory in memory.
//!
//! Files:
//! - `disk`: a directory in memory, with the events of its changes
//! - `properties`: random changes, restarts, refusals and ends against the rules
//! - `rules`: one rule a test
//! - `world`: machine, disk and fnd together

mod disk;
mod properties;
mod rules;
mod world;

use fnd_manifest::function::keys::FileTrigger;
use fnd_manifest::schema::pick::FromValue as _;

pub(super) fn entry(path: &str) -> FileTrigger {
    FileTrigger {
        path: path.to_owned(),
        ..FileTrigger::from_value(None).unwrap()
    }
}
