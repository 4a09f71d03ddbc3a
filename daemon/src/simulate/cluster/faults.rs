//! The faults between machines: of links, of the server, and of whole machines. Each has its end as a fault of its own, and one that
//! ends nothing does nothing.

use fastrand::Rng;
use std::fmt;

/// A fault of a moment. Machines and streams have numbers; durations are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterFault {
    /// fnd of a machine is stopped by a signal; its spawner and its functions go on.
    Stop(usize),
    Continue(usize),
    /// A machine loses fnd, the spawner and all workers; no fnd starts there before [`ClusterFault::Up`].
    Down(usize),
    Up(usize),
    /// Nothing goes through between a machine and the server.
    Cut(usize),
    /// Nothing of a machine reaches the server. Packets of the server still arrive.
    CutToServer(usize),
    Join(usize),
    /// A packet takes up to so long.
    Slow(usize, u64),
    /// The same, only on its way to the machine.
    LateAnswers(usize, u64),
    Fast(usize),
    /// The connection of a machine is reset.
    Reset(usize),
    KillServer,
    StartServer,
    DeleteConsumer(usize),
    DeleteStream(usize),
    MakeStream(usize),
    /// The wall clock of the server is set.
    ServerClock(i64),
}

impl ClusterFault {
    /// Draws a fault with its end, and the milliseconds between the two.
    fn any(random: &mut Rng, machines: usize) -> (Self, Option<(u64, Self)>) {
        let machine = random.usize(..machines);
        let stream = random.usize(..3);
        // As long as answers are waited for, as a lease, or longer than that.
        let longest = [2_000, 10_000, 60_000];
        let longest = longest[random.usize(..3)];
        let lasts = random.u64(1..longest);
        match random.u8(0..12) {
            0..2 => (Self::Stop(machine), Some((lasts, Self::Continue(machine)))),
            2..4 => (Self::Down(machine), Some((lasts, Self::Up(machine)))),
            4..6 => (Self::Cut(machine), Some((lasts, Self::Join(machine)))),
            6 => {
                let slow = Self::Slow(machine, random.u64(100..8_000));
                (slow, Some((lasts, Self::Fast(machine))))
            }
            7 => (Self::Reset(machine), None),
            8 => (Self::KillServer, Some((lasts / 4, Self::StartServer))),
            9 => (Self::DeleteConsumer(stream), None),
            10 => (Self::DeleteStream(stream), Some((lasts, Self::MakeStream(stream)))),
            _ => (Self::ServerClock(random.i64(-40_000..40_000)), None),
        }
    }
}

impl fmt::Display for ClusterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(machine) => write!(f, "fnd of machine {machine} is stopped"),
            Self::Continue(machine) => write!(f, "fnd of machine {machine} goes on"),
            Self::Down(machine) => write!(f, "machine {machine} goes down"),
            Self::Up(machine) => write!(f, "machine {machine} is there again"),
            Self::Cut(machine) => write!(f, "the link of machine {machine} is cut"),
            Self::CutToServer(machine) => write!(f, "the server hears nothing more of machine {machine}"),
            Self::Join(machine) => write!(f, "the link of machine {machine} is whole again"),
            Self::Slow(machine, ms) => write!(f, "a packet of machine {machine} takes up to {ms} ms"),
            Self::LateAnswers(machine, ms) => write!(f, "a packet to machine {machine} takes up to {ms} ms"),
            Self::Fast(machine) => write!(f, "the link of machine {machine} is fast again"),
            Self::Reset(machine) => write!(f, "the connection of machine {machine} is reset"),
            Self::KillServer => f.write_str("the server is killed"),
            Self::StartServer => f.write_str("the server starts"),
            Self::DeleteConsumer(stream) => write!(f, "the consumer of stream {stream} is deleted"),
            Self::DeleteStream(stream) => write!(f, "stream {stream} is deleted"),
            Self::MakeStream(stream) => write!(f, "stream {stream} is made again"),
            Self::ServerClock(ms) => write!(f, "the clock of the server is set by {ms} ms"),
        }
    }
}

/// Draws the faults of a simulation, earliest first.
pub(super) fn schedule(random: &mut Rng, machines: usize, lasts_ms: u64) -> Vec<(u64, ClusterFault)> {
    let mut faults: Vec<(u64, ClusterFault)> = Vec::new();
    for _ in 0..random.u8(0..8) {
        let at_ms = match faults.last() {
            // Some faults of fnd show only if two faults come shortly after each other.
            Some((before, _)) if random.bool() => before + random.u64(0..15_000),
            _ => random.u64(5_000..lasts_ms),
        };
        let (fault, end) = ClusterFault::any(random, machines);
        faults.push((at_ms, fault));
        faults.extend(end.map(|(after_ms, end)| (at_ms + after_ms, end)));
    }
    faults.sort_by_key(|(at_ms, _)| *at_ms);
    faults
}
