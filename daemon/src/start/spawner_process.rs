//! Starts fnd-spawner as fnd's own child (development and `--user`), or connects to one that runs already.

use crate::cli::{DaemonCli, Places};
use crate::workers::link::ConnectionError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, socketpair};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Why there is no spawner.
#[derive(Debug, thiserror::Error)]
pub enum SpawnerError {
    /// Its program is not in the expected places.
    #[error("found no fnd-spawner beside fnd nor in /usr/libexec/fnd: build it with `cargo build -p fnd-spawner`")]
    NotFound,
    /// It could not be started.
    #[error("failed to start `{path}`")]
    Start { path: PathBuf, source: io::Error },
    /// It could not be reached.
    #[error("failed to connect to the spawner at `{path}`; is fnd-spawner.service running?")]
    Connect { path: PathBuf, source: io::Error },
}

/// The spawner ended or was lost, and with it everything it had started.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// The spawner was fnd's own child, and has ended.
    #[error("fnd-spawner ended ({0}), and all running work with it, which is recorded as interrupted; start fnd again")]
    Ended(ExitStatus),
    /// The connection to the spawner broke.
    #[error("lost fnd-spawner, and all running work with it, which is recorded as interrupted")]
    Connection(#[source] ConnectionError),
}

impl Lost {
    /// Returns what happened, from how the connection broke and how the spawner ended, if it was fnd's child.
    #[must_use]
    pub fn new(broken: ConnectionError, ended: Option<ExitStatus>) -> Self {
        match (broken, ended) {
            (ConnectionError::Closed, Some(ended)) => Self::Ended(ended),
            (broken, _) => Self::Connection(broken),
        }
    }
}

/// How long an fnd waits for the spawner of the fnd before it. That spawner kills its functions when its fnd is gone,
/// and takes a moment for it.
const LAST_ONE_ENDS: Duration = Duration::from_secs(5);
/// Pause between two checks of that: the lock gives no event when it is free, except to a wait without end.
const CHECK_PAUSE: Duration = Duration::from_millis(20);

/// Waits until no spawner uses a state directory, if fnd starts its own: after a `kill -9` of the fnd before this one,
/// its spawner still has to end. If that takes too long, the wait ends: starting another spawner then reports the
/// problem.
pub async fn last_one_ended(cli: &DaemonCli, places: &Places) {
    if cli.spawner_socket.is_some() {
        return;
    }
    let table = places.state.join("spawner/uids");
    let is_used = || {
        // A state directory without this file has had no spawner yet.
        let Ok(file) = std::fs::File::open(&table) else {
            return false;
        };
        // The lock is released with the descriptor.
        flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    };
    let free = async {
        while is_used() {
            tokio::time::sleep(CHECK_PAUSE).await; // no event: see CHECK_PAUSE
        }
    };
    drop(tokio::time::timeout(LAST_ONE_ENDS, free).await);
}

/// Connects to the spawner that is named, or starts one. Returns the connected `SOCK_SEQPACKET` socket, and the process of a spawner
/// that is fnd's own: closing the socket ends it.
///
/// # Errors
/// [`SpawnerError`].
pub fn spawner(cli: &DaemonCli, places: &Places) -> Result<(OwnedFd, Option<Child>), SpawnerError> {
    match &cli.spawner_socket {
        Some(path) => Ok((reach(path)?, None)),
        None => start(cli, places).map(|(socket, child)| (socket, Some(child))),
    }
}

fn reach(path: &Path) -> Result<OwnedFd, SpawnerError> {
    let failed = |errno: rustix::io::Errno| SpawnerError::Connect {
        path: path.to_owned(),
        source: errno.into(),
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    connect(&socket, &address).map_err(failed)?;
    Ok(socket)
}

fn start(cli: &DaemonCli, places: &Places) -> Result<(OwnedFd, Child), SpawnerError> {
    let own = std::env::current_exe().map_err(|source| SpawnerError::Start {
        path: "/proc/self/exe".into(),
        source,
    })?;
    let beside = own.with_file_name("fnd-spawner");
    let installed = PathBuf::from("/usr/libexec/fnd/fnd-spawner");
    // A build that is tried out uses its own spawner, also on a machine with an installed one.
    let path = [beside, installed]
        .into_iter()
        .find(|path| path.is_file())
        .ok_or(SpawnerError::NotFound)?;
    let failed = |source: io::Error| SpawnerError::Start {
        path: path.clone(),
        source,
    };
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failed(errno.into()))?;
    let mut command = Command::new(&path);
    for dir in &places.functions {
        command.arg("--functions").arg(dir);
    }
    for dir in &places.runtimes {
        command.arg("--runtimes").arg(dir);
    }
    command
        .arg("--config")
        .arg(&places.config)
        .arg("--state")
        .arg(&places.state);
    command.arg("--run-dir").arg(places.run_dir.join("spawner"));
    // The helper of the same version as this program, also if the spawner is the installed one.
    let helper = own.with_file_name("fnd-helper");
    if helper.is_file() {
        command.arg("--fnd").arg(helper);
    }
    // The socket is its standard input, so that no descriptor number has to be agreed on.
    command.args(["--socket-fd", "0"]).stdin(Stdio::from(theirs));
    if let Some(name) = &cli.cgroup_root {
        command.arg("--cgroup-root").arg(name);
    }
    // The service manager does not know the spawner as a service: only fnd reports for both.
    command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    if cli.best_effort_limits {
        command.arg("--best-effort-limits");
    }
    make_room_in_unit(Path::new("/sys/fs/cgroup"));
    Ok((ours, command.spawn().map_err(failed)?))
}

/// Moves fnd to the cgroup `hold` of its unit, if systemd delegated the unit's cgroup to it: cgroups(7) allows limits below
/// a cgroup only where no process is in it. The spawner, which is fnd's child, finds the unit above `hold`.
///
/// Where this is not possible, the spawner says which limits are missing.
fn make_room_in_unit(mount: &Path) {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = own.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return;
    };
    let unit = mount.join(path);
    let mut delegated = [0u8; 1];
    if rustix::fs::getxattr(&unit, "user.delegate", &mut delegated[..]).is_ok() && delegated == *b"1" {
        let hold = unit.join("hold");
        let moved = std::fs::create_dir(&hold).and_then(|()| std::fs::write(hold.join("cgroup.procs"), "0"));
        if let Err(error) = moved {
            tracing::warn!("fnd cannot leave the cgroup of its unit, so limits may be missing: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn waits(state: &Path) -> std::time::Duration {
        let cli = DaemonCli::parse_from(["fnd", "--state", &state.display().to_string()]);
        let places = crate::modes::check::places(&cli).unwrap();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let begun = tokio::time::Instant::now();
            last_one_ended(&cli, &places).await;
            begun.elapsed()
        })
    }

    #[test]
    fn the_spawner_of_the_fnd_before_is_waited_for_but_not_for_ever() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(waits(state.path()), Duration::ZERO, "there was none");
        std::fs::create_dir(state.path().join("spawner")).unwrap();
        let table = std::fs::File::create(state.path().join("spawner/uids")).unwrap();
        assert_eq!(waits(state.path()), Duration::ZERO);
        flock(&table, FlockOperation::LockExclusive).unwrap();
        assert!(waits(state.path()) >= LAST_ONE_ENDS);
        drop(table);
        assert_eq!(waits(state.path()), Duration::ZERO);
    }
}
