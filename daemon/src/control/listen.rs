//! The socket itself: created with its mode and group, and never taken from a daemon that serves it.

use nix::unistd::{Gid, Group, chown};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Why the socket could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A server answers at this path.
    #[error("another fnd serves `{0}`: stop it first, or give this one another place with `--run-dir`")]
    Served(PathBuf),
    /// The path exists and is not a socket.
    #[error("`{0}` exists and is not a socket: remove it, or give fnd another place with `--run-dir`")]
    NotASocket(PathBuf),
    /// The group of the configuration does not exist.
    #[error("there is no group `{0}` to own the control socket: create it (`groupadd --system {0}`)")]
    NoGroup(String),
    /// A step failed.
    #[error("failed to {step} the control socket `{path}`")]
    Step {
        /// Which step.
        step: &'static str,
        /// The path of the socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Returns a listener at `path`, mode 0660, owned by `group` if one is given. A socket at which no server answers was
/// left by a crashed daemon, and is replaced.
///
/// # Errors
/// Any variant of [`ListenError`].
pub fn bind(path: &Path, group: Option<&str>) -> Result<UnixListener, ListenError> {
    let failed = |step| {
        move |source| ListenError::Step {
            step,
            path: path.to_owned(),
            source,
        }
    };
    let gid = group.map(find_group).transpose()?;
    clear_the_way(path)?;
    // Between bind and chmod only users that may enter the directory can connect, and each peer's role is checked
    // anyway.
    let listener = UnixListener::bind(path).map_err(failed("bind"))?;
    if let Some(gid) = gid {
        chown(path, None, Some(gid)).map_err(|errno| failed("change the group of")(errno.into()))?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(failed("set the mode of"))?;
    Ok(listener)
}

fn find_group(name: &str) -> Result<Gid, ListenError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        // A failed lookup counts as a missing group.
        Ok(None) | Err(_) => Err(ListenError::NoGroup(name.to_owned())),
    }
}

/// Removes a socket at which no server answers. Two daemons that start at the same time are kept apart by the lock of
/// their state, which is taken before this.
fn clear_the_way(path: &Path) -> Result<(), ListenError> {
    let failed = |step| {
        move |source| ListenError::Step {
            step,
            path: path.to_owned(),
            source,
        }
    };
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("examine")(error)),
    };
    if !kind.is_socket() {
        return Err(ListenError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ListenError::Served(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed("remove the stale"))
        }
        // A full backlog or a missing permission means that a server is there, or that this is unknown.
        Err(error) => Err(failed("connect to the existing")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let first = bind(&path, None).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(matches!(bind(&path, None), Err(ListenError::Served(_))));
        drop(first);
        assert!(path.exists(), "the stale socket is still there");
        bind(&path, None).unwrap();
    }

    #[tokio::test]
    async fn other_files_and_unknown_groups_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(bind(&path, None), Err(ListenError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let other = directory.path().join("other.sock");
        let error = bind(&other, Some("no-such-group-fnd")).unwrap_err();
        assert!(
            error.to_string().contains("groupadd --system no-such-group-fnd"),
            "{error}"
        );
        assert!(!other.exists());
        let nowhere = directory.path().join("missing/control.sock");
        assert!(matches!(
            bind(&nowhere, None),
            Err(ListenError::Step { step: "bind", .. })
        ));
    }
}
