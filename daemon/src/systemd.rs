//! The service manager: readiness, watchdog, sockets it opened (`sd_notify(3)`, `sd_listen_fds(3)`). Without a service
//! manager these functions do nothing.

use sd_notify::NotifyState;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;
use tokio::net::UnixListener;

/// Name of the control socket's descriptor (`FileDescriptorName=` of `fnd.socket`).
const CONTROL: [&str; 2] = ["control", "fnd.socket"];
/// Name of the descriptors of the public listener (`FileDescriptorName=` of `fnd-http.socket`).
const HTTP: [&str; 2] = ["http", "fnd-http.socket"];

/// The sockets on which the service manager listens for fnd.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub control: Option<UnixListener>,
    /// The sockets of the public listener, TCP or Unix.
    pub http: Vec<OwnedFd>,
}

/// Returns the sockets on which the service manager listens for fnd. To be called once, at start.
///
/// # Errors
/// The descriptor of the control socket is not a listening Unix socket.
pub(crate) fn sockets() -> io::Result<Sockets> {
    let mut sockets = Sockets::default();
    for (descriptor, name) in sd_notify::listen_fds_with_names()? {
        let is_control = CONTROL.contains(&name.as_str());
        if !is_control && !HTTP.contains(&name.as_str()) {
            continue;
        }
        #[expect(unsafe_code, reason = "a descriptor number becomes an owner")]
        // SAFETY: sd_listen_fds(3) hands these descriptors to this process, and nobody else here takes them: this is
        // called once, at start, and each descriptor occurs once.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        if is_control && sockets.control.is_none() {
            let listener = std::os::unix::net::UnixListener::from(owned);
            // systemd passes sockets in blocking mode by default (`NonBlocking=` in systemd.service(5)).
            listener.set_nonblocking(true)?;
            sockets.control = Some(UnixListener::from_std(listener)?);
        } else if !is_control {
            sockets.http.push(owned);
        }
    }
    Ok(sockets)
}

/// Sends states to the service manager. A manager that is missing or does not listen is no error.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

/// Reports that fnd serves.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Sets the line that `systemctl status` shows.
pub(crate) fn status(line: &str) {
    notify(&[NotifyState::Status(line)]);
}

/// Reports that a reload began; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        // A unit with `Type=notify-reload` needs the time when the reload began (sd_notify(3)); other types ignore it.
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Reports that fnd stops.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports that fnd is alive.
pub(crate) fn alive() {
    notify(&[NotifyState::Watchdog]);
}

/// Returns the interval at which [`alive`] must be called: half of the service manager's limit.
#[must_use]
pub(crate) fn watchdog() -> Option<Duration> {
    // Half, as sd_watchdog_enabled(3) recommends.
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
