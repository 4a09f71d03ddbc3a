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

use super::limits::{CONNECTIONS_FOR_ROOT, CONNECTIONS_MAX, CONNECTIONS_OF_ONE};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// The open connections of the control socket.
#[derive(Debug, Default)]
pub struct Connections {
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
        Ok(Rc::new(connection))
    }

    fn make_room(&self, uid: u32) -> Result<(), Full> {
        let is_root = uid == 0;
        if !is_root && self.open_of(uid) >= CONNECTIONS_OF_ONE {
            return self.evict(|other| other == uid).then_some(()).ok_or(Full::User(uid));
        }
        let most = if is_root {
            CONNECTIONS_MAX
        } else {
            CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT
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
                "{} connections to the control socket are open{}: one user may have {CONNECTIONS_OF_ONE}, all but root {}; \
                 more are refused (`ss -xp` names the processes)",
                self.open.get(),
                most.unwrap_or_default(),
                CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT
            )
        })
    }

    /// Checks whether places are scarce. The threshold for the end is lower than that for the beginning: otherwise each
    /// connection opened and closed at the limit would cause a report.
    fn check_scarcity(&self) {
        let limit = |most: usize| if self.scarce.get() { most * 3 / 4 } else { most };
        let users = self.users.borrow();
        let of_one = users.iter().filter(|(uid, _)| **uid != 0).map(|(_, open)| *open).max();
        let scarce = of_one >= Some(limit(CONNECTIONS_OF_ONE))
            || self.open.get() >= limit(CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT);
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
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const ADA: u32 = 1000;
    const BOB: u32 = 1001;

    fn evicted(connection: &Connection) -> bool {
        connection.evicted().now_or_never().is_some()
    }

    #[test]
    fn the_longest_idle_makes_room_and_busy_ones_stay() {
        let all = Rc::new(Connections::default());
        let mut open: Vec<_> = (0..CONNECTIONS_MAX).map(|_| all.admit(0).unwrap()).collect();
        let first_busy = open[0].busy();
        let newcomer = all.admit(0).unwrap();
        assert!(!evicted(&open[0]));
        assert!(evicted(&open[1]));
        drop(open.remove(1));
        // Everybody is busy: nobody makes room, until one is done.
        let mut busy: Vec<_> = open.iter().skip(1).chain([&newcomer]).map(Connection::busy).collect();
        assert_eq!(all.admit(0).err(), Some(Full::All));
        drop(first_busy);
        let another = all.admit(0).unwrap();
        assert!(evicted(&open[0]));
        busy.clear();
        drop((open, newcomer, another));
        assert_eq!((all.open.get(), all.yielding.borrow().len()), (0, 0));
        assert_eq!((all.by_user(), all.refused()), (Vec::new(), 1));
    }

    #[test]
    fn one_user_has_half_of_the_places_and_root_keeps_some() {
        let all = Rc::new(Connections::default());
        let held: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
        let busy: Vec<_> = held.iter().map(Connection::busy).collect();
        assert_eq!(all.admit(ADA).err(), Some(Full::User(ADA)));
        let problem = all.problem().unwrap();
        assert!(problem.contains("500 of them by the user 1000"), "{problem}");
        let rest = CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT - CONNECTIONS_OF_ONE;
        let others: Vec<_> = (0..rest).map(|_| all.admit(BOB).unwrap()).collect();
        let others_busy: Vec<_> = others.iter().map(Connection::busy).collect();
        assert_eq!(all.admit(BOB).err(), Some(Full::All));
        let roots: Vec<_> = (0..CONNECTIONS_FOR_ROOT).map(|_| all.admit(0).unwrap()).collect();
        assert_eq!(
            all.by_user(),
            [(0, CONNECTIONS_FOR_ROOT), (ADA, CONNECTIONS_OF_ONE), (BOB, rest)]
        );
        // Root's are idle, and make way for nobody but root.
        assert_eq!(all.admit(BOB).err(), Some(Full::All));
        assert!(all.admit(0).is_ok());
        assert!(evicted(&roots[0]));
        drop((busy, others_busy, others, roots));
        assert!(all.problem().is_some());
        drop(held);
        assert_eq!(all.problem(), None);
    }

    #[test]
    fn followers_give_way_after_idle_ones_and_for_their_own_user_first() {
        let all = Rc::new(Connections::default());
        let held: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
        let busy: Vec<_> = held.iter().map(Connection::busy).collect();
        busy[3].follows();
        busy[2].follows();
        let other = all.admit(BOB).unwrap();
        assert!(all.admit(ADA).is_ok());
        assert!(evicted(&held[3]) && !evicted(&held[2]) && !evicted(&other));
        assert!(all.admit(ADA).is_ok());
        assert!(evicted(&held[2]));
        assert_eq!(all.admit(ADA).err(), Some(Full::User(ADA)));
    }

    #[test]
    fn at_the_limit_of_all_the_user_with_the_most_gives_way() {
        let all = Rc::new(Connections::default());
        let few = all.admit(BOB).unwrap();
        let many: Vec<_> = (0..CONNECTIONS_OF_ONE).map(|_| all.admit(ADA).unwrap()).collect();
        let rest = CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT - CONNECTIONS_OF_ONE - 1;
        let _rest: Vec<_> = (0..rest)
            .map(|n| all.admit(2000 + u32::try_from(n).unwrap()).unwrap())
            .collect();
        assert!(all.admit(3000).is_ok());
        assert!(evicted(&many[0]) && !evicted(&few));
    }
}
