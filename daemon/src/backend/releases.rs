//! Releases: the verbs wait until the release serves or cannot, and until the ledger has stored the hold.

use super::Control;
use crate::control::backend::Pending;
use crate::driver::releases::Held;
use fnd_core::api::{ReleaseChanged, ReleaseFile, ReleaseFiles, ReleaseList};
use fnd_core::release::{HoldKind, NotHeld, ReleaseState};
use fnd_wire::frame::StoredFile;
use fnd_wire::ids::{FunctionName, Version};
use std::time::Duration;

/// How long a caller waits for a release that is tried; a worker that loads for longer fails its trial.
const TRIAL: Duration = Duration::from_secs(40);
/// How long a caller waits for the files of a release.
const READ: Duration = Duration::from_secs(30);
/// How long a caller waits for a disk.
const STORED: Duration = Duration::from_secs(10);

impl Control {
    pub(super) fn list_releases(&self, name: &FunctionName) -> Result<ReleaseList, NotHeld> {
        let state = self.daemon.state.borrow();
        let trial = state.supervisor.function(name).and_then(|view| view.trial);
        Ok(ReleaseList::of(
            state.releases_of(name)?,
            trial.map(|trial| trial.version),
        ))
    }

    pub(super) fn hold_release(
        &self,
        name: &FunctionName,
        kind: HoldKind,
        release: Option<&str>,
    ) -> Pending<Result<ReleaseChanged, NotHeld>> {
        let mut state = self.settled();
        let ledger = state.records.ledger.clone();
        let held = state.hold_release(name, kind, release);
        drop(state);
        Box::pin(async move {
            let (version, state) = match held? {
                Held::Serves(version) => (version, ReleaseState::Serving),
                Held::Asked(version, waiting) => match tokio::time::timeout(TRIAL, waiting).await {
                    Ok(Ok(Ok(version))) => (version, ReleaseState::Serving),
                    Ok(Ok(Err(why))) => return Err(NotHeld::Failed(why)),
                    Ok(Err(_)) => return Err(NotHeld::Failed("fnd is stopping".to_owned())),
                    Err(_) => (version, ReleaseState::Trying),
                },
            };
            flush(ledger).await;
            Ok(changed(Some(version), state))
        })
    }

    pub(super) fn end_hold(&self, name: &FunctionName) -> Pending<Result<ReleaseChanged, NotHeld>> {
        let mut state = self.settled();
        let ledger = state.records.ledger.clone();
        let ended = state.end_hold(name);
        let serving = state.supervisor.function(name).and_then(|view| view.version);
        drop(state);
        Box::pin(async move {
            ended?;
            flush(ledger).await;
            Ok(changed(serving, ReleaseState::Serving))
        })
    }

    pub(super) fn read_release(&self, name: &FunctionName, release: &str) -> Pending<Result<ReleaseFiles, NotHeld>> {
        let read = self.settled().read_release(name, release);
        Box::pin(async move {
            let (version, files) = read?;
            let files = match tokio::time::timeout(READ, files).await {
                Ok(Ok(files)) => files,
                Ok(Err(_)) => Err("fnd-spawner has ended".to_owned()),
                Err(_) => Err("fnd-spawner does not answer".to_owned()),
            };
            let files = files.map_err(NotHeld::Failed)?;
            Ok(ReleaseFiles {
                version,
                files: files.into_iter().map(shown).collect(),
            })
        })
    }
}

/// Waits until the ledger has stored what was submitted.
async fn flush(ledger: crate::ledger::Writer) {
    // An error: fnd is stopping.
    let _ = tokio::task::spawn_blocking(move || ledger.flush(STORED)).await;
}

fn changed(version: Option<Version>, state: ReleaseState) -> ReleaseChanged {
    ReleaseChanged { version, state }
}

fn shown(file: StoredFile) -> ReleaseFile {
    let is_whole = u64::try_from(file.front.0.len()) == Ok(file.length) && !file.front.0.contains(&0);
    ReleaseFile {
        path: file.path,
        executable: file.executable,
        bytes: file.length,
        sha256: Version(file.digest).hex(),
        text: is_whole.then(|| String::from_utf8(file.front.0).ok()).flatten(),
    }
}
