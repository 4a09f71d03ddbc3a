//! Tracks the open connections and their owners, and decides which connections are closed at the limit.
//!
//! An owner is a local user or a network address. It has at most a part of the places, and some places are reserved for
//! root, so that nobody can lock the others or an administrator out. At a limit an idle connection is closed; if none
//! is idle, the oldest connection that only follows (a stream, a log) is closed. No connection that waits for an answer
//! is closed for this.
//!
//! ```text
//! opened ─▶ idle ─▶ busy (request to end of the last answer) ─▶ idle ─▶ ... ─▶ closed
//!             │       └─▶ following (all answers without an end)
//!             └──────────────┴─ evicted: must close
//! ```

use fnd_core::triggers::route::rate::network;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The places of a socket.
#[derive(Debug, Clone, Copy)]
pub struct SocketPlaces {
    /// Most open connections.
    pub all: usize,
    /// Connections that one owner may have open, unless it is root or exempt.
    pub of_one: usize,
    /// Connections that are reserved for root.
    pub for_root: usize,
}

impl SocketPlaces {
    /// Returns how many connections all owners but root may have open.
    fn but_roots(&self) -> usize {
        self.all - self.for_root
    }
}

/// Whose connections are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionOwner {
    User(u32),
    /// A network address. Of an IPv6 address only the first 64 bits count: one client has all the rest.
    Address(IpAddr),
    /// Callers that only share the limit of all: a proxy that is trusted, or a Unix socket behind one.
    Exempt,
}

impl ConnectionOwner {
    const ROOT: Self = Self::User(0);

    /// Returns the owner that an address belongs to.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self::Address(network(address))
    }

    fn is_limited(self) -> bool {
        !matches!(self, Self::ROOT | Self::Exempt)
    }
}

impl fmt::Display for ConnectionOwner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(formatter, "the user {uid}"),
            Self::Address(address @ IpAddr::V4(_)) => write!(formatter, "the address {address}"),
            Self::Address(address) => write!(formatter, "the addresses {address}/64"),
            Self::Exempt => formatter.write_str("trusted proxies and Unix sockets"),
        }
    }
}

/// The open connections of a server.
#[derive(Debug)]
pub struct Connections {
    /// The server's name in messages.
    name: &'static str,
    places: Cell<SocketPlaces>,
    pub(super) open: Cell<usize>,
    /// Number of open connections of each owner.
    owners: RefCell<BTreeMap<ConnectionOwner, usize>>,
    /// Counts how often a connection became idle or began to follow; a smaller number is longer ago.
    ticks: Cell<u64>,
    /// The connections that can be closed, in the order in which they are.
    yielding: RefCell<BTreeMap<ClosingOrder, (ConnectionOwner, Rc<Notify>)>>,
    pub(crate) refused: Cell<u64>,
    pub(crate) silent: Cell<u64>,
    /// Whether the status reports that places are scarce.
    scarce: Cell<bool>,
    changed: OnceCell<ConnectionNotice>,
}

/// Called when places become scarce, or sufficient again.
struct ConnectionNotice(Box<dyn Fn()>);

impl std::fmt::Debug for ConnectionNotice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Changed")
    }
}

/// When a connection is closed: all idle ones before all that follow, and the oldest first in each group.
type ClosingOrder = (Activity, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Idle,
    Following,
}

/// A limit that refuses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// All places are in use.
    All,
    /// The owner has as many connections as one may have.
    One(ConnectionOwner),
}

impl Connections {
    /// Returns the accounting of a server without connections. `name` is its name in messages.
    #[must_use]
    pub fn new(name: &'static str, places: SocketPlaces) -> Self {
        Self {
            name,
            places: Cell::new(places),
            open: Cell::default(),
            owners: RefCell::default(),
            ticks: Cell::default(),
            yielding: RefCell::default(),
            refused: Cell::default(),
            silent: Cell::default(),
            scarce: Cell::default(),
            changed: OnceCell::default(),
        }
    }

    /// Changes the number of places. Connections that are open stay.
    pub fn set_places(&self, places: SocketPlaces) {
        self.places.set(places);
        self.check_scarcity();
    }

