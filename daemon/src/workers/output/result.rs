//! A function's answer from its bytes.

use fnd_core::record::RunResult;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Returns the result of bytes: JSON if they are one JSON value, space around it taken off; else as they are.
pub(super) fn of(data: impl AsRef<[u8]> + Into<Arc<[u8]>>) -> RunResult {
    let trimmed = data.as_ref().trim_ascii();
    // Deeper nesting than serde_json follows is not taken for JSON; it is kept all the same.
    let json = serde_json::from_slice::<serde::de::IgnoredAny>(trimmed).is_ok();
    let data = if json && trimmed.len() < data.as_ref().len() {
        trimmed.into()
    } else {
        data.into()
    };
    RunResult {
        json,
        data,
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
    let mut data = zeroes(usize::try_from(size).map_err(io::Error::other)?);
    // Nobody shares it yet.
    let bytes = Arc::get_mut(&mut data).unwrap_or_default();
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(&file, rest, filled as u64)? {
            // It has become shorter: somebody outside the leaf writes to it. What is there is the result.
            0 => break,
            count => filled += count,
        }
    }
    Ok(match data.get(..filled) {
        Some([]) | None => Written::No,
        Some(part) if filled < data.len() => Written::Yes(of(part)),
        Some(_) => Written::Yes(of(data)),
    })
}

/// Returns bytes to read into. A result is shared from then on: read into a vector, it would have to be copied.
fn zeroes(count: usize) -> Arc<[u8]> {
    let bytes = Arc::<[u8]>::new_zeroed_slice(count);
    #[expect(
        unsafe_code,
        reason = "there is no safe way to a shared slice that is not filled byte by byte"
    )]
    // SAFETY: all of it is initialised with zeroes, and a zero is a byte.
    unsafe {
        bytes.assume_init()
    }
}
