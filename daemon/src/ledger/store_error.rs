//! Why a command could not be stored, for all files that store something.

use rusqlite::ErrorCode;

/// Why a command could not be stored.
pub(super) enum StoreError {
    /// The disk or the database is at fault: the whole transaction has failed, and may work later.
    Disk(rusqlite::Error),
    /// The command is at fault: it will never work.
    Refused(rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => Self::Refused(error),
            _ => Self::Disk(error),
        }
    }
}
