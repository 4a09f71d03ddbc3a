//! Any bytes as the spooled output of an attempt: what is read is within the bounds it states, and read again is the same.
#![no_main]

use fnd_fuzz::directory;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(directory);

fuzz_target!(|bytes: &[u8]| fnd_daemon::fuzzing::spool(DIRECTORY.path(), bytes));
