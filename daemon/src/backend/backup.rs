//! Copies the ledger or the state for a backup: the copy is complete and of one moment, while fnd goes on.

use super::{Failure, failure};
use crate::ledger;
use crate::stores::kv;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// A database that a backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    /// The history.
    Ledger,
    /// The values that functions share.
    State,
}

/// A file in pieces; the channel closes after the last piece, or when the file could not be read further.
pub(crate) type BundlePieces = mpsc::Receiver<Vec<u8>>;

/// Size of a piece, in bytes.
const PIECE: usize = 256 << 10;
/// Most pieces between the disk and the caller.
const PIECES: usize = 4;

/// Copies a database of a state directory. Returns the size and the bytes of the copy, whose file has no name any more.
pub(crate) async fn take(state: PathBuf, of: Database) -> Result<(u64, BundlePieces), Failure> {
    let copied = tokio::task::spawn_blocking(move || match of {
        Database::Ledger => ledger::copy(&state).map_err(|error| crate::chain(&error)),
        Database::State => kv::examine::copy(&state),
    });
    let mut file: File = copied.await.map_err(failure)?.map_err(Failure)?;
    let size = file.metadata().map_err(failure)?.len();
    let (sender, pieces) = mpsc::channel(PIECES);
    // The task ends with the file or with the caller.
    drop(tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE];
            match file.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => piece.truncate(count),
                Err(error) => {
                    tracing::error!("failed to read the copy of a database: {error}");
                    return;
                }
            }
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    }));
    Ok((size, pieces))
}
