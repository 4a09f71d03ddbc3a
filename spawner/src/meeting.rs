//! Where fnd is met: the listening socket and who may connect.

use crate::args::Meeting;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

/// A way to fnd.
#[derive(Debug)]
pub enum Door {
    /// Listening.
    Listener(OwnedFd),
    /// Connected since the start.
    Connected(OwnedFd),
}

/// Opens the way to fnd.
///
/// # Errors
/// From the socket calls; `Other` where no way was given.
#[expect(unsafe_code, reason = "takes over descriptors that were passed by number")]
pub fn open(meeting: &Meeting) -> io::Result<Door> {
    // SAFETY, both: the number was passed to this process for this purpose, and nothing else here owns it.
    if let Meeting::Inherited(number) = meeting {
        let fd = unsafe { OwnedFd::from_raw_fd(*number) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        rustix::net::sockopt::socket_type(&fd)?;
        return Ok(Door::Connected(fd));
    }
    if let Some(number) = sd_notify::listen_fds()?.next() {
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        rustix::io::ioctl_fionbio(&fd, true)?;
        return Ok(Door::Listener(fd));
    }
    match meeting {
        Meeting::Listen(path) => listen_at(path).map(Door::Listener),
        Meeting::Passed | Meeting::Inherited(_) => {
            Err(io::Error::other("no socket: give --socket or --socket-fd, or start it from a systemd socket unit"))
        }
    }
}

fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    let address = SocketAddrUnix::new(path)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {} // left by an earlier spawner; the lock on the state directory says there is no other
    }
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = bind(&socket, &address);
    rustix::process::umask(mask);
    bound?;
    if let Some(fnd) = fnd_user().filter(|_| rustix::process::geteuid().is_root()) {
        std::os::unix::fs::chown(path, Some(fnd), None)?;
    }
    listen(&socket, 4)?;
    Ok(socket)
}

fn fnd_user() -> Option<u32> {
    nix::unistd::User::from_name("fnd").ok().flatten().map(|user| user.uid.as_raw())
}

/// Accepts a peer: root, the spawner's own user or the user `fnd`. None where nobody (any more) or somebody else called.
#[must_use]
pub fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC).ok()?;
    let uid = rustix::net::sockopt::socket_peercred(&socket).ok()?.uid;
    let allowed = uid.is_root() || uid == rustix::process::geteuid() || Some(uid.as_raw()) == fnd_user();
    if !allowed {
        crate::log!("refused a connection of uid {}: only fnd may connect", uid.as_raw());
    }
    allowed.then_some(socket)
}
