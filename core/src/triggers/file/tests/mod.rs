//! Tests of the machine, with a directory in memory.

use fnd_manifest::function::keys::FileTrigger;
use fnd_manifest::schema::pick::FromValue as _;

pub(super) fn entry(path: &str) -> FileTrigger {
    FileTrigger {
        path: path.to_owned(),
        ..FileTrigger::from_value(None).unwrap()
    }
}
