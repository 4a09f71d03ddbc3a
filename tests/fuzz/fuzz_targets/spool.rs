//! Any bytes as the spooled output of an attempt: the lines read are within the stated bounds, and a second read gives
//! the same lines.
#![no_main]

use fnd_fuzz::directory;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(directory);

fuzz_target!(|bytes: &[u8]| fnd_daemon::fuzzing::spool(DIRECTORY.path(), bytes));