    /// Returns a place for a connection of an owner; closes another connection if needed.
    ///
    /// # Errors
    /// The limit that is reached: all connections within it wait for an answer.
    pub(crate) fn admit(self: &Rc<Self>, owner: ConnectionOwner) -> Result<Rc<HttpConnection>, Full> {
        let room = self.make_room(owner);
        room.inspect_err(|_| self.refused.set(self.refused.get() + 1))?;
        Ok(self.open(owner))
    }

    /// Returns a place for a connection if one is free; closes no other connection.
    pub(crate) fn admit_if_free(self: &Rc<Self>, owner: ConnectionOwner) -> Option<Rc<HttpConnection>> {
        (self.open.get() < self.places.get().all).then(|| self.open(owner))
    }

    fn open(self: &Rc<Self>, owner: ConnectionOwner) -> Rc<HttpConnection> {
        self.open.set(self.open.get() + 1);
        *self.owners.borrow_mut().entry(owner).or_default() += 1;
        let connection = HttpConnection {
            all: Rc::clone(self),
            owner,
            evicted: Rc::default(),
            answers: Cell::default(),
            following: Cell::default(),
            turn: Cell::new(None),
            rests_since: Cell::new(Instant::now()),
        };
        connection.rest(Activity::Idle);
        self.check_scarcity();
        Rc::new(connection)
    }

    fn make_room(&self, owner: ConnectionOwner) -> Result<(), Full> {
        let places = self.places.get();
        if owner.is_limited() && self.owners.borrow().get(&owner).copied().unwrap_or_default() >= places.of_one {
            // One of its own connections has to go: an owner at its limit takes no place from others.
            return self.evict(|other| other == owner).then_some(()).ok_or(Full::One(owner));
        }
        let is_root = owner == ConnectionOwner::ROOT;
        let most = if is_root { places.all } else { places.but_roots() };
        // Connections of root are closed for root only.
        let room = self.open.get() < most || self.evict(|other| is_root || other != ConnectionOwner::ROOT);
        room.then_some(()).ok_or(Full::All)
    }

    /// Tells a connection to close; returns whether there was one to close. It closes when its task runs next; until
    /// then there is one connection more than the limit.
    fn evict(&self, whose: impl Fn(ConnectionOwner) -> bool) -> bool {
        let mut yielding = self.yielding.borrow_mut();
        let owners = self.owners.borrow();
        // In the same group, the owner with the most connections loses one, so that many connections do not drive out
        // few.
        let candidates = yielding.iter().filter(|(_, (owner, _))| whose(*owner));
        let first = candidates.min_by_key(|((activity, tick), (owner, _))| {
            let of_owner = owners.get(owner).copied().unwrap_or_default();
            (*activity, std::cmp::Reverse(of_owner), *tick)
        });
        let Some(turn) = first.map(|(turn, _)| *turn) else {
            return false;
        };
        if let Some((_, evicted)) = yielding.remove(&turn) {
            // `notify_one` is remembered, so a connection that does not wait for it yet still hears of it.
            evicted.notify_one();
        }
        true
    }

    /// Returns how many connections each owner has open.
    #[must_use]
    pub fn by_owner(&self) -> Vec<(ConnectionOwner, usize)> {
        self.owners
            .borrow()
            .iter()
            .map(|(owner, open)| (*owner, *open))
            .collect()
    }

    /// Sets a callback for the times when [`Self::problem`] begins or ends.
    pub fn on_change(&self, changed: impl Fn() + 'static) {
        let _ = self.changed.set(ConnectionNotice(Box::new(changed))); // the first one stays
    }

