//! Writes to the socket as much as it takes, and waits for room for the rest.

use super::Conversation;
use super::connecting::ConnectionOrigin;
use bytes::{Buf as _, Bytes};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg, shutdown};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Parts that are sent with one system call.
const PARTS: usize = 16;

impl Conversation {
    /// Watches a duplicate of the socket for room.
    pub(super) fn watch_room(&self) -> io::Result<AsyncFd<OwnedFd>> {
        crate::descriptors::watch(self.socket().get_ref().try_clone()?, Interest::WRITABLE)
    }

    /// Writes as much as the socket takes. Returns whether that is everything.
    pub(super) fn write(&self, unsent: &mut VecDeque<Bytes>) -> bool {
        if self.origin.get() == ConnectionOrigin::Listens {
            return false;
        }
        while !unsent.is_empty() {
            match self.send_parts(unsent) {
                Ok(count) => taken(unsent, count),
                Err(Errno::AGAIN) => return false,
                Err(Errno::INTR) => {}
                Err(error) => {
                    unsent.clear();
                    if !matches!(error, Errno::PIPE | Errno::CONNRESET) {
                        tracing::warn!("failed to send to a worker ({error}), its connection is closed");
                    }
                    // Messages that came before are still read, and then the end. If the shutdown fails, the worker is
                    // gone already.
                    let _ = shutdown(self.socket.borrow().get_ref(), Shutdown::Both);
                }
            }
        }
        true
    }

    /// Sends the first parts. Returns how many bytes the socket has taken.
    fn send_parts(&self, unsent: &VecDeque<Bytes>) -> rustix::io::Result<usize> {
        if let (1, Some(only)) = (unsent.len(), unsent.front()) {
            return send(self.socket.borrow().get_ref(), only, SendFlags::NOSIGNAL);
        }
        let parts: Vec<IoSlice<'_>> = unsent.iter().take(PARTS).map(|part| IoSlice::new(part)).collect();
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(
            self.socket.borrow().get_ref(),
            &parts,
            &mut nothing,
            SendFlags::NOSIGNAL,
        )
    }
}

/// Removes bytes that the socket has taken.
fn taken(unsent: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(first) = unsent.front_mut() {
        let part = count.min(first.len());
        first.advance(part);
        count -= part;
        if !first.is_empty() {
            return;
        }
        unsent.pop_front();
    }
}
