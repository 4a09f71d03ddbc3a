//! A link between a node and a server of NATS: it forwards the bytes of each connection, and can hold them, delay them, or cut the
//! link, as a network does.

use crate::wait::now;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The way of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    FromServer,
}

/// A link. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    link: Arc<Link>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Link {
    server: SocketAddr,
    state: Mutex<LinkState>,
    /// Something in the state is another than before.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LinkState {
    /// Bytes to the server wait.
    holds_to: bool,
    /// Bytes from the server wait.
    holds_from: bool,
    /// What each byte takes longer.
    delay: Duration,
    /// Nobody gets a connection.
    is_cut: bool,
    has_ended: bool,
    /// Both ends of the connections.
    open: BTreeMap<u64, [TcpStream; 2]>,
    next: u64,
}

impl LinkState {
    fn holds(&mut self, way: Way) -> &mut bool {
        match way {
            Way::ToServer => &mut self.holds_to,
            Way::FromServer => &mut self.holds_from,
        }
    }

    /// Ends a connection, with what is on its way.
    fn end(&mut self, number: u64) {
        for end in self.open.remove(&number).into_iter().flatten() {
            let _ = end.shutdown(Shutdown::Both); // an error: the other side was quicker
        }
    }

    fn end_all(&mut self) {
        let all: Vec<u64> = self.open.keys().copied().collect();
        all.into_iter().for_each(|number| self.end(number));
    }
}

impl Forwarder {
    /// Begins to forward to a port of the loopback address.
    ///
    /// # Panics
    /// When there is no port, or no thread.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on the loopback address");
        let address = listener.local_addr().expect("a bound socket has an address");
        let link = Arc::new(Link {
            server: (Ipv4Addr::LOCALHOST, port).into(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let of_thread = Arc::clone(&link);
        let thread = std::thread::spawn(move || take_connections(&of_thread, &listener));
        Self {
            link,
            address,
            thread: Some(thread),
        }
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Holds what goes this way: the connections stay open, and nothing comes through, until [`release`](Self::release).
    pub fn hold(&self, way: Way) {
        self.link.change(|state| *state.holds(way) = true);
    }

    /// Lets what was held on this way come through.
    pub fn release(&self, way: Way) {
        self.link.change(|state| *state.holds(way) = false);
    }

    /// Holds both ways, as a network that drops everything.
    pub fn stall(&self) {
        self.link
            .change(|state| (state.holds_to, state.holds_from) = (true, true));
    }

    /// Lets each byte take so much longer.
    pub fn delay(&self, delay: Duration) {
        self.link.change(|state| state.delay = delay);
    }

    /// Ends all connections, with what is on its way, and lets nobody connect, until [`mend`](Self::mend).
    pub fn cut(&self) {
        self.link.change(|state| {
            state.is_cut = true;
            state.end_all();
        });
    }

    /// Lets everything through again, at once.
    pub fn mend(&self) {
        self.link.change(|state| {
            (state.holds_to, state.holds_from) = (false, false);
            (state.is_cut, state.delay) = (false, Duration::ZERO);
        });
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.link.state().open.len()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.link.change(|state| {
            state.has_ended = true;
            state.end_all();
        });
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic was printed
        }
    }
}

impl Link {
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut LinkState)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until a connection lets bytes through that are due then. Returns whether it still is one.
    fn lets_through(&self, number: u64, way: Way, due: Instant) -> bool {
        let mut state = self.state();
        while state.open.contains_key(&number) {
            let rest = due.saturating_duration_since(now());
            if *state.holds(way) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if rest.is_zero() {
                return true;
            } else {
                let waited = self.changed.wait_timeout(state, rest);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        false
    }
}

fn take_connections(link: &Arc<Link>, listener: &TcpListener) {
    for client in listener.incoming() {
        let (has_ended, is_cut) = {
            let state = link.state();
            (state.has_ended, state.is_cut)
        };
        if has_ended {
            return;
        }
        // A server that is away ends the connection of the client as a cut link does.
        if let (Ok(client), false) = (client, is_cut)
            && let Ok(server) = TcpStream::connect(link.server)
        {
            let _ = join(link, &client, &server); // an error: one of the two has ended already
        }
    }
}

/// Joins two connections by a thread for each way.
fn join(link: &Arc<Link>, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = [client.try_clone()?, server.try_clone()?];
    let ways = [
        (Way::ToServer, client.try_clone()?, server.try_clone()?),
        (Way::FromServer, server.try_clone()?, client.try_clone()?),
    ];
    let number = {
        let mut state = link.state();
        // The link may have been cut while the server was connected to.
        if state.is_cut || state.has_ended {
            return Ok(());
        }
        state.next += 1;
        let number = state.next;
        state.open.insert(number, ends);
        number
    };
    for (way, from, to) in ways {
        let (read, written) = channel();
        let (reading, writing) = (Arc::clone(link), Arc::clone(link));
        // They end with the sockets, which the link keeps.
        drop(std::thread::spawn(move || read_all(&reading, from, &read)));
        drop(std::thread::spawn(move || {
            write_all(&writing, (number, way), to, &written);
        }));
    }
    Ok(())
}

/// Reads until the end of a connection, and says when each part is due on the other side.
fn read_all(link: &Link, mut from: TcpStream, read: &Sender<(Instant, Vec<u8>)>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let due = now() + link.state().delay;
        let part = bytes.iter().take(count).copied().collect();
        if read.send((due, part)).is_err() {
            return;
        }
    }
}

/// Writes what was read, each part when it is due; then the connection ends.
fn write_all(link: &Link, (number, way): (u64, Way), mut to: TcpStream, written: &Receiver<(Instant, Vec<u8>)>) {
    for (due, part) in written {
        if !link.lets_through(number, way, due) || to.write_all(&part).is_err() {
            break;
        }
    }
    // The end comes through like everything before it.
    let _ = link.lets_through(number, way, now());
    link.change(|state| state.end(number));
}
