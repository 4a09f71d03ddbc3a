//! Checks the room for history, output and versions.

use super::finding::Finding;
use procfs::process::Process;
use rustix::fs::{StatVfsMountFlags, major, minor, stat, statvfs};
use std::path::Path;

const CHECK: &str = "disk";

/// With fewer bytes the history may soon have no room for a page; then asynchronous work is refused.
const BYTES_ERROR: u64 = 64 << 20;
/// With fewer bytes one burst of output can fill the disk.
const BYTES_WARNING: u64 = 1 << 30;
/// Fewer files than one or two functions need when they are deployed.
const FILES_ERROR: u64 = 1_000;
const FILES_WARNING: u64 = 20_000;

/// The file system of the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskFacts {
    place: String,
    room: Result<FreeRoom, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FreeRoom {
    /// Bytes an unprivileged program may still write.
    bytes: u64,
    /// Files it may still make; absent where the file system does not count them.
    files: Option<u64>,
    read_only: bool,
}

/// Returns the room on the disk of the state directory, or of the nearest directory above if it does not exist.
pub(crate) fn inspect(state: &Path) -> DiskFacts {
    let there = state.ancestors().find(|path| path.exists()).unwrap_or(state);
    let room = statvfs(there).map(|stat| FreeRoom {
        bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        // A file system without a fixed number of inodes reports 0 (btrfs).
        files: (stat.f_files > 0).then_some(stat.f_favail),
        read_only: stat.f_flag.contains(StatVfsMountFlags::RDONLY) || has_failed(there),
    });
    DiskFacts {
        place: state.display().to_string(),
        room: room.map_err(|error| error.to_string()),
    }
}

/// Returns whether ext4 refuses writes to the file system of a path since an error: since Linux 6.15 statvfs(3) does not
/// show it.
fn has_failed(path: &Path) -> bool {
    let Ok(device) = stat(path).map(|stat| stat.st_dev) else {
        return false;
    };
    let device = format!("{}:{}", major(device), minor(device));
    let mounts = Process::myself().and_then(|own| own.mountinfo());
    mounts.is_ok_and(|mounts| {
        let mut of_device = mounts.into_iter().filter(|mount| mount.majmin == device);
        of_device.any(|mount| mount.super_options.contains_key("emergency_ro"))
    })
}

pub(crate) fn judge(facts: &DiskFacts) -> Vec<Finding> {
    let place = &facts.place;
    let room = match &facts.room {
        Ok(room) => room,
        Err(error) => return vec![Finding::unknown(CHECK, format!("it cannot be checked: {error}")).at(place)],
    };
    let mebibytes = room.bytes >> 20;
    let lower = format!(
        "sudo du -xh --max-depth 2 {place} shows what uses it; `keep_bytes` of `[history]` and `[logs]` in fnd.toml limits it"
    );
    let mut findings = Vec::new();
    if room.read_only {
        findings.push(Finding::error(CHECK, "it is on a read-only file system").fix(format!(
            "dmesg | tail shows whether the disk failed; if not: sudo mount -o remount,rw $(findmnt -no TARGET -T {place})"
        )));
    }
    match room.bytes {
        0..BYTES_ERROR => {
            let what = format!("{mebibytes} MiB are left: asynchronous work is about to be refused");
            findings.push(Finding::error(CHECK, what).fix(&lower));
        }
        BYTES_ERROR..BYTES_WARNING => {
            findings.push(Finding::warning(CHECK, format!("only {mebibytes} MiB are left")).fix(&lower));
        }
        _ => {}
    }
    let inodes = format!("sudo du --inodes -x --max-depth 3 {place} shows which directories have most files");
    match room.files {
        Some(files @ 0..FILES_ERROR) => {
            findings.push(Finding::error(CHECK, format!("only {files} more files can be created")).fix(inodes));
        }
        Some(files @ FILES_ERROR..FILES_WARNING) => {
            findings.push(Finding::warning(CHECK, format!("only {files} more files can be created")).fix(inodes));
        }
        _ => {}
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("{mebibytes} MiB are free")));
    }
    findings.into_iter().map(|finding| finding.at(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::brief;
    use super::*;

    #[test]
    fn room_and_what_follows() {
        let room = |bytes, files, read_only| {
            Ok(FreeRoom {
                bytes,
                files,
                read_only,
            })
        };
        for (room, expected) in [
            (room(5 << 30, Some(1 << 20), false), vec!["ok 5120 MiB are free"]),
            (room(5 << 30, None, false), vec!["ok 5120 MiB are free"]),
            (room(500 << 20, None, false), vec!["warning only 500 MiB are left"]),
            (
                room(0, Some(0), false),
                vec![
                    "error 0 MiB are left: asynchronous work is about to be refused",
                    "error only 0 more files can be created",
                ],
            ),
            (
                room(5 << 30, Some(5_000), false),
                vec!["warning only 5000 more files can be created"],
            ),
            (
                room(5 << 30, None, true),
                vec!["error it is on a read-only file system"],
            ),
            (Err("why".into()), vec!["unknown it cannot be checked: why"]),
        ] {
            let facts = DiskFacts {
                place: "/s".into(),
                room,
            };
            assert_eq!(brief(&judge(&facts)), expected);
        }
    }

    #[test]
    fn a_directory_that_is_not_there_yet_has_the_room_above() {
        let directory = tempfile::tempdir().unwrap();
        assert!(inspect(&directory.path().join("not/yet")).room.is_ok());
    }
}
