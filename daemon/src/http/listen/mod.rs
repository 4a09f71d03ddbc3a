//! The sockets that a server listens on: any number of addresses, which may change while it serves.
//!
//! ```text
//! apply(addresses) ─▶ an address that stays keeps its socket, a new one is bound, one that is gone is closed
//! inherit(socket)  ─▶ a socket of the service manager: used whatever the addresses are
//! secure(security) ─▶ new TCP connections use this certificate; older ones keep theirs
//! ```
//!
//! Files:
//! - `local`: a connection over a Unix socket, watched for bytes only
//! - `socket`: fnd's end of a connection, and what is known about the other end
//! - `tls`: TLS on the TCP sockets: the certificate with its key, and the handshake
//! - `unix`: makes a Unix socket, and never takes one from a server that serves it

pub mod local;
pub mod socket;
pub mod tls;
pub mod unix;

use local::Local;
use socket::{AcceptedConnection, Peer, Socket};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tls::Security;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::Notify;

/// Connections that wait in a socket until they are accepted; the kernel's `net.core.somaxconn` may be lower.
const BACKLOG: u32 = 4096;

/// Pause before an address that could not be used is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Mode of a Unix socket: every user may connect. A service that listens here checks credentials, and the mode of the
/// socket's directory limits who gets there (for example a web server that has a user of its own).
const UNIX_MODE: u32 = 0o666;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A port of an address. `[::]` also takes IPv4 connections, unless `0.0.0.0` is listed with the same port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Parses the form in which addresses are written: `127.0.0.1:8080`, `unix:/run/http.sock`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("unix:") {
            Some(path) => path.starts_with('/').then(|| Self::Unix(path.into())),
            None => text.parse().ok().map(Self::Tcp),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// An address that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unbound {
    pub address: Address,
    /// Why, and what to do, for people.
    pub why: String,
}

/// The sockets of one server. A clone is the same sockets: the server has one, and the part that configures it the
/// other.
#[derive(Debug, Clone, Default)]
pub struct Listeners(Rc<InnerListener>);

#[derive(Debug, Default)]
struct InnerListener {
    open: RefCell<Vec<OpenListener>>,
    wanted: RefCell<Vec<Address>>,
    unbound: RefCell<Vec<Unbound>>,
    /// Notified when there are some.
    is_missing: Notify,
    security: RefCell<Security>,
    /// The socket that is asked first, so that a busy one does not starve the others.
    first: Cell<usize>,
    /// The server that waits for a connection.
    waiting: RefCell<Option<Waker>>,
}

#[derive(Debug)]
struct OpenListener {
    /// Absent if the socket was inherited.
    address: Option<Address>,
    listening: Listening,
}

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener, Option<u16>),
    Unix(UnixListener),
}

impl From<UnixListener> for Listeners {
    fn from(listener: UnixListener) -> Self {
        let listeners = Self::default();
        listeners.add(None, Listening::Unix(listener));
        listeners
    }
}

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Self {
        let listeners = Self::default();
        listeners.add(None, Listening::tcp(listener));
        listeners
    }
}

impl Listeners {
    /// Returns no sockets yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a listening socket, TCP or Unix, that another process has made; it stays until [`Self::close`].
    ///
    /// # Errors
    /// The descriptor is not a listening stream socket.
    pub fn inherit(&self, socket: OwnedFd) -> io::Result<()> {
        if !rustix::net::sockopt::socket_acceptconn(&socket)? {
            return Err(io::Error::other("the socket does not listen"));
        }
        // systemd passes sockets in blocking mode by default (`NonBlocking=` in systemd.service(5)). accept(2) would
        // then stop the main thread if a client leaves before it is accepted.
        rustix::io::ioctl_fionbio(&socket, true)?;
        let listening = if rustix::net::sockopt::socket_domain(&socket)? == rustix::net::AddressFamily::UNIX {
            Listening::Unix(UnixListener::from_std(socket.into())?)
        } else {
            Listening::tcp(TcpListener::from_std(socket.into())?)
        };
        self.add(None, listening);
        Ok(())
    }

    /// Replaces all sockets that were added, which nobody can reach any more, by this one.
    pub(crate) fn replace(&self, listener: UnixListener) {
        self.0.open.borrow_mut().clear();
        self.add(None, Listening::Unix(listener));
    }

    /// Listens on these addresses, and on those that were inherited. An address that stays keeps its socket. Returns
    /// those that could not be used; the others serve. The same addresses may be applied again. Must run in a runtime.
    pub fn apply(&self, addresses: &[Address]) -> Vec<Unbound> {
        *self.0.wanted.borrow_mut() = addresses.to_vec();
        // Sockets that are not wanted close before new ones are bound: `0.0.0.0:80` cannot be bound beside the
        // `127.0.0.1:80` that it replaces.
        self.0.open.borrow_mut().retain(|open| {
            let stays = open.address.as_ref().is_none_or(|address| addresses.contains(address));
            if !stays && let Some(Address::Unix(path)) = &open.address {
                let _ = std::fs::remove_file(path); // a socket without a server does no harm: the next one replaces it
            }
            stays
        });
        self.bind_missing();
        self.unbound()
    }

    /// Sets how TCP connections are secured from now on, those of inherited sockets included.
    pub fn secure(&self, security: Security) {
        *self.0.security.borrow_mut() = security;
    }

    /// Returns the addresses that could not be used.
    #[must_use]
    pub fn unbound(&self) -> Vec<Unbound> {
        self.0.unbound.borrow().clone()
    }

