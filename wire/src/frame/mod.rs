//! Frames between fnd and fnd-spawner, over a `SOCK_SEQPACKET` Unix socket.
//!
//! A frame is a `u32` request number, then the tagged structure in [`wire`](crate::form) form. The answer repeats the
//! request's number; a [`Reply`] that answers no request has 0. A frame travels in as many [`packets`] as it needs.
//! Descriptors travel with the last packet (`SCM_RIGHTS`), in the order that the structure states. Requests are
//! idempotent by worker, so a request whose answer was lost can be sent again.
//!
//! Files:
//! - `protocol`: versions of the protocol
//! - `reply`: answers and reports of the spawner
//! - `request`: requests of fnd
//! - `worker`: starts and ends of workers

mod protocol;
mod reply;
mod request;
mod worker;

pub use protocol::*;
pub use reply::*;
pub use request::*;
pub use worker::*;

use crate::archive::Format;
use crate::form::{Bytes, Wire, WireError, wire_enum, wire_structs};
use crate::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use crate::mask::Masks;
use crate::naming;
use crate::plan::{ANSWER_MAX, JudgedFile};

/// Largest packet in bytes; far below the size of a socket's buffer.
pub const PACKET_MAX: usize = 32 * 1024;
/// Largest frame in bytes, the sum of its packets: twice the largest answer of the judge, whose document travels in a frame.
pub const FRAME_MAX: usize = 2 * ANSWER_MAX;
/// Largest number of descriptors with one frame.
pub const DESCRIPTORS_MAX: usize = 10;

/// Returns whether an error means that the machine has run out of a shared resource: memory, processes, descriptors,
/// disk space or a working disk. The numbers are those of Linux (`errno(3)`).
#[must_use]
pub fn is_shortage(error: &std::io::Error) -> bool {
    // The numbers are written here, because this crate links no libc.
    const EIO: i32 = 5;
    // Of fork(2): there are as many processes as there may be.
    const EAGAIN: i32 = 11;
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOSPC: i32 = 28;
    // A file system with errors may become one that can only be read (`errors=remount-ro`).
    const EROFS: i32 = 30;
    const ENOBUFS: i32 = 105;
    // Too many descriptors are on their way over sockets (unix(7)).
    const ETOOMANYREFS: i32 = 109;
    matches!(
        error.raw_os_error(),
        Some(EIO | EAGAIN | ENOMEM | ENFILE | EMFILE | ENOSPC | EROFS | ENOBUFS | ETOOMANYREFS)
    )
}

/// Returns the packets of a frame, in order: each is a byte that is 1 if more packets follow, then a part of the frame.
#[must_use]
pub fn packets(frame: &[u8]) -> Vec<Vec<u8>> {
    // The first byte of a packet says whether another one follows.
    let parts: Vec<&[u8]> = frame.chunks(PACKET_MAX - 1).collect();
    let packet = |(index, part): (usize, &&[u8])| [&[u8::from(index + 1 < parts.len())], *part].concat();
    parts.iter().enumerate().map(packet).collect()
}

/// A frame of which only some packets have come so far.
#[derive(Debug, Default)]
pub struct Partial(Vec<u8>);

impl Partial {
    /// Adds a packet and returns the frame once it is complete.
    ///
    /// # Errors
    /// [`WireError::Short`] if the packet is empty, [`WireError::Value`] if the frame is larger than [`FRAME_MAX`] or
    /// the packet begins with a byte other than 0 or 1.
    pub fn add(&mut self, packet: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        let (more, part) = packet.split_first().ok_or(WireError::Short)?;
        // The frame is bounded while it grows, so that the other side cannot make this one allocate without end.
        if *more > 1 || self.0.len() + part.len() > FRAME_MAX {
            return Err(WireError::Value);
        }
        self.0.extend_from_slice(part);
        Ok((*more == 0).then(|| std::mem::take(&mut self.0)))
    }
}

/// Returns the bytes of a frame.
pub fn encode<T: Wire>(request: u32, body: &T) -> Vec<u8> {
    let mut out = request.to_wire();
    body.put(&mut out);
    out
}

/// Returns the request number and the structure of a frame.
///
/// # Errors
/// Any [`WireError`]; the connection can't be used any more then.
pub fn decode<T: Wire>(frame: &[u8]) -> Result<(u32, T), WireError> {
    <(u32, T)>::from_wire(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_run_out_of_is_no_functions_fault() {
        let of = |number| is_shortage(&std::io::Error::from_raw_os_error(number));
        // EMFILE, ENFILE, ENOSPC, EAGAIN, ENOMEM.
        assert!([24, 23, 28, 11, 12].into_iter().all(of));
        // ENOENT, EACCES, ENOEXEC, E2BIG, EDQUOT.
        assert!(![2, 13, 8, 7, 122].into_iter().any(of));
        assert!(!is_shortage(&std::io::Error::other("said by nobody")));
    }

    #[test]
    fn a_lease_has_this_form() {
        let of = |until_ms| {
            Request::Lease(Lease {
                worker: WorkerId(9),
                until_ms,
            })
        };
        let never = [7, 0, 0, 0, 28, 9, 0, 0, 0, 0, 0, 0, 0, 0];
        let later = [7, 0, 0, 0, 28, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
        for (until_ms, bytes) in [(None, &never[..]), (Some(256), &later[..])] {
            assert_eq!(encode(7, &of(until_ms)), bytes);
            assert_eq!(decode(bytes), Ok((7, of(until_ms))));
        }
    }

    #[test]
    fn a_frame_of_many_packets_comes_together_again() {
        for length in [1, PACKET_MAX - 1, PACKET_MAX, 3 * PACKET_MAX] {
            let frame = vec![7; length];
            let mut partial = Partial::default();
            let parts = packets(&frame);
            assert!(parts.iter().all(|packet| packet.len() <= PACKET_MAX));
            let (last, others) = parts.split_last().unwrap();
            assert!(others.iter().all(|packet| partial.add(packet) == Ok(None)));
            assert_eq!(partial.add(last), Ok(Some(frame)));
        }
    }

    #[test]
    fn what_is_no_packet_or_too_much_is_refused() {
        assert_eq!(Partial::default().add(&[]), Err(WireError::Short));
        assert_eq!(Partial::default().add(&[2, 0]), Err(WireError::Value));
        let mut partial = Partial(vec![0; FRAME_MAX]);
        assert_eq!(partial.add(&[0, 1]), Err(WireError::Value));
    }
}
