//! The first steps in new namespaces.
//!
//! Where the spawner is not root, a process has the rights to make the other namespaces only in a user namespace of its own.
//! Nothing outside belongs to it, so it gains no right there. user_namespaces(7). A new network namespace has the loopback
//! interface, which is down. netdevice(7).

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;

/// Returns user and group of this process; called before a namespace hides them.
pub fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Maps the user and the group that this process had outside its new user namespace to themselves.
///
/// # Errors
/// If the machine does not allow it.
pub fn map((uid, gid): (u32, u32)) -> io::Result<()> {
    // In the namespace this process's ids read as 65534 until they are mapped. Root owns the files in /proc/self unless
    // the process may be dumped, and a copy of the launcher may not.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    // An unprivileged process may write `gid_map` only after `setgroups` was denied (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Brings up `lo`, which a new network namespace has, and which is down there.
///
/// # Errors
/// If this process may not configure the namespace (`CAP_NET_ADMIN`).
#[expect(unsafe_code, reason = "the ioctl has no wrapper")]
pub fn bring_up_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zero bytes are valid for this structure of numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        // The type of a character is signed on x86 and unsigned on ARM.
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: the request is what the call reads.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
