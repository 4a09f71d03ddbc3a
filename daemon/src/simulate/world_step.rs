//! The steps that the world can choose. The parts list those that are possible now, and the seed draws one.

use super::spawner::SpawnerStep;
use fastrand::Rng;
use std::fmt;

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorldStep {
    /// fnd reads a frame of the spawner.
    Frame,
    /// fnd reads a message of one of its threads.
    Message,
    /// fnd reads a fact of its thread of NATS.
    Nats,
    /// The tasks of fnd go on until all of them wait.
    Tasks,
    /// fnd does the work that it has put off.
    CatchUp,
    /// The time has come for which the main loop of fnd waited.
    Tick,
    /// The alarm of the schedules rings: its time has come.
    Alarm,
    /// The alarm of the schedules rings, because the wall clock was set.
    ClockWasSet,
    /// fnd checks whether the spawner answers.
    Silence,
    /// The writer of the ledger takes so many commands at most, and commits.
    Ledger(usize),
    /// The reader of the ledger answers the queries that wait.
    History,
    /// The output thread reads pipes.
    Output,
    /// The catalog of files answers or reports.
    Files,
    Spawner(SpawnerStep),
    /// The next person acts.
    Person,
    /// The next fault happens.
    Fault,
    /// The next fnd starts, because none runs.
    Start,
    /// fnd was asked to stop, has handed over everything, and ends.
    Stop,
    /// Time goes on until something is due.
    Wait,
}

impl WorldStep {
    /// Draws one of the steps by their weights.
    pub(super) fn draw(can: &[Self], order: &mut Rng) -> Self {
        let sum: u32 = can.iter().map(|step| step.weight()).sum();
        let mut drawn = order.u32(0..sum);
        for step in can {
            match drawn.checked_sub(step.weight()) {
                Some(rest) => drawn = rest,
                None => return *step,
            }
        }
        Self::Wait
    }

    /// Returns the number of the step, for the hash of all events.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Frame => 0,
            Self::Message => 1,
            Self::Tasks => 2,
            Self::CatchUp => 3,
            Self::Tick => 4,
            Self::Alarm => 5,
            Self::ClockWasSet => 6,
            Self::Silence => 7,
            Self::Ledger(_) => 8,
            Self::History => 9,
            Self::Output => 10,
            Self::Files => 11,
            Self::Spawner(_) => 12,
            Self::Person => 13,
            Self::Fault => 14,
            Self::Start => 15,
            Self::Stop => 16,
            Self::Wait => 17,
            Self::Nats => 18,
        }
    }

    /// Returns how often the step is drawn, beside the others.
    pub(super) fn weight(self) -> u32 {
        match self {
            Self::Frame | Self::Message | Self::Nats | Self::Tasks | Self::CatchUp | Self::Spawner(_) => 8,
            Self::Start | Self::Stop | Self::Ledger(_) | Self::History | Self::Output | Self::Files => 4,
            Self::Tick | Self::Alarm | Self::ClockWasSet | Self::Silence | Self::Person | Self::Fault => 4,
            // While there is something to do, time seldom goes on.
            Self::Wait => 1,
        }
    }
}

impl fmt::Display for WorldStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame => f.write_str("fnd reads a frame of the spawner"),
            Self::Message => f.write_str("fnd reads a message of a thread"),
            Self::Nats => f.write_str("fnd reads a fact of its thread of NATS"),
            Self::Tasks => f.write_str("the tasks of fnd go on"),
            Self::CatchUp => f.write_str("fnd does what it has put off"),
            Self::Tick => f.write_str("the main loop of fnd wakes at its time"),
            Self::Alarm => f.write_str("the alarm of the schedules rings"),
            Self::ClockWasSet => f.write_str("the alarm of the schedules rings: the clock was set"),
            Self::Silence => f.write_str("fnd checks whether the spawner answers"),
            Self::Ledger(most) => write!(f, "the ledger takes at most {most} commands"),
            Self::History => f.write_str("the ledger answers queries"),
            Self::Output => f.write_str("fnd reads what the functions print"),
            Self::Files => f.write_str("the catalog of files answers or reports"),
            Self::Spawner(step) => write!(f, "{step}"),
            Self::Person => f.write_str("a person acts"),
            Self::Fault => f.write_str("a fault happens"),
            Self::Start => f.write_str("fnd starts"),
            Self::Stop => f.write_str("fnd has handed over, and ends"),
            Self::Wait => f.write_str("time goes on"),
        }
    }
}
