//! Opens the spawner's listening socket and decides who may connect.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};
use std::io;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};

/// Takes over a connected socket that was passed to this process by number.
///
/// # Errors
/// If the number is not a socket.
#[expect(unsafe_code, reason = "takes over a descriptor by its number")]
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the number was passed to this process for this purpose, and nothing else here owns it.
    let mut fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::net::sockopt::socket_type(&fd)?;
    // fnd notices the end of this process by the end of this socket, so no other process may have it. Programs that are
    // executed don't get it, and copies of this process close what is above 2.
    let socket = rustix::io::fcntl_dupfd_cloexec(&fd, 3)?;
    // The number itself stays in use: another file with the number 0 would be in all copies.
    rustix::io::dup2(std::fs::File::open("/dev/null")?, &mut fd)?;
    let _ = fd.into_raw_fd();
    Ok(socket)
}

/// Listens on a path that only fnd can connect to.
///
/// # Errors
/// If a socket call fails.
pub fn listen_at(path: &std::path::Path) -> io::Result<OwnedFd> {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    let address = SocketAddrUnix::new(path)?;
    // An earlier spawner left it; no other spawner runs, since this one has the state directory's lock.
    crate::places::if_there(std::fs::remove_file(path))?;
    // bind(2) makes the file with the mode that the umask leaves. After a later chmod(2) somebody could have connected.
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = bind(&socket, &address);
    rustix::process::umask(mask);
    bound?;
    if let Some(fnd) = fnd_user().filter(|_| rustix::process::geteuid().is_root()) {
        std::os::unix::fs::lchown(path, Some(fnd), None)?; // a link in its place is not followed
    }
    listen(&socket, 4)?;
    Ok(socket)
}

fn fnd_user() -> Option<u32> {
    nix::unistd::User::from_name("fnd").ok().flatten().map(|user| user.uid.as_raw())
}

/// Accepts a connection of root, the spawner's own user or the user `fnd`; none if the peer has gone or is another
/// user.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{clone, reap};
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_copy_of_the_process_does_not_keep_fnds_socket_open() {
        let child = clone::fork(None, false, 0, || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (ours, theirs) =
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            // As fnd does it: the socket is the standard input.
            rustix::stdio::dup2_stdin(&theirs).unwrap();
            drop(theirs);
            let socket = inherited(0).unwrap();
            let is_open = rustix::io::read(&ours, &mut [0]) == Err(rustix::io::Errno::AGAIN);
            clone::close_all_but(ours.as_raw_fd());
            let _ = socket.into_raw_fd(); // it was closed just now
            i32::from(!is_open || rustix::io::read(&ours, &mut [0]) != Ok(0))
        });
        assert_eq!(reap::wait(&child.unwrap()).unwrap().status, fnd_wire::frame::ExitStatus::Code(0));
    }
}
