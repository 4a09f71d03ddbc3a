//! The state directory of a daemon, and the lock by which no second one uses it.

use crate::common::failed;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::local::LocalPlaces;
use fnd_core::api::NodeStatus;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Returns the state directory of the daemon; if it does not answer, that of an installation.
///
/// # Errors
/// The user has no home.
pub(crate) async fn state_directory(context: &Context) -> Result<PathBuf, CommandFailure> {
    let node = context.read::<NodeStatus>("/v1/status").await.ok();
    match node.and_then(|node| node.places) {
        Some(places) => Ok(places.state.into()),
        None => Ok(LocalPlaces::of(context.user)?.state),
    }
}

/// Locks the state as a running fnd does, so that no fnd starts meanwhile.
pub(crate) fn lock(state: &Path) -> Result<File, CommandFailure> {
    let own = state.join("state");
    let make = |path: &Path, mode| {
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(path);
        made.map_err(|error| failed("create", path, &error))
    };
    // The users of functions reach their homes and versions through this directory, so others may enter it.
    make(state, 0o711)?;
    make(&own, 0o700)?;
    let path = own.join("lock");
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    // fnd's user owns this directory, and root opens the file: a link must not lead root elsewhere.
    let file = options.custom_flags(libc::O_NOFOLLOW).open(&path);
    let file = file.map_err(|error| failed("open", &path, &error))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let message = format!("fnd is running with the state directory `{}`", state.display());
        let help = "stop it first: sudo systemctl stop fnd.socket fnd fnd-spawner";
        CommandFailure::new(Exit::Busy, message).help(help)
    })?;
    Ok(file)
}
