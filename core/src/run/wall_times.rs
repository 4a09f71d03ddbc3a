//! Some work waits for a time of the wall clock: it must not begin before one, or must have begun by one. fnd waits on the
//! monotonic clock, which nobody can set. So each time the wall clock was set, the instants are computed anew.

use super::Supervisor;
use crate::messages::Now;
use crate::run_state::invocation::{InvocationStage, WallTime};
use crate::run_state::timers::Timer;

impl Supervisor {
    /// Lets all delayed and expiring invocations follow the wall clock.
    pub(super) fn clock_set(&mut self, now: Now) {
        for (id, invocation) in &mut self.invocations {
            match &mut invocation.stage {
                InvocationStage::Delayed { until } => {
                    self.timers.disarm(until.at, Timer::Begin(*id));
                    *until = WallTime::new(now, until.unix_ms);
                    self.timers.arm(until.at, Timer::Begin(*id));
                }
                // Its timer is armed once it is stored.
                InvocationStage::Storing {
                    not_before: Some(until),
                    ..
                } => *until = WallTime::new(now, until.unix_ms),
                _ => {}
            }
            if let Some(expires) = &mut invocation.expires {
                let has_begun = invocation.attempts > 0;
                self.timers.disarm(expires.at, Timer::Expire(*id));
                *expires = WallTime::new(now, expires.unix_ms);
                // The expiry of one that has begun is kept only for the case that its start fails.
                if !has_begun {
                    self.timers.arm(expires.at, Timer::Expire(*id));
                }
            }
        }
    }
}
