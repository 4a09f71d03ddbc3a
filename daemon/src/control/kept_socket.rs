//! Makes the control socket again when somebody removes it, for example while cleaning a directory up. Only for a socket that
//! fnd has made itself: systemd holds its own.

use super::listen;
use crate::descriptors;
use crate::http::listen::Listeners;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches the directory of the socket, for as long as fnd runs. Without events nothing wakes fnd.
pub(crate) async fn keep(path: PathBuf, listeners: Listeners) {
    let failed = |error: &io::Error| {
        let path = path.display();
        tracing::warn!("failed to watch `{path}`: {error}; if somebody removes it, fnd must be started again");
    };
    let Ok(watch) = watched(&path).inspect_err(failed) else {
        // The task must not end, since the end of a task of fnd's own ends fnd.
        return std::future::pending().await;
    };
    loop {
        let changed = next_change(&watch).await;
        if changed.inspect_err(failed).is_err() {
            return std::future::pending().await;
        }
        // The watch tells of all files of the directory.
        if !path.exists() {
            make_again(&path, &listeners);
        }
    }
}

fn make_again(path: &Path, listeners: &Listeners) {
    match listen::bind(path) {
        Ok(listener) => {
            listeners.replace(listener);
            tracing::warn!("`{}` was removed; it is made again", path.display());
        }
        Err(error) => tracing::error!("{}; nobody can reach fnd there", crate::chain(&error)),
    }
}

fn watched(path: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let made = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(
        &made,
        directory,
        WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR,
    )?;
    descriptors::watch(made, Interest::READABLE)
}

/// Waits until a file of the directory is removed.
async fn next_change(watch: &AsyncFd<OwnedFd>) -> io::Result<()> {
    let mut guard = watch.readable().await?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    loop {
        match reader.next() {
            // Which file has gone does not matter: the path of the socket is checked afterwards.
            Ok(_) => {}
            Err(Errno::AGAIN) => {
                guard.clear_ready();
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}
