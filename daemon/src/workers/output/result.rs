//! A function's answer from its bytes.

use fnd_core::record::RunResult;
use std::io;
use std::os::fd::AsFd;

/// Returns the result of bytes: JSON if they are one JSON value, space around it taken off; else as they are.
pub(super) fn of(data: Vec<u8>) -> RunResult {
    let trimmed = data.trim_ascii();
    // Deeper nesting than serde_json follows is not taken for JSON; it is kept all the same.
    if serde_json::from_slice::<serde::de::IgnoredAny>(trimmed).is_ok() {
        return RunResult {
            json: true,
            data: trimmed.into(),
            response: None,
        };
    }
    RunResult {
        json: false,
        data: data.into(),
        response: None,
    }
}

/// What is in a `$FND_RESULT` file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing: it was not written.
    No,
    /// A result.
    Yes(RunResult),
    /// More than a result may be: its size.
    TooLarge(u64),
}

/// Reads a `$FND_RESULT` file through its descriptor, `max` bytes at most.
///
/// # Errors
/// Where it cannot be read.
pub(super) fn read(file: impl AsFd, max: u64) -> io::Result<Written> {
    let size = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    if size == 0 {
        return Ok(Written::No);
    }
    if size > max {
        return Ok(Written::TooLarge(size));
    }
    let mut data = vec![0; usize::try_from(size).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < data.len() {
        match rustix::io::pread(&file, &mut data[filled..], filled as u64)? {
            // It has become shorter: somebody outside the leaf writes to it. What is there is the result.
            0 => break,
            count => filled += count,
        }
    }
    data.truncate(filled);
    Ok(if data.is_empty() {
        Written::No
    } else {
        Written::Yes(of(data))
    })
}