    /// Returns the problem that the status shows from when a limit is reached until a quarter of the places is free
    /// again.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.scarce.get().then(|| {
            let owners = self.owners.borrow();
            let most = owners
                .iter()
                .max_by_key(|(_, open)| **open)
                .map(|(owner, open)| (*owner, *open));
            let places = self.places.get();
            let (one, command, found) = match most {
                Some((ConnectionOwner::Address(_), _)) => ("address", "`ss -tn`", "the clients"),
                _ => ("user", "`ss -xp`", "the processes"),
            };
            format!(
                "{} connections to {} are open{}: one {one} may have {}, all{} {}; more are refused ({command} names {found})",
                self.open.get(),
                self.name,
                most.map(|(owner, open)| format!(", {open} of them by {owner}"))
                    .unwrap_or_default(),
                places.of_one,
                if places.for_root > 0 { " but root" } else { "" },
                places.but_roots(),
            )
        })
    }

    /// Checks whether places are scarce. The threshold for the end is lower than that for the beginning: otherwise each
    /// connection opened and closed at the limit would cause a report.
    fn check_scarcity(&self) {
        let places = self.places.get();
        let limit = |most: usize| if self.scarce.get() { most * 3 / 4 } else { most };
        // One network address at its limit is that client's own affair: anybody can do that.
        let owners = self.owners.borrow();
        let users = owners
            .iter()
            .filter(|(owner, _)| matches!(owner, ConnectionOwner::User(_)) && owner.is_limited());
        let of_one = users.map(|(_, open)| *open).max();
        let scarce = of_one >= Some(limit(places.of_one)) || self.open.get() >= limit(places.but_roots());
        // The callback may look at the owners, so they are not borrowed any more.
        drop(owners);
        if self.scarce.replace(scarce) != scarce
            && let Some(ConnectionNotice(changed)) = self.changed.get()
        {
            changed();
        }
    }
}

/// One open connection; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(super) all: Rc<Connections>,
    owner: ConnectionOwner,
    evicted: Rc<Notify>,
    /// Number of requests that are being answered; HTTP/2 has more than one.
    pub(super) answers: Cell<usize>,
    /// How many of these answers have no end.
    following: Cell<usize>,
    /// Its key among the connections that can be closed; nothing while it is busy.
    turn: Cell<Option<ClosingOrder>>,
    /// When it last became idle or began to follow.
    rests_since: Cell<Instant>,
}

impl HttpConnection {
    /// Resolves when the connection has to close.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the connection busy until the guard is dropped.
    pub(crate) fn busy(self: &Rc<Self>) -> Busy {
        self.answers.set(self.answers.get() + 1);
        self.wake();
        Busy {
            connection: Rc::clone(self),
            follows: Cell::new(false),
        }
    }

    /// Returns whether a request is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        self.answers.get() > 0
    }

    /// Returns since when the connection has been without a request; nothing if one is being answered.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (!self.is_answering()).then(|| self.rests_since.get())
    }

    fn wake(&self) {
        if let Some(turn) = self.turn.take() {
            self.all.yielding.borrow_mut().remove(&turn);
        }
    }

    /// Lets the connection be closed for others if no caller waits for an answer on it.
    fn rest_or_stay(&self) {
        if self.answers.get() == 0 {
            self.rest(Activity::Idle);
        } else if self.following.get() == self.answers.get() {
            self.rest(Activity::Following);
        }
    }

    fn rest(&self, activity: Activity) {
        self.wake();
        let turn = (activity, self.all.ticks.get());
        self.all.ticks.set(turn.1 + 1);
        self.turn.set(Some(turn));
        self.rests_since.set(Instant::now());
        let entry = (self.owner, Rc::clone(&self.evicted));
        self.all.yielding.borrow_mut().insert(turn, entry);
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.wake();
        self.all.open.set(self.all.open.get() - 1);
        let mut owners = self.all.owners.borrow_mut();
        if let Some(open) = owners.get_mut(&self.owner) {
            *open -= 1;
            if *open == 0 {
                owners.remove(&self.owner);
            }
        }
        // `check_scarcity` borrows the owners itself.
        drop(owners);
        self.all.check_scarcity();
    }
}

/// A request being answered.
#[derive(Debug)]
pub(crate) struct Busy {
    connection: Rc<HttpConnection>,
    follows: Cell<bool>,
}

impl Busy {
    /// Allows closing the connection although its answer has not ended, because the answer has no end.
    pub(crate) fn follows(&self) {
        if !self.follows.replace(true) {
            self.connection.following.set(self.connection.following.get() + 1);
            self.connection.rest_or_stay();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.answers.set(connection.answers.get() - 1);
        if self.follows.get() {
            connection.following.set(connection.following.get() - 1);
        }
        connection.rest_or_stay();
    }
}

#[cfg(test)]
mod tests;
