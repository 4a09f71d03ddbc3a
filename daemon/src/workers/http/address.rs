//! The address of a worker that serves HTTP: a port of the loopback, or a Unix socket in a directory of its own.
//!
//! Any process can take a port, so fnd checks whose process listens there before it believes that a worker is ready. A
//! socket lies in a directory that the spawner makes for the worker and removes with it. Only fnd and the worker's user
//! can enter that directory.
//!
//! The function chooses what lies at the path, so fnd follows no link there: it connects only to a socket that the
//! worker's user owns and listens on. Otherwise a function could make fnd connect to the control socket, as fnd.

use fnd_wire::ids::WorkerId;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// The ports that are given out. They are below those that the kernel gives to outgoing connections (32768 on): such a
/// connection could take a port between fnd's choice and the program's start.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Ports tried before giving up: far more than the workers that functions can have.
const TRIES: u32 = 1000;
/// Longest path of a Unix socket (unix(7), with the zero at its end).
const PATH_MAX: usize = 107;
/// The socket's name in its directory.
const SOCKET: &str = "http.sock";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// A port of 127.0.0.1.
    Port(u16),
    Socket {
        /// The path at which the worker makes it.
        path: PathBuf,
        /// The user the worker runs as.
        user: u32,
    },
}

/// A connection to a worker.
pub trait WorkerStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> WorkerStream for T {}

impl Address {
    /// Returns a port that no process listens on.
    ///
    /// # Errors
    /// There is none.
    pub fn free_port() -> io::Result<Self> {
        for _ in 0..TRIES {
            let port = fastrand::u16(PORTS);
            // The port is free again when this line is over, so another process may take it. `check_owner` finds that out.
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(Self::Port(port));
            }
        }
        let (first, last) = (PORTS.start, PORTS.end);
        Err(io::Error::other(format!("no port from {first} to {last} is free")))
    }

    /// Returns the variable that tells the worker where to listen, and its value.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        match self {
            Self::Port(port) => ("PORT", port.to_string()),
            Self::Socket { path, .. } => ("FND_SOCKET_PATH", path.display().to_string()),
        }
    }

    /// Returns the words for a connection that failed, with the variable that tells the worker where to listen.
    pub(crate) fn refused(&self, error: &io::Error) -> String {
        let (variable, _) = self.variable();
        format!("it accepts no connections on ${variable}: {error}")
    }

    /// Returns the address of a worker's socket. `root` is the directory in which the spawner makes a directory for
    /// each worker.
    ///
    /// # Errors
    /// The path is too long for a socket.
    pub fn socket(root: &Path, worker: WorkerId, user: u32) -> io::Result<Self> {
        let path = root.join(worker.0.to_string()).join(SOCKET);
        if path.as_os_str().len() > PATH_MAX {
            let long = format!("the path `{}` is longer than {PATH_MAX} bytes", path.display());
            return Err(io::Error::other(format!("{long}: use a shorter --run-dir")));
        }
        Ok(Self::Socket { path, user })
    }

    /// Connects to the worker.
    ///
    /// # Errors
    /// `connect` fails, or the socket is not the worker's.
    pub async fn connect(&self) -> io::Result<Box<dyn WorkerStream>> {
        Ok(match self {
            Self::Port(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await?;
                // A request may be several writes. With Nagle's algorithm the last one would wait until the worker
                // has acknowledged the others.
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Self::Socket { path, user } => Box::new(connect(path, *user).await?),
        })
    }

    /// Checks that no user other than `uid` listens on the port; without `uid`, or if that cannot be determined, nothing is
    /// wrong.
    ///
    /// # Errors
    /// Another user listens there; in words.
    pub(crate) fn check_owner(&self, uid: Option<u32>) -> Result<(), String> {
        let (Self::Port(port), Some(uid)) = (self, uid) else {
            return Ok(());
        };
        // A listener on another address of the machine does not take the worker's place.
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
        match users.find(|other| *other != uid) {
            None => Ok(()),
            Some(other) => Err(format!(
                "port {port} is not its own: a process of another user ({other}) listens there"
            )),
        }
    }
}

/// Connects to a socket that a user made, and only to that: no link is followed, and the kernel reports who listens.
async fn connect(path: &Path, user: u32) -> io::Result<UnixStream> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    if !FileType::from_raw_mode(stat.st_mode).is_socket() || stat.st_uid != user {
        let what = format!("`{}` is not a socket of its user ({user})", path.display());
        return Err(io::Error::other(what));
    }
    // By descriptor: the path may lead to something else by now.
    let stream = UnixStream::connect(format!("/proc/self/fd/{}", file.as_raw_fd())).await?;
    let listener = stream.peer_cred()?.uid();
    if listener != user {
        let what = format!("a process of another user ({listener}) listens on `{}`", path.display());
        return Err(io::Error::other(what));
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn place(root: &Path, user: u32) -> (Address, PathBuf) {
        let address = Address::socket(root, WorkerId(7), user).unwrap();
        let Address::Socket { path, .. } = &address else {
            panic!("{address:?}")
        };
        let path = path.clone();
        assert_eq!(path, root.join("7/http.sock"));
        std::fs::create_dir(root.join("7")).unwrap();
        (address, path)
    }

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[tokio::test]
    async fn only_a_socket_that_its_user_made_is_connected_to() {
        let root = tempfile::tempdir().unwrap();
        let (address, path) = place(root.path(), own());
        let refused = |address: Address| async move { address.connect().await.err().map(|error| error.to_string()) };
        // For example the control socket, which fnd may use and the function may not.
        let control = root.path().join("control.sock");
        let _control = UnixListener::bind(&control).unwrap();
        std::os::unix::fs::symlink(&control, &path).unwrap();
        let why = refused(address.clone()).await.unwrap();
        assert!(why.contains("is not a socket of its user"), "{why}");
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&control, &path).unwrap();
        let strange = Address::Socket {
            path: path.clone(),
            user: own() + 1,
        };
        let why = refused(strange).await.unwrap();
        assert!(why.contains("is not a socket of its user"), "{why}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(refused(address.clone()).await.is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(refused(address.clone()).await.unwrap().contains("No such file"));
        let _own = UnixListener::bind(&path).unwrap();
        assert_eq!(refused(address).await, None);
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let error = Address::socket(Path::new(&format!("/tmp/{}", "x".repeat(100))), WorkerId(7), own()).unwrap_err();
        assert!(error.to_string().contains("shorter --run-dir"), "{error}");
    }

    #[test]
    fn the_user_that_listens_is_known() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address::Port(listener.local_addr().unwrap().port());
        assert_eq!(
            [None, Some(own())].map(|user| address.check_owner(user)),
            [Ok(()), Ok(())]
        );
        let why = address.check_owner(Some(own() + 1)).unwrap_err();
        assert!(why.contains(&format!("another user ({})", own())), "{why}");
        let Address::Port(free) = Address::free_port().unwrap() else {
            panic!("a port")
        };
        assert!(PORTS.contains(&free));
    }
}
