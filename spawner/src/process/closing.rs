//! Closes descriptors elsewhere: those that peers have passed and nobody wants, and connections. A connection can hold sockets
//! that somebody has sent and nobody has received. The kernel closes those with it, and closing one waits as long as its owner
//! likes (`SO_LINGER`, socket(7)). Only a connection without any is closed here: most are, and a helper costs a process.

use rustix::net::{Shutdown, shutdown};
use std::cell::RefCell;
use std::fs::read_to_string;
use std::os::fd::{AsRawFd as _, OwnedFd};

thread_local! {
    static DROPPED: RefCell<Vec<Vec<OwnedFd>>> = const { RefCell::new(Vec::new()) };
}

/// A connection to a process that nobody trusts, a stream of a Unix socket. Dropping it closes nothing: [`dropped`] returns the
/// descriptor, for a helper.
pub struct Closing(Option<OwnedFd>);

impl From<OwnedFd> for Closing {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Some(descriptor))
    }
}

impl Closing {
    /// Returns the descriptor; none only while it is dropped.
    pub fn descriptor(&self) -> Option<&OwnedFd> {
        self.0.as_ref()
    }

    /// Closes it, here if no descriptor waits in it. Nothing more can be received from it, also through copies that others
    /// have: so only for a connection that nobody uses any more.
    pub fn end(mut self) {
        drop(self.0.take_if(|stream| closes_at_once(stream)));
    }
}

/// Makes a stream receive nothing more, and returns whether closing it then waits for nobody.
fn closes_at_once(stream: &OwnedFd) -> bool {
    let release = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // First, so that nothing can come after the look: a sender gets EPIPE, and a listening socket refuses connections. The
    // connections that wait in a listening socket can still get descriptors; FIONREAD fails for such a socket (EINVAL).
    let is_read = shutdown(stream, Shutdown::Read).is_ok() && rustix::io::ioctl_fionread(stream) == Ok(0);
    // A byte that was received out of band (`MSG_OOB`) counts no more, but descriptors beside it still wait. So the kernel's
    // count of descriptors is read as well (`unix_show_fdinfo` in net/unix/af_unix.c).
    let info = || read_to_string(format!("/proc/self/fdinfo/{}", stream.as_raw_fd())).unwrap_or_default();
    !closes_others(&release) && is_read && info().contains("scm_fds: 0\n")
}

impl Drop for Closing {
    fn drop(&mut self) {
        later(self.0.take());
    }
}

/// Returns whether this is a release of Linux before 6.9: whoever closes a Unix socket also closes what waits in others that
/// nobody can reach any more.
fn closes_others(release: &str) -> bool {
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) < (Some(6), Some(9))
}

/// Leaves descriptors to a helper, which closes all of these.
pub fn later(descriptors: impl IntoIterator<Item = OwnedFd>) {
    let descriptors = Vec::from_iter(descriptors);
    if !descriptors.is_empty() {
        DROPPED.with_borrow_mut(|all| all.push(descriptors));
    }
}

