//! Tracks the open connections and their users, and decides which connections are closed at the limit.
//!
//! A user other than root has at most half of the places, and some places are reserved for root, so that no user can
//! lock an administrator out. At a limit an idle connection is closed; if none is idle, the oldest connection that only
//! follows (a stream, a log) is closed. No connection that waits for an answer is closed for this.
//!
//! ```text
//! opened ─▶ idle ─▶ busy (request to end of answer) ─▶ idle ─▶ ... ─▶ closed
//!             │       └─▶ following (an answer without an end)
//!             └──────────────┴─ evicted: must close
//! ```

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// The places of a socket.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// Most open connections.
    pub all: usize,
    /// Connections that one user may have open, unless it is root.
    pub of_one: usize,
    /// Connections that are reserved for root.
    pub for_root: usize,
}

impl Places {
    /// Returns how many connections all users but root may have open.
    fn but_roots(&self) -> usize {
        self.all - self.for_root
    }
}

/// The open connections of a socket.
#[derive(Debug)]
pub struct Connections {
    places: Places,
    open: Cell<usize>,
    /// Number of open connections of each user.
    users: RefCell<BTreeMap<u32, usize>>,
    /// Counts how often a connection became idle or began to follow; a smaller number is longer ago.
    ticks: Cell<u64>,
    /// The connections that can be closed, in the order in which they are.
    yielding: RefCell<BTreeMap<Turn, (u32, Rc<Notify>)>>,
    refused: Cell<u64>,
    silent: Cell<u64>,
    /// Whether the status reports that places are scarce.
    scarce: Cell<bool>,
    changed: OnceCell<Changed>,
}

/// Called when places become scarce, or sufficient again.
struct Changed(Box<dyn Fn()>);

impl std::fmt::Debug for Changed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Changed")
    }
}

/// When a connection is closed: all idle ones before all that follow, and the oldest first in each group.
type Turn = (Activity, u64);

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
    /// The user has as many connections as one user may have.
    User(u32),
}

