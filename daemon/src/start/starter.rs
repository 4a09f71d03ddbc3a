//! `fndctl run` as the starter of a private fnd: how fnd learns that it was killed, and what fnd does then in its place.
//!
//! fnd's standard input is a pipe, and `fndctl run` holds the only other end and writes nothing. So the kernel closes the
//! pipe when `fndctl run` ends, however it ends.

use crate::cli::DaemonCli;
use crate::driver::Daemon;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// Waits until the starter of a private fnd has ended, and then until all work has: it gets SIGTERM, the grace period and
/// SIGKILL. Never returns where fnd is not private.
pub(super) async fn watch(cli: &DaemonCli, daemon: &Daemon) {
    if cli.private.is_none() {
        return std::future::pending().await;
    }
    if let Err(error) = ended().await {
        tracing::error!("failed to watch for the end of `fndctl run`: {error}");
        return std::future::pending().await;
    }
    tracing::info!("stopping, and ending all running work: `fndctl run` has ended");
    // If fnd ended at once, its spawner would kill the functions without a grace period. An error: the drain is over.
    drop(daemon.cancel_to_stop().await);
}

/// Waits until nobody holds the other end of standard input.
async fn ended() -> io::Result<()> {
    let mut pipe = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    // The pipe brings no bytes: reading returns at its end, or with an error, which counts as the end.
    while pipe.read(&mut [0; 16]).await.is_ok_and(|length| length > 0) {}
    Ok(())
}

/// Removes the files of a private fnd that has ended, unless its starter lives and does it.
pub(super) fn remove_files(cli: &DaemonCli) {
    let Some(directory) = &cli.private else { return };
    let input = io::stdin();
    let mut input = [PollFd::new(&input, PollFlags::IN)];
    let closed = poll(&mut input, Some(&Timespec::default())).is_ok() && input[0].revents().contains(PollFlags::HUP);
    if closed {
        let _ = std::fs::remove_dir_all(directory); // an error: nobody is there to hear of it
    }
}
