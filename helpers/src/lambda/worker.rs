//! Descriptor 3: the messages of fnd, and the bytes for it.

use super::frames::{FndMessage, FrameHeader, FrameJoiner};
use super::state::{OutgoingFrames, WorkerState};
use fnd_core::records::protocol::HEADER;
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{self, ErrorKind};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::UnboundedReceiver;

/// The descriptor of a worker (`runtimes/PROTOCOL.md`).
const DESCRIPTOR: i32 = 3;

/// Returns the connection to fnd. To be called once, before this process has opened anything.
///
/// # Errors
/// The descriptor is not open.
pub(super) fn connection() -> io::Result<UnixStream> {
    #[expect(unsafe_code, reason = "a descriptor number becomes an owner")]
    // SAFETY: fnd-spawner passes this descriptor for this purpose, and this call is the only one that takes it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(DESCRIPTOR) };
    // `bootstrap` would keep the connection open, and could write to it.
    if let Err(error) = fcntl_setfd(&descriptor, FdFlags::CLOEXEC) {
        // It is not open, so it must not be closed.
        std::mem::forget(descriptor);
        return Err(error.into());
    }
    Ok(UnixStream::from(descriptor))
}

/// Takes the messages of fnd until it closes its end.
///
/// # Errors
/// fnd sent something else than the protocol says.
pub(super) async fn read(from: OwnedReadHalf, state: &WorkerState) -> Result<(), String> {
    let mut from = BufReader::new(from);
    let mut joiner = FrameJoiner::default();
    while let Some((header, content)) = frame(&mut from).await? {
        match joiner.add(header, content)? {
            Some(FndMessage::Invoke(invocation)) => state.add_call(invocation),
            Some(FndMessage::Stop) => state.stop(),
            None => {}
        }
    }
    Ok(())
}

/// Returns the next frame; nothing at the end.
async fn frame(from: &mut BufReader<OwnedReadHalf>) -> Result<Option<(FrameHeader, Vec<u8>)>, String> {
    let mut header = [0; HEADER];
    match from.read_exact(&mut header).await {
        Ok(_) => {}
        // fnd may end in the middle of a message.
        Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) => {
            return Ok(None);
        }
        Err(error) => return Err(format!("failed to read from fnd: {error}")),
    }
    let header = FrameHeader::read(header)?;
    let mut content = vec![0; header.length];
    match from.read_exact(&mut content).await {
        Ok(_) => Ok(Some((header, content))),
        Err(_) => Ok(None),
    }
}

/// Writes bytes for fnd, until fnd closes its end, the queue ends, or the last ones are written. Then fnd sees the end of this
/// direction; the other one goes on.
pub(super) async fn write(mut to: OwnedWriteHalf, mut queue: UnboundedReceiver<OutgoingFrames>) {
    while let Some(outgoing) = queue.recv().await {
        if to.write_all(&outgoing.bytes).await.is_err() || outgoing.is_last {
            return;
        }
        if let Some(written) = outgoing.written {
            // An error: nobody waits any more.
            let _ = written.send(());
        }
    }
}
