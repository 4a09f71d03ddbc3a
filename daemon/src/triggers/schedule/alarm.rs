//! One timer of the wall clock for all schedules. It also rings when somebody sets the clock (timerfd_create(2),
//! `TFD_TIMER_CANCEL_ON_SET`), and after a suspend, since it counts the wall clock and not the time of the processor.
//! Without schedules it waits for a year that is far away, so that it always tells of a clock that was set.

use crate::clock::{on_the_machine, stepped_by_a_test};
use crate::input::AlarmCause;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// The time of an alarm that waits for no slot, seconds since 1970: the year 2242. The kernel takes times up to 2262.
const FAR_AWAY_S: i64 = 8_600_000_000;

#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// Absent where a simulation rings the alarm.
    timer: Option<AsyncFd<OwnedFd>>,
    /// The time that is set, Unix milliseconds.
    at: Cell<Option<u64>>,
    /// The clock was set, and the timer was set before anybody read that.
    clock_set: Notify,
}

impl Alarm {
    /// Makes a timer that rings when somebody sets the clock, and at no time yet.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let alarm = Self {
            timer: Some(crate::descriptors::watch(timer, Interest::READABLE)?),
            ..Self::default()
        };
        alarm.set_timer(None);
        Ok(alarm)
    }

    /// Returns an alarm that does not ring by itself.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn silent() -> Self {
        Self::default()
    }

    /// Returns the time that is set, Unix milliseconds.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn at(&self) -> Option<u64> {
        self.at.get()
    }

    /// Forgets the time that is set, as [`Self::rings`] does: the alarm has rung.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn has_rung(&self) {
        self.at.set(None);
    }

    /// Sets the time at which the alarm rings; a time that has passed rings at once, and none not at all.
    pub(crate) fn set(&self, at: Option<u64>) {
        if self.at.replace(at) != at {
            self.set_timer(at);
        }
    }

    fn set_timer(&self, at: Option<u64>) {
        let Some(descriptor) = &self.timer else { return };
        let far_away = Timespec {
            tv_sec: FAR_AWAY_S,
            tv_nsec: 0,
        };
        // A time of zero would disarm the timer, which no slot has: it would be in 1970.
        let it_value = at.map(on_the_machine).map_or(far_away, |ms| Timespec {
            tv_sec: i64::try_from(ms / 1000).unwrap_or(FAR_AWAY_S),
            tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
        });
        let timer = Itimerspec {
            it_interval: Timespec::default(),
            it_value,
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(descriptor, flags, &timer) {
            Ok(_) => {}
            // The timer is set, and with that the kernel has told of the step of the clock.
            Err(Errno::CANCELED) => self.clock_set.notify_one(),
            Err(error) => {
                tracing::error!("failed to set the timer of the schedules: {error}; they wait for the next change");
            }
        }
    }

    /// Waits until the alarm rings. Cancel-safe: a ring is taken or stays.
    pub(crate) async fn rings(&self) -> AlarmCause {
        let cause = tokio::select! {
            // Cancel-safe: nothing is taken before it returns.
            ring = self.timer_rings() => ring,
            // Cancel-safe: a notification is kept until a task waits for it.
            () = self.clock_set.notified() => AlarmCause::ClockSet,
            // Cancel-safe: the next call begins with the clock as it is then; `due` is asked after each ring.
            () = stepped_by_a_test() => AlarmCause::ClockSet,
        };
        // So that `set` sets the timer again, even to the time that it has.
        self.at.set(None);
        cause
    }

    async fn timer_rings(&self) -> AlarmCause {
        let Some(timer) = &self.timer else {
            return std::future::pending().await;
        };
        loop {
            let ready = timer.readable().await;
            let mut count = [0; 8];
            let read = rustix::io::read(timer, &mut count);
            match (ready, read) {
                (_, Ok(_)) => return AlarmCause::Due,
                (_, Err(Errno::CANCELED)) => return AlarmCause::ClockSet,
                (Ok(mut ready), Err(_)) => ready.clear_ready(),
                // The runtime ends.
                (Err(_), Err(_)) => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn it_rings_at_the_time_that_is_set_and_once() {
        let alarm = Alarm::new().unwrap();
        let soon = crate::clock::unix_ms() + 30;
        alarm.set(Some(soon));
        assert_eq!(alarm.rings().await, AlarmCause::Due);
        assert!(crate::clock::unix_ms() >= soon);
        let again = tokio::time::timeout(Duration::from_millis(50), alarm.rings()).await;
        assert!(again.is_err());
        // A time that has passed.
        alarm.set(Some(soon));
        assert_eq!(alarm.rings().await, AlarmCause::Due);
        alarm.set(Some(crate::clock::unix_ms() + 20));
        alarm.set(None);
        let never = tokio::time::timeout(Duration::from_millis(60), alarm.rings()).await;
        assert!(never.is_err());
    }
}
