//! Where a worker that serves HTTP is reached: a port of the loopback, or a Unix socket in a directory of its own.
//!
//! A port is anybody's to take, so before a worker is believed ready fnd looks whose process listens there. A socket lies in
//! a directory that any function may write to and none can list, under a name nobody can guess; the functions' users differ
//! from fnd's, so the directory gives what is made in it to fnd by a default ACL (acl(5)). For that the spawner leaves the
//! group's bits to who is given `FND_SOCKET_PATH`: they limit what an ACL gives.

use rustix::fs::{Mode, XattrFlags, chmod, mkdir, setxattr};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Ports that are given out: below those the kernel gives to outgoing connections (32768 on), which could take one between
/// fnd's choice and the program's start.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Ports tried before giving up: far more than functions can have workers.
const TRIES: u32 = 1000;
/// Longest path of a Unix socket (unix(7), with the zero at its end).
const PATH_MAX: usize = 107;
/// The socket's name in its directory.
const SOCKET: &str = "http.sock";

/// Where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// A port of 127.0.0.1.
    Port(u16),
    /// A Unix socket.
    Socket(PathBuf),
}

/// A connection to a worker.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

impl Address {
    /// Returns a port that nobody listens on.
    ///
    /// # Errors
    /// Where there is none.
    pub fn free_port() -> io::Result<Self> {
        for _ in 0..TRIES {
            let port = fastrand::u16(PORTS);
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(Self::Port(port));
            }
        }
        let (first, last) = (PORTS.start, PORTS.end);
        Err(io::Error::other(format!("no port from {first} to {last} is free")))
    }

    /// Returns a place for a socket in a new directory below `root`.
    ///
    /// # Errors
    /// Where the directory cannot be made, or its path is too long for a socket.
    pub fn new_socket(root: &Path) -> io::Result<Self> {
        let name = format!("{:032x}", fastrand::u128(..));
        let directory = root.join(name);
        let socket = directory.join(SOCKET);
        if socket.as_os_str().len() > PATH_MAX {
            let long = format!("the path `{}` is longer than {PATH_MAX} bytes", socket.display());
            return Err(io::Error::other(format!("{long}: use a shorter --run-dir")));
        }
        mkdir(&directory, Mode::RWXU)?;
        share(&directory)?;
        // Whatever the umask. Sticky: what one has made in it, no other can replace.
        chmod(&directory, Mode::from_raw_mode(0o1733))?;
        Ok(Self::Socket(socket))
    }

    /// Removes what was made for it. What a function has put beside its socket and cannot be removed stays until `/run` is
    /// made anew.
    pub fn remove(&self) {
        if let Self::Socket(socket) = self
            && let Some(directory) = socket.parent()
        {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let _ = std::fs::remove_file(entry.path());
            }
            if let Err(error) = std::fs::remove_dir(directory) {
                tracing::warn!("failed to remove `{}`: {error}, it stays", directory.display());
            }
        }
    }

    /// Connects to it.
    ///
    /// # Errors
    /// From `connect`.
    pub async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Port(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Socket(path) => Box::new(UnixStream::connect(path).await?),
        })
    }

    /// Returns who else than a user listens on it; nothing where that is nobody, or cannot be told.
    #[must_use]
    pub fn stranger(&self, uid: u32) -> Option<u32> {
        let Self::Port(port) = self else { return None };
        // One on another address of the machine is not in the way of the worker's.
        let is_here = |address: IpAddr| address.is_loopback() || address.is_unspecified();
        let listens = |entry: &procfs::net::TcpNetEntry| {
            let local = entry.local_address;
            let is_it = local.port() == *port && is_here(local.ip().to_canonical());
            is_it && entry.state == procfs::net::TcpState::Listen
        };
        let all = [procfs::net::tcp(), procfs::net::tcp6()];
        let mut users = all
            .into_iter()
            .flatten()
            .flatten()
            .filter(listens)
            .map(|entry| entry.uid);
        users.find(|other| *other != uid)
    }
}

/// Removes the directories below `root` of sockets that are not among these: of workers that ended while no fnd was there.
pub fn keep_only(root: &Path, kept: &[Address]) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let address = Address::Socket(entry.path().join(SOCKET));
        if !kept.contains(&address) {
            address.remove();
        }
    }
}

/// Lets this process's user use what others make in a directory of its own: a default ACL (`acl(5)`; the form of the attribute
/// is that of `linux/posix_acl_xattr.h`: version 2, then tag, permissions and id of each entry).
fn share(directory: &Path) -> io::Result<()> {
    const NOBODY: u32 = u32::MAX;
    const ALL: u16 = 7;
    let user = rustix::process::geteuid().as_raw();
    // Owner, fnd, group, mask, others; in the order of the tags.
    let entries = [
        (0x01, ALL, NOBODY),
        (0x02, ALL, user),
        (0x04, 0, NOBODY),
        (0x10, ALL, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend(u16::to_le_bytes(tag));
        value.extend(u16::to_le_bytes(permissions));
        value.extend(u32::to_le_bytes(id));
    }
    match setxattr(directory, "system.posix_acl_default", &value, XattrFlags::empty()) {
        // Without ACLs fnd reaches the sockets of its own user, and as root all.
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_directory_of_a_socket_is_written_to_by_all_and_listed_by_none() {
        let root = tempfile::tempdir().unwrap();
        let address = Address::new_socket(root.path()).unwrap();
        let Address::Socket(path) = &address else {
            panic!("{address:?}")
        };
        let mode = std::fs::metadata(path.parent().unwrap()).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o1733);
        let _listener = UnixListener::bind(path).unwrap();
        keep_only(root.path(), std::slice::from_ref(&address));
        assert!(path.exists());
        keep_only(root.path(), &[]);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let error = Address::new_socket(Path::new(&format!("/tmp/{}", "x".repeat(100)))).unwrap_err();
        assert!(error.to_string().contains("shorter --run-dir"), "{error}");
    }

    #[test]
    fn who_listens_is_known() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address::Port(listener.local_addr().unwrap().port());
        let own = rustix::process::geteuid().as_raw();
        assert_eq!((address.stranger(own), address.stranger(own + 1)), (None, Some(own)));
        let Address::Port(free) = Address::free_port().unwrap() else {
            panic!("a port")
        };
        assert!(PORTS.contains(&free));
    }
}
