//! The place where the page listens: a Unix socket that only its user can open, or a port of 127.0.0.1.

use crate::cli::Place;
use rustix::fs::Mode;
use rustix::process::{getuid, umask};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// The socket or the port.
#[derive(Debug)]
pub(crate) enum Listener {
    Socket(PathBuf, UnixListener),
    Port(u16, TcpListener),
}

#[derive(Debug)]
pub(crate) enum Connection {
    Socket(UnixStream),
    Port(TcpStream),
}

impl Listener {
    /// Listens at a place.
    ///
    /// # Errors
    /// Another page listens there, or the kernel refuses; the message names the place.
    pub(crate) async fn bind(place: &Place) -> Result<Self, String> {
        match place {
            Place::Socket(path) => {
                let failed = |error: io::Error| format!("failed to listen at `{}`: {error}", path.display());
                Ok(Self::Socket(path.clone(), socket(path).await.map_err(failed)?))
            }
            Place::Port(port) => {
                let failed = |error: io::Error| format!("failed to listen at 127.0.0.1:{port}: {error}");
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).await.map_err(failed)?;
                // Port 0 stands for a free one.
                let port = listener.local_addr().map_err(failed)?.port();
                Ok(Self::Port(port, listener))
            }
        }
    }

    /// Returns the line that tells the starter of the page where it is, and how a browser gets in.
    pub(crate) fn startup_line(&self, token: &str) -> String {
        let place = match self {
            Self::Socket(path, _) => serde_json::json!({ "socket": path.display().to_string(), "token": token }),
            Self::Port(port, _) => serde_json::json!({
                "address": format!("http://127.0.0.1:{port}/#token={token}"), "port": port, "token": token,
            }),
        };
        place.to_string()
    }

    /// Returns the next connection of a user who may see the page.
    pub(crate) async fn accept(&self) -> Connection {
        loop {
            let connection = match self {
                Self::Socket(_, listener) => listener.accept().await.map(|(stream, _)| Connection::Socket(stream)),
                Self::Port(_, listener) => listener.accept().await.map(|(stream, _)| Connection::Port(stream)),
            };
            match connection {
                Ok(connection) if connection.is_own() => return connection,
                // The connection of another user is closed without an answer.
                Ok(_) => {}
                // The likely cause is a lack of descriptors, and no event reports that descriptors are free again.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

impl Connection {
    /// Returns whether its other end belongs to the user of the page. The permissions of the socket say the same; this holds
    /// also where somebody changed them. A port has no owner: there only the session counts.
    fn is_own(&self) -> bool {
        match self {
            Self::Socket(stream) => {
                let peer = stream.peer_cred();
                peer.is_ok_and(|peer| is_own(peer.uid(), getuid().as_raw()))
            }
            Self::Port(_) => true,
        }
    }
}

/// Returns whether a user may see the page of another one. Root can do everything as that user anyway.
fn is_own(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

async fn socket(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent()
        && !directory.as_os_str().is_empty()
    {
        // 0700: fnd of the same user makes it so, too.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // No other user can open the socket, not even for the moment before its mode could be changed.
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let bound = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => replace(path).await,
        bound => bound,
    };
    umask(before);
    bound
}

/// Takes the place of a socket that a killed page has left.
async fn replace(path: &Path) -> io::Result<UnixListener> {
    // connect(2) refuses a file like a socket without listener.
    let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
    match UnixStream::connect(path).await {
        Err(error) if is_socket && error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        Ok(_) => Err(io::Error::new(
            ErrorKind::AddrInUse,
            "another page listens there: end it, or name another socket with --socket",
        )),
        Err(_) if !is_socket => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "there is a file that is no socket",
        )),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_the_user_and_root_are_let_in() {
        for (peer, own, expected) in [
            (1000, 1000, true),
            (0, 1000, true),
            (1001, 1000, false),
            (1000, 0, false),
        ] {
            assert_eq!(is_own(peer, own), expected, "{peer} {own}");
        }
    }

    #[tokio::test]
    async fn a_socket_is_its_users_and_takes_the_place_of_one_that_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fnd/web.sock");
        let place = Place::Socket(path.clone());
        let first = Listener::bind(&place).await.unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let refused = Listener::bind(&place).await.unwrap_err();
        assert!(refused.contains("another page listens there"), "{refused}");
        drop(first);
        assert!(path.exists());
        Listener::bind(&place).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        let refused = Listener::bind(&Place::Socket(path.clone())).await.unwrap_err();
        assert!(refused.contains("no socket"), "{refused}");
        assert!(path.exists());
    }
}
