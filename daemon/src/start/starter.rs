//! `fndctl run` as the starter of a private fnd: how fnd learns that it was killed, and what fnd does then in its place.
//!
//! fnd's standard input is a pipe, and `fndctl run` holds the only other end and writes nothing. So the kernel closes the
//! pipe when `fndctl run` ends, however it ends.

use crate::cli::Cli;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// Waits until the starter of a private fnd has ended; without limit where fnd is not private.
pub(super) async fn ended(cli: &Cli) {
    if cli.private.is_none() {
        return std::future::pending().await;
    }
    let own = io::stdin().as_fd().try_clone_to_owned();
    match own.and_then(Receiver::from_owned_fd) {
        Ok(mut pipe) => {
            // Nobody writes: the end, or an error, which is an end too.
            while pipe.read(&mut [0; 16]).await.is_ok_and(|length| length > 0) {}
            tracing::info!("stopping, and ending all running work: `fndctl run` has ended");
        }
        Err(error) => {
            tracing::error!("failed to watch for the end of `fndctl run`: {error}");
            std::future::pending::<()>().await;
        }
    }
}

/// Removes the files of a private fnd that has ended, unless its starter lives and does it.
pub(super) fn remove_files(cli: &Cli) {
    let Some(directory) = &cli.private else { return };
    let input = io::stdin();
    let mut input = [PollFd::new(&input, PollFlags::IN)];
    let closed = poll(&mut input, Some(&Timespec::default())).is_ok() && input[0].revents().contains(PollFlags::HUP);
    if closed {
        let _ = std::fs::remove_dir_all(directory); // an error: nobody is there to hear of it
    }
}
