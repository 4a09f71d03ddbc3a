//! Makes a function's result from its bytes.

use bytes::Bytes;
use fnd_core::records::RunResult;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Returns bytes as a result: JSON if they are one JSON value, with the space around it removed; else unchanged.
pub(super) fn of(data: impl Into<Bytes>) -> RunResult {
    let data = data.into();
    let trimmed = data.trim_ascii();
    // A value nested deeper than serde_json follows is not taken for JSON; it is kept all the same.
    let json = serde_json::from_slice::<serde::de::IgnoredAny>(trimmed).is_ok();
    let data = if json && trimmed.len() < data.len() {
        Bytes::copy_from_slice(trimmed)
    } else {
        data
    };
    RunResult {
        json,
        data,
        response: None,
        kept: None,
    }
}

/// The content of a `$FND_RESULT` file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WrittenResult {
    /// The file was not written.
    No,
    Yes(RunResult),
    /// It is larger than a result may be; its size.
    TooLarge(u64),
}

/// Returns whether a `$FND_RESULT` file was written.
pub(super) fn is_written(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_size > 0)
}

/// Reads a `$FND_RESULT` file through its descriptor, `max` bytes at most.
///
/// # Errors
/// It cannot be read.
pub(super) fn read(file: impl AsFd, max: u64) -> io::Result<WrittenResult> {
    let size = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    if size == 0 {
        return Ok(WrittenResult::No);
    }
    if size > max {
        return Ok(WrittenResult::TooLarge(size));
    }
    let mut data = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let mut filled = 0;
    while let Some(rest) = data.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(&file, rest, filled as u64)? {
            // The file has become shorter: a process outside the leaf writes to it. The bytes that are there are the
            // result.
            0 => break,
            count => filled += count,
        }
    }
    data.truncate(filled);
    Ok(if data.is_empty() {
        WrittenResult::No
    } else {
        WrittenResult::Yes(of(data))
    })
}