impl Connections {
    /// Returns the accounting of a socket without connections.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self {
            places,
            open: Cell::default(),
            users: RefCell::default(),
            ticks: Cell::default(),
            yielding: RefCell::default(),
            refused: Cell::default(),
            silent: Cell::default(),
            scarce: Cell::default(),
            changed: OnceCell::default(),
        }
    }

    /// Returns a place for a connection of a user; closes another connection if needed.
    ///
    /// # Errors
    /// The limit that is reached: all connections within it wait for an answer.
    pub(crate) fn admit(self: &Rc<Self>, uid: u32) -> Result<Rc<Connection>, Full> {
        let room = self.make_room(uid);
        if room.is_err() {
            self.refused.set(self.refused.get() + 1);
        }
        room?;
        Ok(self.open(uid))
    }

    /// Returns a place for a connection if one is free; closes no other connection.
    pub(crate) fn admit_if_free(self: &Rc<Self>, uid: u32) -> Option<Rc<Connection>> {
        (self.open.get() < self.places.all).then(|| self.open(uid))
    }

    fn open(self: &Rc<Self>, uid: u32) -> Rc<Connection> {
        self.open.set(self.open.get() + 1);
        *self.users.borrow_mut().entry(uid).or_default() += 1;
        let connection = Connection {
            all: Rc::clone(self),
            uid,
            evicted: Rc::default(),
            turn: Cell::new(None),
        };
        connection.rest(Activity::Idle);
        self.check_scarcity();
        Rc::new(connection)
    }

    fn make_room(&self, uid: u32) -> Result<(), Full> {
        let is_root = uid == 0;
        if !is_root && self.open_of(uid) >= self.places.of_one {
            return self.evict(|other| other == uid).then_some(()).ok_or(Full::User(uid));
        }
        let most = if is_root {
            self.places.all
        } else {
            self.places.but_roots()
        };
        // Connections of root are closed for root only.
        let room = self.open.get() < most || self.evict(|other| is_root || other != 0);
        room.then_some(()).ok_or(Full::All)
    }

    /// Tells a connection to close; returns whether there was one to close. It closes when its task runs next; until
    /// then there is one connection more than the limit.
    fn evict(&self, whose: impl Fn(u32) -> bool) -> bool {
        let mut yielding = self.yielding.borrow_mut();
        let users = self.users.borrow();
        // In the same group, the user with the most connections loses one, so that many connections do not drive out
        // few.
        let candidates = yielding.iter().filter(|(_, (uid, _))| whose(*uid));
        let first = candidates.min_by_key(|((activity, tick), (uid, _))| {
            let of_user = users.get(uid).copied().unwrap_or_default();
            (*activity, std::cmp::Reverse(of_user), *tick)
        });
        let Some(turn) = first.map(|(turn, _)| *turn) else {
            return false;
        };
        if let Some((_, evicted)) = yielding.remove(&turn) {
            evicted.notify_one();
        }
        true
    }

    fn open_of(&self, uid: u32) -> usize {
        self.users.borrow().get(&uid).copied().unwrap_or_default()
    }

    /// Returns how many connections each user has open.
    #[must_use]
    pub fn by_user(&self) -> Vec<(u32, usize)> {
        self.users.borrow().iter().map(|(uid, open)| (*uid, *open)).collect()
    }

    /// Returns how many connections were refused so far because too many were open.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Returns how many connections were closed so far because nothing was ever sent on them.
    #[must_use]
    pub fn silent(&self) -> u64 {
        self.silent.get()
    }

    /// Sets a callback for the times when [`Self::problem`] begins or ends.
    pub fn on_change(&self, changed: impl Fn() + 'static) {
        let _ = self.changed.set(Changed(Box::new(changed))); // the first one stays
    }

    /// Returns the problem that the status shows from when a limit is reached until a quarter of the places is free
    /// again.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.scarce.get().then(|| {
            let users = self.users.borrow();
            let most = users.iter().max_by_key(|(_, open)| **open);
            let most = most.map(|(uid, open)| format!(", {open} of them by the user {uid}"));
            format!(
                "{} connections to the control socket are open{}: one user may have {}, all but root {}; \
                 more are refused (`ss -xp` names the processes)",
                self.open.get(),
                most.unwrap_or_default(),
                self.places.of_one,
                self.places.but_roots()
            )
        })
    }

    /// Checks whether places are scarce. The threshold for the end is lower than that for the beginning: otherwise each
    /// connection opened and closed at the limit would cause a report.
    fn check_scarcity(&self) {
        let limit = |most: usize| if self.scarce.get() { most * 3 / 4 } else { most };
        let users = self.users.borrow();
        let of_one = users.iter().filter(|(uid, _)| **uid != 0).map(|(_, open)| *open).max();
        let scarce = of_one >= Some(limit(self.places.of_one)) || self.open.get() >= limit(self.places.but_roots());
        drop(users);
        if self.scarce.replace(scarce) != scarce
            && let Some(Changed(changed)) = self.changed.get()
        {
            changed();
        }
    }
}

/// One open connection; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Connection {
    all: Rc<Connections>,
    uid: u32,
    evicted: Rc<Notify>,
    /// Its key among the connections that can be closed; nothing while it is busy.
    turn: Cell<Option<Turn>>,
}

impl Connection {
    /// Resolves when the connection has to close.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the connection busy until the guard is dropped.
    pub(crate) fn busy(self: &Rc<Self>) -> Busy {
        self.wake();
        Busy(Rc::clone(self))
    }

    /// Returns whether a request is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        !matches!(self.turn.get(), Some((Activity::Idle, _)))
    }

    /// Counts the connection as closed because the client sent nothing on it.
    pub(crate) fn was_silent(&self) {
        self.all.silent.set(self.all.silent.get() + 1);
    }

    fn wake(&self) {
        if let Some(turn) = self.turn.take() {
            self.all.yielding.borrow_mut().remove(&turn);
        }
    }

    fn rest(&self, activity: Activity) {
        self.wake();
        let turn = (activity, self.all.ticks.get());
        self.all.ticks.set(turn.1 + 1);
        self.turn.set(Some(turn));
        let entry = (self.uid, Rc::clone(&self.evicted));
        self.all.yielding.borrow_mut().insert(turn, entry);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.wake();
        self.all.open.set(self.all.open.get() - 1);
        let mut users = self.all.users.borrow_mut();
        if let Some(open) = users.get_mut(&self.uid) {
            *open -= 1;
            if *open == 0 {
                users.remove(&self.uid);
            }
        }
        drop(users);
        self.all.check_scarcity();
    }
}

/// A request being answered.
#[derive(Debug)]
pub(crate) struct Busy(Rc<Connection>);

impl Busy {
    /// Allows closing the connection although its answer has not ended, because the answer has no end.
    pub(crate) fn follows(&self) {
        self.0.rest(Activity::Following);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest(Activity::Idle);
    }
}

#[cfg(test)]
mod tests;
