//! The socket itself: created with its mode, and never taken from a daemon that serves it.

use crate::http::listen::unix::{self, BindError};
use std::io;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Why the socket could not be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// A server answers at this path.
    #[error("another fnd serves `{0}`: stop it first, or give this one another place with `--run-dir`")]
    Served(PathBuf),
    /// The path exists and is not a socket.
    #[error("`{0}` exists and is not a socket: remove it, or give fnd another place with `--run-dir`")]
    NotASocket(PathBuf),
    #[error("failed to {step} the control socket `{path}`")]
    Step {
        step: &'static str,
        /// The path of the socket.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Returns a listener at `path`, mode 0660. A socket at which no server answers was
/// left by a crashed daemon, and is replaced.
///
/// # Errors
/// Any variant of [`ListenError`].
pub(crate) fn bind(path: &Path) -> Result<UnixListener, ListenError> {
    unix::bind(path, 0o660).map_err(|error| match error {
        BindError::Served => ListenError::Served(path.to_owned()),
        BindError::NotASocket => ListenError::NotASocket(path.to_owned()),
        BindError::Step(step, source) => ListenError::Step {
            step,
            path: path.to_owned(),
            source,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let first = bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(matches!(bind(&path), Err(ListenError::Served(_))));
        drop(first);
        assert!(path.exists(), "the stale socket is still there");
        bind(&path).unwrap();
    }

    #[tokio::test]
    async fn other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path), Err(ListenError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let nowhere = directory.path().join("missing/control.sock");
        assert!(matches!(bind(&nowhere), Err(ListenError::Step { step: "bind", .. })));
    }
}
