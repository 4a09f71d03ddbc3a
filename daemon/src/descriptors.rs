//! Descriptors of the kernel that tasks wait for.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime.
pub(crate) fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(unsafe_code, reason = "the promise that the descriptor stays the same")]
    // SAFETY: an OwnedFd gives the same open descriptor for as long as it lives, and AsyncFd owns it.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(|error| error.into_parts().1)
}

/// Waits for a time on a timer of the kernel, which wakes the thread once. A timer of tokio that is seconds away moves from wheel to
/// wheel, and each move wakes the thread: three times for ten seconds. So this is for the long waits of an fnd that is at rest. Each
/// needs a descriptor.
pub(crate) async fn sleep(time: Duration) {
    // Only the timers of tokio follow the clock of a test or a simulation.
    if cfg!(any(test, feature = "simulate")) || timer_rings(time).await.is_err() {
        tokio::time::sleep(time).await;
    }
}

async fn timer_rings(time: Duration) -> io::Result<()> {
    // A time of zero would disarm the timer.
    if time.is_zero() {
        return Ok(());
    }
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let once = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec::try_from(time).map_err(io::Error::other)?,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    let timer = watch(timer, Interest::READABLE)?;
    let rings = timer.readable().await;
    rings.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    #[tokio::test]
    async fn a_timer_of_the_kernel_rings_once_its_time_has_come() {
        for ms in [0, 1, 30] {
            let (time, begun) = (Duration::from_millis(ms), monotonic());
            timer_rings(time).await.unwrap();
            assert!(begun.elapsed() >= time, "{ms} ms");
        }
    }
}
