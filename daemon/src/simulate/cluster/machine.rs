//! A machine among several: its world, and its link to the server. The fuse and the wall clock belong to the thread, so a machine
//! has them only while something happens on it.

use crate::clock::{simulated, unix_ms};
use crate::effects::fuse;
use crate::simulate::clock::BEGIN_MS;
use crate::simulate::jetstream::{NodeLink, Wire};
use crate::simulate::life::FndLife;
use crate::simulate::rows::{MessageRow, RowReader};
use crate::simulate::world::World;
use fnd_wire::ids::InvocationId;
use std::time::Duration;

/// The thread of NATS goes on while the main loop has room for more facts than one step of the thread has.
const ROOM: usize = 512;

pub(super) struct Machine<'a> {
    /// The name of its node, which another machine may have, too.
    pub(super) name: String,
    pub(super) world: World<'a>,
    pub(super) link: NodeLink,
    pub(super) wire: Wire,
    /// fnd is stopped by a signal.
    pub(super) is_stopped: bool,
    /// No fnd starts.
    pub(super) is_down: bool,
    fuse: Option<u32>,
    /// The sum of all steps of its wall clock.
    stepped_ms: i64,
    /// The number of the fnd that has the link.
    life: u32,
    /// Whether the steps of the world are those that are possible now.
    pub(super) is_listed: bool,
}

/// Returns the time on a wall clock that was never set.
pub(super) fn wall_ms(now: Duration) -> u64 {
    BEGIN_MS + u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl<'a> Machine<'a> {
    pub(super) fn new(name: &str, mut world: World<'a>, wire: Wire) -> Self {
        world.node.spawner.nats_node = Some(name.to_owned());
        Self {
            name: name.to_owned(),
            world,
            link: NodeLink::default(),
            wire,
            is_stopped: false,
            is_down: false,
            fuse: None,
            stepped_ms: 0,
            life: 0,
            is_listed: false,
        }
    }

    /// Lets something happen on this machine, at a time since the begin of the simulation.
    pub(super) fn inside<T>(&mut self, now: Duration, act: impl FnOnce(&mut World<'a>) -> T) -> T {
        let wall_ms = wall_ms(now);
        simulated::set(Some(wall_ms.saturating_add_signed(self.stepped_ms)));
        fuse::set(self.fuse);
        let done = act(&mut self.world);
        self.fuse = fuse::rest();
        self.stepped_ms = unix_ms().cast_signed() - wall_ms.cast_signed();
        self.follow_life();
        self.is_listed = false;
        done
    }

    /// Gives the link to the fnd that runs now: the connection of one that has ended is closed.
    fn follow_life(&mut self) {
        let life = self.world.life.as_ref().map_or(0, |_| self.world.lives);
        if life != self.life {
            self.life = life;
            self.link = NodeLink::default();
            self.wire.close();
        }
    }

    /// Returns the message of an invocation, as the ledger has it.
    pub(super) fn message(&self, id: InvocationId) -> Option<MessageRow> {
        match &self.world.reader {
            Some(reader) => reader.message(id),
            // No fnd runs, and the spawner and the workers still carry out what the last one has asked for.
            None => RowReader::open(&self.world.node.ledger()).message(id),
        }
    }

    /// Returns whether fnd does nothing.
    pub(super) fn is_held(&self) -> bool {
        self.is_stopped || self.is_down
    }

    /// Returns whether nothing hinders its fnd in taking messages.
    pub(super) fn is_fine(&self) -> bool {
        let is_fast = self.wire.slow.is_none() && self.wire.late.is_none() && self.wire.cut_since.is_none();
        !self.is_held() && is_fast && self.link.is_up()
    }

    /// Returns whether fnd has asked its thread of NATS for something.
    pub(super) fn has_request(&self) -> bool {
        let life = self.world.life.as_ref();
        self.has_running_link() && life.is_some_and(|life| !life.nats.waiting.is_empty())
    }

    /// Lets the thread of NATS take a request of fnd.
    pub(super) fn take_request(&mut self, now: Duration) {
        let life = self.world.life.as_mut();
        if let Some(request) = life.and_then(|life| life.nats.waiting.try_recv().ok()) {
            self.link.request(request, &mut self.wire, now);
        }
        self.hand_over();
    }

    /// Hands what the thread of NATS says to fnd.
    pub(super) fn hand_over(&mut self) {
        self.is_listed = false;
        for fact in self.link.facts.drain(..) {
            if let Some(life) = &self.world.life {
                life.nats.facts.try_send(fact).expect("there is room for it");
            }
        }
    }

    /// Returns whether the thread of NATS goes on: it waits where the main loop has too much to read.
    pub(super) fn has_running_link(&self) -> bool {
        let has_room = |life: &FndLife| life.nats.facts.capacity() > ROOM;
        !self.is_held() && self.world.life.as_ref().is_some_and(has_room)
    }

    /// Returns when the thread of NATS has something to do; `server` is the run of the server.
    pub(super) fn link_wakes_at(&self, server: Option<u64>, now: Duration) -> Option<Duration> {
        let wakes_at = || self.link.wakes_at(server, &self.wire, now);
        self.has_running_link().then(wakes_at).flatten()
    }
}
