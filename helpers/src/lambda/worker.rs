//! Descriptor 3: the messages of fnd, and the bytes for it.

use super::calls::Invocation;
use super::state::{OutgoingFrames, WorkerState};
use fnd_core::records::protocol::worker_side::{FndDecoder, FndMessage};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::{self, ErrorKind};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::UnboundedReceiver;

/// The descriptor of a worker (`runtimes/PROTOCOL.md`).
const DESCRIPTOR: i32 = 3;
/// Bytes of fnd that are read at once.
const READ_SIZE: usize = 16 << 10;

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
pub(super) async fn read(mut from: OwnedReadHalf, state: &WorkerState) -> Result<(), String> {
    let mut decoder = FndDecoder::default();
    let mut bytes = vec![0; READ_SIZE];
    loop {
        let count = match from.read(&mut bytes).await {
            // fnd may end in the middle of a message.
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(format!("failed to read from fnd: {error}")),
        };
        decoder.push(bytes.get(..count).unwrap_or_default());
        while let Some(message) = decoder.take()? {
            match message {
                FndMessage::Invoke { call, content } => state.add_call(Invocation::read(call, content)?),
                FndMessage::Stop => state.stop(),
            }
        }
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
