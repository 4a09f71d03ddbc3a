//! The time of a simulation. The clock of tokio stands still; it moves when the world waits, to the next timer of a task at most.
//! The wall clock goes with it, and can be set.

use crate::clock::{Clock, simulated, unix_ms};
use fnd_core::run::Now;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// The wall clock at the begin of a simulation: a Monday, at 10:00.
pub(super) const BEGIN_MS: u64 = 1_795_428_000_000;
/// The time that the monotonic clock shows when the machine has started.
const BOOTED: Duration = Duration::from_secs(20);

/// Both clocks of the machine, and the time since the begin of the simulation.
pub(super) struct SimulatedClock {
    /// The clocks as an fnd sees them.
    machine: Clock,
    begin: Clock,
}

impl SimulatedClock {
    /// Returns the clocks of a machine that has just started. It has to be called inside of the runtime.
    pub(super) fn new() -> Self {
        simulated::set(Some(BEGIN_MS));
        Self {
            machine: Clock::showing(BOOTED),
            begin: Clock::showing(Duration::ZERO),
        }
    }

    /// Returns the clocks of the machine, for an fnd.
    pub(super) fn machine(&self) -> Clock {
        self.machine
    }

    pub(super) fn now(&self) -> Now {
        self.machine.now()
    }

    /// Returns the time since the begin of the simulation.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.now().mono
    }

    /// Waits until a time on the monotonic clock of the machine; less if `woken` is notified, by a timer of a task.
    pub(super) fn wait_until(&self, runtime: &Runtime, until: Duration, woken: &Notify) {
        let until = self.machine.instant(until);
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = woken.notified() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        });
    }

    /// Waits for so long on all machines; less if one of these is notified.
    pub(super) fn wait_for<'a>(runtime: &Runtime, time: Duration, woken: impl Iterator<Item = &'a Notify>) {
        runtime.block_on(async {
            let mut woken: FuturesUnordered<_> = woken.map(Notify::notified).collect();
            tokio::select! {
                biased;
                Some(()) = woken.next() => {}
                () = tokio::time::sleep(time) => {}
            }
        });
    }

    /// Sets the wall clock. A machine that sleeps looks the same: its monotonic clock stands still.
    pub(super) fn step_wall(step_ms: i64) {
        simulated::set(Some(unix_ms().saturating_add_signed(step_ms)));
    }

    /// The machine starts anew: its monotonic clock does, too.
    pub(super) fn reboot(&mut self) {
        self.machine = Clock::showing(BOOTED);
    }
}

impl Drop for SimulatedClock {
    fn drop(&mut self) {
        simulated::set(None);
    }
}
