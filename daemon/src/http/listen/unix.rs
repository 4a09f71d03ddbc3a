//! Makes a Unix socket that listens. A socket at which no server answers was left by a crashed one, and is replaced; one
//! that is served is never taken.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Why a socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A server answers at this path.
    #[error("another program serves it")]
    Served,
    /// The path exists and is not a socket.
    #[error("it exists and is not a socket")]
    NotASocket,
    #[error("failed to {0} socket")]
    Step(&'static str, #[source] io::Error),
}

/// Returns a listener at `path` with this mode. Must run in a runtime.
///
/// # Errors
/// Any variant of [`BindError`].
pub fn bind(path: &Path, mode: u32) -> Result<UnixListener, BindError> {
    clear_the_way(path)?;
    // Between bind and chmod only users that may enter the directory can connect; the services check their peers.
    let listener = UnixListener::bind(path).map_err(|error| BindError::Step("bind", error))?;
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(|error| BindError::Step("set the mode of", error))?;
    Ok(listener)
}

/// Removes a socket at which no server answers. Two daemons that start at the same time are kept apart by the lock of
/// their state, which is taken before this.
fn clear_the_way(path: &Path) -> Result<(), BindError> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BindError::Step("examine", error)),
    };
    if !kind.is_socket() {
        return Err(BindError::NotASocket);
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(BindError::Served),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| BindError::Step("remove the stale", error))
        }
        // A full backlog or a missing permission means that a server is there, or that this is unknown.
        Err(error) => Err(BindError::Step("connect to the existing", error)),
    }
}