/// Returns the descriptors that were left to helpers since the last call, those of each helper.
pub fn dropped() -> Vec<Vec<OwnedFd>> {
    DROPPED.take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{IoSlice, IoSliceMut};
    use rustix::net::{
        RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    };
    use std::io::{Read as _, Write as _};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Ends a connection; returns whether a helper has to close it.
    fn needs_helper(stream: impl Into<OwnedFd>) -> bool {
        let stream = stream.into();
        let number = stream.as_raw_fd();
        Closing::from(stream).end();
        let left = Vec::from_iter(dropped().into_iter().flatten());
        assert!(left.iter().all(|fd| fd.as_raw_fd() == number && rustix::io::fcntl_getfd(fd).is_ok()));
        assert!(dropped().is_empty() && left.len() < 2);
        !left.is_empty()
    }

    /// Whether this machine leaves all connections to helpers.
    fn needs_always() -> bool {
        closes_others(&read_to_string("/proc/sys/kernel/osrelease").unwrap())
    }

    /// Sends a byte and a descriptor.
    fn pass(stream: &UnixStream, descriptor: &OwnedFd, flags: SendFlags) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(stream, &[IoSlice::new(b"x")], &mut control, flags)
    }

    /// Returns the ends of a connection and of a pipe; the write end of the pipe has no copy.
    fn ends() -> (UnixStream, UnixStream, (OwnedFd, OwnedFd)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, theirs, rustix::pipe::pipe().unwrap())
    }

    #[test]
    fn a_dropped_connection_is_still_open() {
        let (one, _other) = UnixStream::pair().unwrap();
        let number = one.as_raw_fd();
        drop(Closing::from(OwnedFd::from(one)));
        let left = Vec::from_iter(dropped().into_iter().flatten());
        assert_eq!(left.iter().map(|fd| fd.as_raw_fd()).collect::<Vec<_>>(), [number]);
        assert!(rustix::io::fcntl_getfd(left.first().unwrap().as_fd()).is_ok() && dropped().is_empty());
    }

    #[test]
    fn an_empty_connection_is_closed_at_once() {
        let (ours, mut theirs, _) = ends();
        assert_eq!(needs_helper(ours), needs_always());
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "the other end sees that it was closed");
        // Also if the peer has ended, and if everything in it was received.
        let (mut ours, mut theirs, (read, write)) = ends();
        theirs.write_all(b"abc").unwrap();
        pass(&theirs, &write, SendFlags::empty()).unwrap();
        drop((theirs, write));
        assert_eq!(ours.read(&mut [0; 9]).unwrap(), 4);
        assert_eq!(needs_helper(ours), needs_always());
        assert_eq!(std::fs::File::from(read).read(&mut [0]).unwrap(), 0);
        // One that was never connected holds nothing.
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
        assert_eq!(needs_helper(rustix::net::socket(family, kind, None).unwrap()), needs_always());
    }

    #[test]
    fn a_connection_is_shut_before_anybody_looks_into_it() {
        let (ours, mut theirs, _) = ends();
        let mut copy = ours.try_clone().unwrap();
        theirs.write_all(b"abc").unwrap();
        assert!(needs_helper(ours), "bytes may have descriptors beside them");
        assert_eq!(theirs.write(b"d").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        let mut rest = String::new();
        assert_eq!((copy.read_to_string(&mut rest).unwrap(), &*rest), (3, "abc"), "fnd can still read what was there");
        assert_eq!(needs_helper(copy), needs_always());
    }

    #[test]
    fn a_connection_with_a_descriptor_in_it_is_closed_by_a_helper() {
        let (ours, theirs, (read, write)) = ends();
        pass(&theirs, &write, SendFlags::empty()).unwrap();
        drop((theirs, write));
        assert!(needs_helper(ours));
        assert_eq!(std::fs::File::from(read).read(&mut [0]).unwrap(), 0);
        // A byte out of band counts as none after it was received, and its descriptor stays.
        let (ours, theirs, (_read, write)) = ends();
        if pass(&theirs, &write, SendFlags::OOB) == Err(rustix::io::Errno::OPNOTSUPP) {
            return; // a kernel without CONFIG_AF_UNIX_OOB
        }
        let mut control = RecvAncillaryBuffer::default();
        let got = recvmsg(&ours, &mut [IoSliceMut::new(&mut [0])], &mut control, RecvFlags::OOB).unwrap();
        assert_eq!((got.bytes, rustix::io::ioctl_fionread(&ours)), (1, Ok(0)));
        assert!(needs_helper(ours));
    }

    #[test]
    fn a_listening_socket_is_closed_by_a_helper() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(needs_helper(listener.try_clone().unwrap()));
        let _refused = UnixStream::connect(&path).unwrap_err();
        let path = dir.path().join("other");
        let listener = UnixListener::bind(&path).unwrap();
        let (stream, (_read, write)) = (UnixStream::connect(&path).unwrap(), rustix::pipe::pipe().unwrap());
        pass(&stream, &write, SendFlags::empty()).unwrap();
        assert!(needs_helper(listener));
    }

    #[test]
    fn what_has_no_count_of_descriptors_is_closed_by_a_helper() {
        // A socket of TCP may wait for its peer.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(needs_helper(stream));
        assert!(needs_helper(rustix::pipe::pipe().unwrap().0));
    }

    #[test]
    fn from_linux_6_9_on_a_close_closes_nothing_else() {
        for older in ["", "5.15.0-91-generic", "6.1.0-18-amd64", "6.8.12", "6.9-rc1", "other"] {
            assert!(closes_others(older), "{older}");
        }
        for newer in ["6.9.0", "6.12.48+deb13-amd64", "6.18.44-fc-v657", "7.0.0-rc1", "10.1.2"] {
            assert!(!closes_others(newer), "{newer}");
        }
    }
}
