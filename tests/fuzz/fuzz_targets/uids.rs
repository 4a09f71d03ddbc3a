//! Any bytes as the table of users: a table that opens gives each function one user of the range, and no two the same.
#![no_main]

use fnd_fuzz::directory;
use fnd_spawner::uids::{Assigned, Uids};
use fnd_wire::ids::{FunctionId, FunctionName};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tempfile::TempDir;

static DIRECTORY: LazyLock<TempDir> = LazyLock::new(directory);

fuzz_target!(|bytes: &[u8]| {
    let path = DIRECTORY.path().join("uids");
    std::fs::write(&path, bytes).expect("a file in memory");
    let Ok(mut uids) = Uids::open(&path) else { return };
    let own = FunctionName::new("added-by-the-fuzzer").expect("a name");
    let known = uids.id(&own);
    let Ok(Assigned { id, uid, .. }) = uids.assign(&own, None, Some((70_000, 70_100)), 0) else {
        return;
    };
    assert!(known.is_none_or(|known| known == id));
    assert!(
        known.is_some() || (70_000..=70_100).contains(&uid),
        "{uid} is not of the range"
    );
    assert_eq!(uids.get(id), Some((uid, &own)));
    // A line that was damaged keeps its number.
    let last = id.0.max(1_000);
    let all = |uids: &Uids| -> Vec<Option<(u32, FunctionName)>> {
        let entry = |n| uids.get(FunctionId(n)).map(|(uid, name)| (uid, name.clone()));
        (1..=last).map(entry).collect()
    };
    let before = all(&uids);
    drop(uids);
    let again = Uids::open(&path).expect("what was written can be read");
    assert_eq!(all(&again), before, "the table is another one after it was written to");
});
