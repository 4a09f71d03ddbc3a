//! Tests that admitted requests stay known after a restart, with a damaged file and with a failing disk.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

/// The signatures of these tests hold until then.
fn end_s() -> u64 {
    unix_ms() / 1000 + 300
}

fn key(n: u32, until_s: u64) -> ReplayKey {
    let mut digest = [0xee; 32];
    digest[..4].copy_from_slice(&n.to_le_bytes());
    ReplayKey { digest, until_s }
}

/// Admits a request now.
fn admit(replays: &Replays, key: ReplayKey) -> Result<(), Replayed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(replays.admit(key, unix_ms() / 1000))
}

/// Waits for the thread: its answer to a request comes after everything before.
#[track_caller]
fn settle(replays: &Replays) {
    assert_eq!(admit(replays, key(u32::MAX, end_s())), Ok(()));
}

fn path(state: &tempfile::TempDir) -> PathBuf {
    state.path().join(FILE)
}

#[test]
fn an_admitted_request_is_refused_after_a_crash_and_a_forgotten_one_is_not() {
    let (state, end_s) = (tempfile::tempdir().unwrap(), end_s());
    let replays = Replays::open(state.path()).unwrap();
    assert!(!path(&state).exists(), "without signed requests there is no file");
    for n in 0..3 {
        assert_eq!(admit(&replays, key(n, end_s)), Ok(()));
        assert_eq!(admit(&replays, key(n, end_s)), Err(Replayed::Before));
    }
    replays.forget(key(1, end_s));
    settle(&replays);
    assert_eq!(fs::metadata(path(&state)).unwrap().permissions().mode() & 0o777, 0o600);
    // Another process reads the file while the first one is still there: nothing is written at an end.
    let next = Replays::open(state.path()).unwrap();
    assert_eq!(admit(&next, key(0, end_s)), Err(Replayed::Before));
    assert_eq!(admit(&next, key(2, end_s)), Err(Replayed::Before));
    assert_eq!(admit(&next, key(1, end_s)), Ok(()));
    assert_eq!(next.problem(), None);
}

#[test]
fn a_torn_end_and_foreign_bytes_cost_only_themselves() {
    let (state, end_s) = (tempfile::tempdir().unwrap(), end_s());
    let replays = Replays::open(state.path()).unwrap();
    (0..3).for_each(|n| assert_eq!(admit(&replays, key(n, end_s)), Ok(())));
    drop(replays);
    let mut bytes = fs::read(path(&state)).unwrap();
    // The record of the request 1, and half of another record at the end.
    let digest = key(1, end_s).digest;
    let at = bytes.windows(32).position(|part| part == digest).unwrap();
    bytes[at + 9] ^= 1;
    bytes.extend([0x55; 20]);
    fs::write(path(&state), &bytes).unwrap();
    let next = Replays::open(state.path()).unwrap();
    assert_eq!(admit(&next, key(0, end_s)), Err(Replayed::Before));
    assert_eq!(admit(&next, key(2, end_s)), Err(Replayed::Before));
    assert_eq!(admit(&next, key(3, end_s)), Ok(()));
    // The damaged record is gone from the file.
    let content = replay_file::read(&fs::read(path(&state)).unwrap()).unwrap();
    assert_eq!((content.skipped, content.replays.len()), (0, 3));
}

#[test]
fn a_file_of_a_later_fnd_is_kept_and_fnd_serves() {
    let (state, end_s) = (tempfile::tempdir().unwrap(), end_s());
    let replays = Replays::open(state.path()).unwrap();
    settle(&replays);
    let mut bytes = fs::read(path(&state)).unwrap();
    bytes[RECORD - 2] = b'2';
    fs::write(path(&state), &bytes).unwrap();
    let next = Replays::open(state.path()).unwrap();
    assert!(
        next.problem().unwrap().contains("later version"),
        "{:?}",
        next.problem()
    );
    assert_eq!(admit(&next, key(0, end_s)), Ok(()));
    assert_eq!(admit(&next, key(0, end_s)), Err(Replayed::Before));
    assert_eq!(fs::read(path(&state)).unwrap(), bytes);
}

#[test]
fn a_full_disk_is_a_problem_until_everything_is_stored() {
    let (state, end_s) = (tempfile::tempdir().unwrap(), end_s());
    // Each write of the next file fails with ENOSPC.
    std::os::unix::fs::symlink("/dev/full", state.path().join(NEXT)).unwrap();
    let replays = Replays::open(state.path()).unwrap();
    assert_eq!(admit(&replays, key(0, end_s)), Ok(()));
    assert_eq!(admit(&replays, key(0, end_s)), Err(Replayed::Before));
    let problem = replays.problem().unwrap();
    assert!(
        problem.contains("No space left") && problem.contains("repeated"),
        "{problem}"
    );
    fs::remove_file(state.path().join(NEXT)).unwrap();
    let deadline = monotonic() + Duration::from_secs(60);
    while replays.problem().is_some() {
        assert!(monotonic() < deadline, "{:?}", replays.problem());
        std::thread::yield_now();
    }
    let next = Replays::open(state.path()).unwrap();
    assert_eq!(admit(&next, key(0, end_s)), Err(Replayed::Before));
}

#[test]
fn a_directory_in_the_place_of_the_file_does_not_stop_fnd() {
    let state = tempfile::tempdir().unwrap();
    fs::create_dir(path(&state)).unwrap();
    let replays = Replays::open(state.path()).unwrap();
    assert!(
        replays.problem().unwrap().contains("failed to read"),
        "{:?}",
        replays.problem()
    );
    settle(&replays);
}

#[test]
fn the_file_is_rewritten_when_most_of_it_has_ended() {
    let (state, end_s) = (tempfile::tempdir().unwrap(), end_s());
    let replays = Replays::open(state.path()).unwrap();
    let records = u32::try_from(SPARE_RECORDS).unwrap();
    for n in 0..records {
        let key = key(n, end_s);
        assert_eq!(admit(&replays, key), Ok(()));
        replays.forget(key);
    }
    settle(&replays);
    let length = fs::metadata(path(&state)).unwrap().len();
    assert!(length < (SPARE_RECORDS as u64 + 8) * RECORD as u64, "{length} bytes");
    assert!(!state.path().join(NEXT).exists());
}

/// The clock of the next start is behind: a request that was dropped before is not admitted again.
#[test]
fn a_clock_that_goes_back_over_a_restart_admits_nothing_again() {
    let (state, end_s) = (tempfile::tempdir().unwrap(), end_s());
    let replays = Replays::open(state.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ended = key(7, end_s - 1000);
    assert_eq!(runtime.block_on(replays.admit(ended, end_s - 1300)), Ok(()));
    drop(replays);
    // This start drops it by the clock; the next request is an hour earlier.
    let next = Replays::open(state.path()).unwrap();
    assert_eq!(runtime.block_on(next.admit(ended, end_s - 1300)), Err(Replayed::Before));
    drop(next);
    let third = Replays::open(state.path()).unwrap();
    assert_eq!(
        runtime.block_on(third.admit(ended, end_s - 1300)),
        Err(Replayed::Before)
    );
}
