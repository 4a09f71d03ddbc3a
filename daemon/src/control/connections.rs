//! Which connections are open and which of them are idle: at the limit the one idle for longest makes room.
//!
//! ```text
//! opened ─▶ idle ─▶ busy (request to end of answer) ─▶ idle ─▶ ... ─▶ closed
//!             └─ evicted: told to close
//! ```

use super::limits::CONNECTIONS_MAX;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Cell<usize>,
    /// Counts the times a connection became idle; smaller is longer ago.
    ticks: Cell<u64>,
    /// Idle ones by when they became so.
    idle: RefCell<BTreeMap<u64, Rc<Notify>>>,
}

impl Connections {
    /// Returns a place for a connection, making room if needed; nothing where every place is busy.
    pub(super) fn admit(self: &Rc<Self>) -> Option<Rc<Connection>> {
        if self.open.get() >= CONNECTIONS_MAX {
            let (_, oldest) = self.idle.borrow_mut().pop_first()?;
            // It closes when its task runs next; until then one more than the limit is open.
            oldest.notify_one();
        }
        self.open.set(self.open.get() + 1);
        let connection = Connection {
            all: Rc::clone(self),
            evicted: Rc::default(),
            idle_since: Cell::new(None),
        };
        connection.rest();
        Some(Rc::new(connection))
    }
}

/// One open connection; its place is free when this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    all: Rc<Connections>,
    evicted: Rc<Notify>,
    /// Its key among the idle ones.
    idle_since: Cell<Option<u64>>,
}

impl Connection {
    /// Resolves when the connection is to close.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the connection busy until the guard is dropped.
    pub(super) fn busy(self: &Rc<Self>) -> Busy {
        self.wake();
        Busy(Rc::clone(self))
    }

    fn wake(&self) {
        if let Some(since) = self.idle_since.take() {
            self.all.idle.borrow_mut().remove(&since);
        }
    }

    fn rest(&self) {
        let tick = self.all.ticks.get();
        self.all.ticks.set(tick + 1);
        self.idle_since.set(Some(tick));
        self.all.idle.borrow_mut().insert(tick, Rc::clone(&self.evicted));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.wake();
        self.all.open.set(self.all.open.get() - 1);
    }
}

/// A request being answered.
#[derive(Debug)]
pub(super) struct Busy(Rc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn the_longest_idle_makes_room_and_busy_ones_stay() {
        let all = Rc::new(Connections::default());
        let mut open: Vec<_> = (0..CONNECTIONS_MAX).map(|_| all.admit().unwrap()).collect();
        let first_busy = open[0].busy();
        let newcomer = all.admit().unwrap();
        assert!(open[0].evicted().now_or_never().is_none());
        assert!(open[1].evicted().now_or_never().is_some());
        drop(open.remove(1));
        // Everybody is busy: nobody makes room, until one is done.
        let mut busy: Vec<_> = open.iter().skip(1).chain([&newcomer]).map(Connection::busy).collect();
        assert!(all.admit().is_none());
        drop(first_busy);
        let another = all.admit().unwrap();
        assert!(open[0].evicted().now_or_never().is_some());
        busy.clear();
        drop((open, newcomer, another));
        assert_eq!((all.open.get(), all.idle.borrow().len()), (0, 0));
    }
}
