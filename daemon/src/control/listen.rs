//! The socket itself: created with its mode, and never taken from a daemon that serves it. If somebody removes it, for example while
//! cleaning a directory up, it is made again. Only a socket that fnd has made itself: systemd holds its own.

use crate::descriptors;
use crate::http::listen::Listeners;
use crate::http::listen::unix::{self, BindError};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
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

/// Watches the directory of the socket, for as long as fnd runs. Without events nothing wakes fnd.
pub(crate) async fn keep(path: PathBuf, listeners: Listeners) {
    let failed = |error: &io::Error| {
        let path = path.display();
        tracing::warn!("failed to watch `{path}`: {error}; if somebody removes it, fnd must be started again");
    };
    let Ok(watch) = watched(&path).inspect_err(failed) else {
        // The task must not end, since the end of a task of fnd's own ends fnd.
        return std::future::pending().await;
    };
    loop {
        let changed = next_change(&watch).await;
        if changed.inspect_err(failed).is_err() {
            return std::future::pending().await;
        }
        // The watch tells of all files of the directory.
        if !path.exists() {
            make_again(&path, &listeners);
        }
    }
}

fn make_again(path: &Path, listeners: &Listeners) {
    match bind(path) {
        Ok(listener) => {
            listeners.replace(listener);
            tracing::warn!("`{}` was removed; it is made again", path.display());
        }
        Err(error) => tracing::error!("{}; nobody can reach fnd there", crate::chain(&error)),
    }
}

fn watched(path: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let made = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(
        &made,
        directory,
        WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR,
    )?;
    descriptors::watch(made, Interest::READABLE)
}

/// Waits until a file of the directory is removed.
async fn next_change(watch: &AsyncFd<OwnedFd>) -> io::Result<()> {
    let mut guard = watch.readable().await?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    loop {
        match reader.next() {
            // Which file has gone does not matter: the path of the socket is checked afterwards.
            Ok(_) => {}
            Err(Errno::AGAIN) => {
                guard.clear_ready();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
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
