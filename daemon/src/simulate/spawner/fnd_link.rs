//! The spawner's end of the connection with fnd: frames and descriptors over a real socket. Nothing here waits.

use fnd_wire::frame::{DESCRIPTORS_MAX, PACKET_MAX, Partial, Reply, Request, decode, encode, packets};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// A request of fnd.
pub(super) struct FndRequest {
    pub(super) number: u32,
    pub(super) request: Request,
    pub(super) descriptors: VecDeque<OwnedFd>,
}

/// The connection, with the requests that came and the packets that wait to be sent.
#[derive(Default)]
pub(super) struct FndLink {
    socket: Option<OwnedFd>,
    partial: Partial,
    /// The requests that came and are not carried out yet.
    pub(super) requests: VecDeque<FndRequest>,
    /// The packets that the socket does not take yet, each with its descriptors.
    unsent: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// Space for one packet, used for each.
    packet: Vec<u8>,
}

impl FndLink {
    /// Returns fnd's end of a new connection. Nothing of the connection before is left.
    pub(super) fn connect(&mut self) -> OwnedFd {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("the machine has room for a socket");
        // The whole answer to the handshake has to fit where the machine allows it: fnd waits for it in one go.
        let _ = set_socket_send_buffer_size(&theirs, 1 << 20);
        *self = Self {
            socket: Some(theirs),
            packet: std::mem::take(&mut self.packet),
            ..Self::default()
        };
        self.packet.resize(PACKET_MAX, 0);
        ours
    }

    /// Closes the connection. The requests that came are still there.
    pub(super) fn close(&mut self) {
        self.socket = None;
        self.unsent.clear();
        self.partial = Partial::default();
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Takes the requests that have come. Closes the connection at its end, as it is after the end of fnd.
    pub(super) fn read(&mut self) {
        while let Some((frame, descriptors)) = self.receive() {
            // A frame that fnd has sent in part only, because fnd was killed, stays partial.
            if let Some(frame) = self.partial.add(&frame).expect("fnd sends valid packets") {
                let (number, request) = decode(&frame).expect("fnd sends valid requests");
                self.requests.push_back(FndRequest {
                    number,
                    request,
                    descriptors,
                });
            }
        }
    }

    fn receive(&mut self) -> Option<(Vec<u8>, VecDeque<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut self.packet)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let bytes = loop {
            match recvmsg(self.socket.as_ref()?, parts, &mut control, flags) {
                Ok(message) => break message.bytes,
                // fnd has closed its end without reading everything. The packets that it sent before follow. unix(7)
                Err(Errno::CONNRESET) => {}
                Err(error) => {
                    assert_eq!(error, Errno::AGAIN, "the connection is a socket pair");
                    return None;
                }
            }
        };
        if bytes == 0 {
            self.close();
            return None;
        }
        let mut descriptors = VecDeque::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Some((self.packet[..bytes].to_vec(), descriptors))
    }

    /// Sends a frame. Packets that the socket does not take now are sent later, in order.
    pub(super) fn send(&mut self, number: u32, reply: &Reply, descriptors: Vec<OwnedFd>) {
        if !self.is_open() {
            return;
        }
        let frame = packets(&encode(number, reply));
        self.unsent.extend(frame.into_iter().map(|packet| (packet, Vec::new())));
        // fnd takes the descriptors of the packet that completes a frame.
        if let Some((_, beside)) = self.unsent.back_mut() {
            *beside = descriptors;
        }
        self.flush();
    }

    /// Sends the packets that wait, as far as the socket takes them.
    pub(super) fn flush(&mut self) {
        while let (Some(socket), Some((packet, descriptors))) = (&self.socket, self.unsent.front()) {
            match send_packet(socket, packet, descriptors) {
                Ok(()) => drop(self.unsent.pop_front()),
                // The socket is full: the rest goes once fnd has read.
                Err(Errno::AGAIN) => return,
                // fnd has ended. Its last requests are still read, and then the end of the connection.
                Err(Errno::PIPE | Errno::CONNRESET) => return self.unsent.clear(),
                Err(error) => panic!("the socket pair failed: {error}"),
            }
        }
    }

    /// Returns whether packets wait until fnd has read others.
    pub(super) fn is_full(&self) -> bool {
        !self.unsent.is_empty()
    }
}

fn send_packet(socket: &OwnedFd, packet: &[u8], descriptors: &[OwnedFd]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(&borrowed));
        debug_assert!(fits, "the space is for as many descriptors as a frame may have");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, flags).map(|_| ())
}
