//! Releases: the verbs wait until the ledger has stored the change, and until the release serves or cannot.

use super::{Backend, NotStored};
use crate::driver::releases::HoldResult;
use crate::ledger::LedgerCommand;
use fnd_core::api::{ReleaseChanged, ReleaseFile, ReleaseFiles, ReleaseList};
use fnd_core::lifecycle::ReleaseChange;
use fnd_core::lifecycle::release::{NotHeld, ReleaseState};
use fnd_wire::frame::StoredFile;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// How long a caller waits for a release that is tried; a worker that loads for longer fails its trial.
pub(super) const TRIAL: Duration = Duration::from_secs(40);
/// How long a caller waits for the files of a release.
const READ: Duration = Duration::from_secs(30);

impl Backend {
    /// Returns the releases of a function.
    ///
    /// # Errors
    /// There is no such function, or it has none.
    pub(crate) fn releases(&self, name: &FunctionName) -> Result<ReleaseList, NotHeld> {
        let state = self.daemon.state.borrow();
        let view = state.supervisor.function(name);
        let trial = view.as_ref().and_then(|view| view.trial);
        let attempts = view.and_then(|view| view.canary).map_or(0, |canary| canary.attempts);
        let trying = trial.map(|trial| trial.version);
        Ok(state.releases_of(name)?.shown(trying, attempts))
    }

    /// Changes which release gets calls; resolves when it does, or cannot.
    pub(crate) async fn change_release(
        &self,
        name: &FunctionName,
        change: ReleaseChange,
    ) -> Result<ReleaseChanged, NotHeld> {
        let (control, name) = (self.clone(), name.clone());
        let held = self.to_the_end(async move { Some(control.change_stored_release(&name, &change).await) });
        let held = held.await.unwrap_or_else(|_| Err(stopping()));
        let (version, state) = match held? {
            HoldResult::Done(version, state) => (version, state),
            HoldResult::Asked(version, state, waiting) => match timeout(TRIAL, waiting).await {
                Ok(Ok(Ok(version))) => (Some(version), state),
                Ok(Ok(Err(why))) => return Err(NotHeld::Failed(why)),
                Ok(Err(_)) => return Err(stopping()),
                // Only the caller stops waiting: the trial goes on.
                Err(_) => (Some(version), ReleaseState::Trying),
            },
        };
        // The change was stored before it was made, and is in force. The ledger keeps its follow-ups (that the release
        // serves) until it can write them; the next fnd makes those again that a kill loses.
        let _ = self.stored().await;
        Ok(ReleaseChanged { version, state })
    }

    /// Waits until it is decided whether the newer versions of these functions can be loaded, for at most `limit`. Only the caller
    /// stops waiting then: the trials go on.
    pub(super) async fn decided(&self, functions: BTreeSet<FunctionName>, limit: Duration) {
        let decided = self.daemon.state.borrow_mut().await_trials(functions);
        let _ = timeout(limit, decided).await; // an error: they are still tried, or fnd is stopping
    }

    /// Stores what a change makes of the releases, and then makes it.
    async fn change_stored_release(&self, name: &FunctionName, change: &ReleaseChange) -> Result<HoldResult, NotHeld> {
        let planned = self.settled().planned_releases(name, change)?;
        let function = name.clone();
        let stored = self.store_change(vec![LedgerCommand::StoreReleases {
            function,
            releases: Some(planned),
        }]);
        stored.await.map_err(not_stored)?;
        self.settled().change_release(name, change)
    }

    /// Returns the files of a release.
    pub(crate) async fn release_files(&self, name: &FunctionName, release: &str) -> Result<ReleaseFiles, NotHeld> {
        let (version, files) = self.settled().read_release(name, release)?;
        let files = match timeout(READ, files).await {
            Ok(Ok(files)) => files,
            Ok(Err(_)) => Err("fnd-spawner has ended".to_owned()),
            Err(_) => Err("fnd-spawner does not answer".to_owned()),
        };
        let files = files.map_err(NotHeld::Failed)?;
        Ok(ReleaseFiles {
            version,
            files: files.into_iter().map(shown).collect(),
        })
    }
}

fn stopping() -> NotHeld {
    NotHeld::Failed("fnd is stopping".to_owned())
}

fn not_stored(NotStored(why): NotStored) -> NotHeld {
    NotHeld::NotStored(why.to_string())
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
