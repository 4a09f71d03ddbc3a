//! Closes descriptors elsewhere: those that peers have passed and nobody wants, and connections. A connection can hold sockets
//! that somebody has sent and nobody has received. The kernel closes those with it, and closing one waits as long as its owner
//! likes (`SO_LINGER`, socket(7)).

use std::cell::RefCell;
use std::os::fd::OwnedFd;

thread_local! {
    static DROPPED: RefCell<Vec<Vec<OwnedFd>>> = const { RefCell::new(Vec::new()) };
}

/// A connection to a process that nobody trusts. Dropping it closes nothing: [`dropped`] returns the descriptor, for a helper.
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
}

impl Drop for Closing {
    fn drop(&mut self) {
        later(self.0.take());
    }
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
    use std::os::fd::{AsFd as _, AsRawFd as _};

    #[test]
    fn a_dropped_connection_is_still_open() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let number = one.as_raw_fd();
        drop(Closing::from(OwnedFd::from(one)));
        let left = Vec::from_iter(dropped().into_iter().flatten());
        assert_eq!(left.iter().map(|fd| fd.as_raw_fd()).collect::<Vec<_>>(), [number]);
        assert!(rustix::io::fcntl_getfd(left.first().unwrap().as_fd()).is_ok() && dropped().is_empty());
    }
}
