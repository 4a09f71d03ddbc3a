//! Waits for the spawner's children; no other module does. Only the init in [`contain`](crate::workers::contain) waits for its
//! own children itself.

use super::clone::Child;
use fnd_wire::frame::ExitStatus;
use std::os::fd::AsRawFd as _;

/// How a child ended, with the kernel's counts for the child and the children it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildEnd {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// CPU time in microseconds.
    pub cpu_us: u64,
    /// Peak resident memory of the largest process, in bytes.
    pub largest: u64,
}

/// Returns how a child ended; none if it runs (or is not our child).
///
/// The child is identified by its descriptor: its process id may belong to another process by now. waitid(2), the raw
/// call for `rusage`.
pub fn ended(child: &Child) -> Option<ChildEnd> {
    waitid(child, libc::WNOHANG)
}

/// Waits for a child that is about to end, and returns how it ended.
pub fn wait(child: &Child) -> Option<ChildEnd> {
    waitid(child, 0)
}

/// Kills a child, and waits for its end.
pub fn end(child: &Child) {
    child.signal(rustix::process::Signal::KILL);
    let _ = wait(child);
}

/// Returns the pid of a child that ended and was not waited for; none if there is none.
pub fn first_ended() -> Option<u32> {
    // `WNOWAIT` leaves the child as it is: another part of the spawner may need its status.
    raw((libc::P_ALL, 0), libc::WNOHANG | libc::WNOWAIT).map(|(pid, _)| pid)
}

/// Waits for an orphan: a child that ended and that no other part of the spawner waits for.
pub fn orphan(pid: u32) {
    let _ = raw((libc::P_PID, pid), libc::WNOHANG);
}

fn waitid(child: &Child, flags: i32) -> Option<ChildEnd> {
    raw((libc::P_PIDFD, child.pidfd.as_raw_fd().cast_unsigned()), flags).map(|(_, ended)| ended)
}

#[expect(unsafe_code, reason = "waitid with usage has no wrapper")]
fn raw((kind, id): (libc::idtype_t, u32), flags: i32) -> Option<(u32, ChildEnd)> {
    // SAFETY: both are structures of numbers, for which zero is valid.
    let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let (to, beside, flags) = (&raw mut info, &raw mut usage, libc::WEXITED | flags);
    // SAFETY: pointers to structures of the kernel's layout that outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_waitid, kind, id, to, flags, beside) };
    // SAFETY: after success these fields are set; with WNOHANG and nothing to report the pid is 0.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if result != 0 || pid == 0 {
        return None;
    }
    let number = u8::try_from(status & 0xff).unwrap_or(0);
    let micros = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
    let cpu_us = micros(usage.ru_utime) + micros(usage.ru_stime);
    let largest = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    let status = if info.si_code == libc::CLD_EXITED { ExitStatus::Code } else { ExitStatus::Signal }(number);
    Some((pid.cast_unsigned(), ChildEnd { status, cpu_us, largest }))
}