    /// Tries the addresses that could not be used, until this is dropped; calls `changed` when there are fewer.
    pub async fn keep_trying(&self, changed: impl Fn()) {
        loop {
            let before = self.0.unbound.borrow().len();
            if before == 0 {
                self.0.is_missing.notified().await;
                continue;
            }
            // No event tells when an address is free.
            tokio::time::sleep(AGAIN).await;
            self.bind_missing();
            if self.0.unbound.borrow().len() != before {
                changed();
            }
        }
    }

    /// Returns the addresses of all open sockets, for people and tests.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        let open = self.0.open.borrow();
        open.iter().filter_map(|open| open.listening.address()).collect()
    }

    pub fn close(&self) {
        self.0.wanted.borrow_mut().clear();
        self.0.open.borrow_mut().clear();
    }

    fn bind_missing(&self) {
        let wanted = self.0.wanted.borrow().clone();
        let mut unbound = Vec::new();
        for address in &wanted {
            // An inherited socket may have this address already: another one could not be bound there.
            let is_open = |open: &OpenListener| {
                open.address.as_ref() == Some(address) || open.listening.address().as_ref() == Some(address)
            };
            if self.0.open.borrow().iter().any(is_open) {
                continue;
            }
            match bind(address, &wanted) {
                Ok(listening) => self.add(Some(address.clone()), listening),
                Err(why) => unbound.push(Unbound {
                    address: address.clone(),
                    why,
                }),
            }
        }
        if !unbound.is_empty() {
            self.0.is_missing.notify_one();
        }
        *self.0.unbound.borrow_mut() = unbound;
    }

    fn add(&self, address: Option<Address>, listening: Listening) {
        self.0.open.borrow_mut().push(OpenListener { address, listening });
        if let Some(waiting) = self.0.waiting.borrow_mut().take() {
            waiting.wake();
        }
    }

    /// Returns the next connection. Cancel-safe: a connection is either returned or still in its socket.
    pub(super) async fn accept(&self) -> io::Result<AcceptedConnection> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<AcceptedConnection>> {
        let open = self.0.open.borrow();
        let first = self.0.first.get();
        for at in (0..open.len()).map(|at| (first + at) % open.len()) {
            let Some(OpenListener { listening, .. }) = open.get(at) else {
                continue;
            };
            // Polled until it is pending, also after a connection that had to be closed: only then does the socket wake
            // this task again.
            while let Poll::Ready(accepted) = listening.poll_accept(cx, &self.0.security.borrow()) {
                if let Some(accepted) = accepted.transpose() {
                    self.0.first.set(at + 1);
                    return Poll::Ready(accepted);
                }
            }
        }
        // A socket that is added later has no waker yet; `add` uses this one.
        *self.0.waiting.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Listening {
    fn tcp(listener: TcpListener) -> Self {
        let port = listener.local_addr().ok().map(|address| address.port());
        Self::Tcp(listener, port)
    }

    fn address(&self) -> Option<Address> {
        match self {
            Self::Tcp(listener, _) => listener.local_addr().ok().map(Address::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr().ok()?;
                address.as_pathname().map(Path::to_owned).map(Address::Unix)
            }
        }
    }

    /// Polls for the next connection; nothing if it has to be closed.
    fn poll_accept(&self, cx: &mut Context<'_>, security: &Security) -> Poll<io::Result<Option<AcceptedConnection>>> {
        match self {
            Self::Tcp(listener, port) => listener.poll_accept(cx).map_ok(|(stream, address)| {
                // An answer waits for no others; without this the last bytes of one may wait for the client.
                let _ = stream.set_nodelay(true); // an error: the client has gone already
                let tls = match security {
                    Security::Plain => None,
                    Security::Tls(tls) => Some(tls.clone()),
                    Security::Broken => return None,
                };
                Some(AcceptedConnection {
                    socket: Socket::Tcp(stream),
                    peer: Peer::remote(address, *port, tls.is_some()),
                    tls,
                })
            }),
            Self::Unix(listener) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                Poll::Ready(Ok(Some(AcceptedConnection {
                    socket: Socket::Unix(Local::new(stream)?),
                    peer: Peer::default(),
                    tls: None,
                })))
            }
        }
    }
}

fn bind(address: &Address, all: &[Address]) -> Result<Listening, String> {
    match address {
        Address::Tcp(tcp) => {
            let bound = bind_tcp(*tcp, all).map(Listening::tcp);
            bound.map_err(|error| format!("failed to listen on {address}: {}", reason(*tcp, &error)))
        }
        Address::Unix(path) => {
            let bound = unix::bind(path, UNIX_MODE).map(Listening::Unix);
            bound.map_err(|error| format!("failed to listen on {address}: {}", crate::chain(&error)))
        }
    }
}

fn bind_tcp(address: SocketAddr, all: &[Address]) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        let socket = TcpSocket::new_v6()?;
        let is_v4_of_port = |other: &Address| matches!(other, Address::Tcp(other) if other.is_ipv4() && other.port() == address.port() && other.port() > 0);
        // Otherwise the IPv6 socket takes the port of IPv4 as well, and the IPv4 address cannot be bound.
        rustix::net::sockopt::set_ipv6_v6only(&socket, all.iter().any(is_v4_of_port))?;
        socket
    };
    // Connections of an earlier fnd that are not quite over do not keep the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns why a port could not be used, and what to do.
fn reason(address: SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program listens on port {port} (`ss -ltnp 'sport = :{port}'` names it)")
        }
        io::ErrorKind::PermissionDenied => format!(
            "fnd may not open port {port}; let systemd open it: `systemctl edit fnd-http.socket` with \
             `ListenStream={address}`, then `systemctl enable fnd-http.socket` and `systemctl restart fnd`"
        ),
        io::ErrorKind::AddrNotAvailable => format!("this machine does not have the address {}", address.ip()),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
