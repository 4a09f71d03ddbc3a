//! The beginning of a conversation with a worker that connects.

use super::{Conversation, ConversationEnd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use tokio::io::Interest;

/// Where the socket of a conversation comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionOrigin {
    /// The worker inherited the other end.
    Inherited,
    /// The worker has not connected yet.
    Listens,
    /// It was accepted; fnd-spawner has no copy of it.
    Accepted,
}

impl Conversation {
    /// Returns a copy of the connection of a worker that has connected; nothing where it inherited its socket, or has not
    /// connected yet: then fnd-spawner has a copy.
    ///
    /// # Errors
    /// There are too many descriptors.
    pub fn connection(&self) -> io::Result<Option<OwnedFd>> {
        let accepted = self.origin.get() == ConnectionOrigin::Accepted;
        accepted.then(|| self.socket().get_ref().try_clone()).transpose()
    }

    /// Takes the first connection of a socket that listens, which then takes its place. Returns whether there was one.
    pub(super) fn accept(&self) -> io::Result<bool> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(self.socket().get_ref(), flags) {
            Ok(connection) => {
                let connection = crate::descriptors::watch(connection, Interest::READABLE)?;
                self.socket.replace(Rc::new(connection));
                self.origin.set(ConnectionOrigin::Accepted);
                Ok(true)
            }
            // ECONNABORTED says that the worker has closed its connection before it was accepted. The worker may
            // connect again.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the worker has connected. Returns the end of the conversation if that comes first.
    pub(super) async fn connected(&self) -> Result<(), ConversationEnd> {
        while self.origin.get() == ConnectionOrigin::Listens {
            self.goes_on()?;
            let socket = self.socket();
            // Cancel-safe, like those of `run`.
            let waited = tokio::select! {
                biased;
                () = self.changed.notified() => Ok(()),
                guard = socket.readable() => guard.and_then(|mut guard| {
                    if !self.accept()? {
                        guard.clear_ready();
                    }
                    Ok(())
                }),
            };
            waited.map_err(ConversationEnd::Failed)?;
        }
        Ok(())
    }
}
