//! Uploads and removes functions: stages the files, has the catalog exchange them, waits for what the spawner says, and
//! keeps them or takes them back. `uploads/` has each step.

use super::upload::not_removable;
use super::{Backend, Deployed, Failure, NotDone, NotStored, Upload, UploadCondition};
use crate::uploads::staging::{Staged, in_place};
use crate::uploads::{form, judged};
use fnd_core::api::RemovedFunction;
use fnd_core::lifecycle::UploadSeen;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::FunctionName;
use hyper::body::Bytes;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How long the spawner may take for its verdict on new files: it waits for other functions, and unpacks an archive.
const VERDICT: Duration = Duration::from_secs(120);
/// How long the answer waits until the files before serve again.
const BACK: Duration = Duration::from_secs(10);
/// How long a new version may take to be loaded before the caller is answered without that.
const TRIAL: Duration = Duration::from_secs(60);
/// Uploads that are read into memory at once: a body may lie on the disk, and is as large as 64 MiB.
static READING: Semaphore = Semaphore::const_new(1);

impl Backend {
    /// Stores the files of a function, and waits until they serve or are refused; then the files before stay.
    pub(crate) async fn deploy(&self, upload: Upload) -> Result<Deployed, NotDone> {
        self.alone(upload.function.clone(), self.clone().deployed(upload)).await
    }

    /// Deletes the files of a function, and waits until it is gone.
    pub(crate) async fn remove(
        &self,
        function: FunctionName,
        condition: UploadCondition,
    ) -> Result<RemovedFunction, NotDone> {
        self.alone(function.clone(), self.clone().removed(function, condition))
            .await
    }

    /// Does a change of a function as a task of its own: when the caller leaves, the change still comes to its end.
    /// Refuses it while another one of the same function is under way.
    async fn alone<T: 'static>(
        &self,
        function: FunctionName,
        change: impl Future<Output = Result<T, NotDone>> + 'static,
    ) -> Result<T, NotDone> {
        let daemon = Rc::clone(&self.daemon);
        if !daemon.state.borrow_mut().functions.uploads.begin(&function) {
            let words =
                format!("somebody else uploads or removes `{function}` at this moment: nothing was changed; try again");
            return Err(NotDone::Conflict(words));
        }
        let done = self.to_the_end(async move {
            let ended = change.await;
            daemon.state.borrow_mut().functions.uploads.end(&function);
            Some(ended)
        });
        let stopping =
            || NotDone::Unavailable("fnd is stopping: at its next start, the files before are put back".to_owned());
        done.await.unwrap_or_else(|_| Err(stopping()))
    }

    async fn deployed(self, upload: Upload) -> Result<Deployed, NotDone> {
        let function = upload.function.clone();
        self.loads_code()?;
        let is_new = self.may_change(&function, upload.condition)?;
        self.is_read()?;
        let root = self.uploads();
        let staged = self.staged(&upload, &root).await?;
        let places = (Arc::clone(&self.places), staged.clone(), root, function.clone());
        let problems = blocking(move || {
            let (places, staged, root, function) = places;
            Ok(judged::problems(&places, &function, &staged.new_root(), &root))
        })
        .await?;
        let refused = problems.iter().any(Diagnostic::is_error);
        if refused || upload.dry_run {
            blocking(move || staged.take_back().map(drop)).await?;
            return if refused {
                Err(NotDone::Refused(problems))
            } else {
                Ok(Deployed::Judged(problems))
            };
        }
        // Somebody else may have changed the files meanwhile.
        if let Err(why) = self.may_change(&function, upload.condition) {
            blocking(move || staged.take_back().map(drop)).await?;
            return Err(why);
        }
        if let Err(why) = self.exchanged(&function, &staged).await {
            self.taken_back(&function, staged).await;
            return Err(why);
        }
        // A caller that has the answer gets the new release, even if fnd is killed right afterwards.
        if let Err(NotStored(why)) = self.stored().await {
            self.taken_back(&function, staged).await;
            let words = format!("the new release could not be stored, so nothing was changed: {why}");
            return Err(NotDone::Unavailable(words));
        }
        self.committed(&function, staged).await?;
        let detail = self.function(&function).ok_or(NotDone::NoFunction)?;
        let detail = Box::new(detail);
        Ok(if is_new {
            Deployed::Created(detail)
        } else {
            Deployed::Replaced(detail)
        })
    }

    /// Writes the files of an upload beside their place.
    async fn staged(&self, upload: &Upload, root: &Path) -> Result<Staged, NotDone> {
        let _one = READING.acquire().await; // it is never closed
        let (root, function, uploader) = (root.to_owned(), upload.function.clone(), upload.uploader);
        let (body, form) = (upload.body.clone(), upload.form.clone());
        let runtime = tokio::runtime::Handle::current();
        let stored = tokio::task::spawn_blocking(move || {
            let staged = Staged::begin(&root, &function, Some(uploader))?;
            let stem = function.as_str().rsplit('/').next().unwrap_or_default();
            let bytes = Bytes::from(body.bytes()?.into_owned());
            // The bytes are there: nothing in it waits.
            let stored = runtime.block_on(form::store(&form, bytes, &staged.files(), stem));
            if stored.is_err() {
                let _ = staged.take_back(); // it is tried again when the next upload begins
            }
            stored.map(|()| staged)
        });
        match stored.await.map_err(|error| failed(&error))? {
            Ok(staged) => Ok(staged),
            Err(form::Unusable::Wrong(what)) => Err(NotDone::Wrong(what)),
            Err(form::Unusable::Disk(error)) => Err(disk(error)),
        }
    }

    /// Puts the new files into their place, and waits until they serve.
    async fn exchanged(&self, function: &FunctionName, staged: &Staged) -> Result<(), NotDone> {
        // Expected before the exchange, so that the spawner's word about the new files can't come too early.
        let found = self.daemon.state.borrow_mut().functions.uploads.expect(function);
        let swapped = staged.clone();
        // The catalog moves the files between two of its scans. A function has several files and a rename moves one, so
        // a scan in between would see half of an upload.
        self.arrange(function, move || swapped.swap()).await.map_err(disk)?;
        match self.seen(found, VERDICT).await {
            Some(UploadSeen::Installed) => self.tried(function).await,
            Some(UploadSeen::Refused) => Err(NotDone::Refused(self.diagnostics(function))),
            Some(UploadSeen::Removed) | None => Err(NotDone::Unavailable(format!(
                "the new files of `{function}` were not read within {} s, so the files before are in place again: `fndctl status` \
                 shows what fnd waits for",
                VERDICT.as_secs()
            ))),
        }
    }

    /// Has the catalog look at once, and returns what is found about the files that were exchanged; nothing if that takes longer
    /// than `limit`.
    async fn seen(&self, found: oneshot::Receiver<UploadSeen>, limit: Duration) -> Option<UploadSeen> {
        let _scanned = self.daemon.scan();
        timeout(limit, found).await.ok()?.ok()
    }

    /// Ends an upload for good. If the disk does not take that, the files before come back: the next start would put them
    /// back in any case.
    async fn committed(&self, function: &FunctionName, staged: Staged) -> Result<(), NotDone> {
        let ends = staged.clone();
        let ended = blocking(move || ends.commit()).await;
        if ended.is_err() {
            self.taken_back(function, staged).await;
        }
        ended
    }

    /// Puts the files before back into their place, and waits until they serve, or until the function is gone again.
    async fn taken_back(&self, function: &FunctionName, staged: Staged) {
        let found = self.daemon.state.borrow_mut().functions.uploads.expect(function);
        if let Err(error) = self.arrange(function, move || staged.take_back()).await {
            // The next upload of the function, or the next start, tries again.
            tracing::error!("failed to put the files of `{function}` back: {}", crate::chain(&error));
            return;
        }
        let _ = self.seen(found, BACK).await; // the caller is told why the new files are refused in any case
    }

    /// Waits until the newest version serves or gets a share of the calls, or could not be loaded. A new function has no
    /// version to fall back to, so it has no such trial. After a trial that takes too long, `status` shows how it ends.
    async fn tried(&self, function: &FunctionName) -> Result<(), NotDone> {
        self.decided(BTreeSet::from([function.clone()]), TRIAL).await;
        // The drain may have ended the wait, because no worker starts any more.
        self.loads_code()?;
        let newer = self.settled().look().newer(function);
        // A version that failed its trial before, and is still tried, has the error of that earlier trial.
        let newer = newer.filter(|newer| newer.version.is_none() || newer.failed_trials > 0);
        let Some(error) = newer.and_then(|newer| newer.error) else {
            return Ok(());
        };
        let mut problems = self.diagnostics(function);
        problems.push(Diagnostic::error("load", error));
        Err(NotDone::Refused(problems))
    }

    async fn removed(self, function: FunctionName, condition: UploadCondition) -> Result<RemovedFunction, NotDone> {
        let function = &function;
        let (root, name) = (self.uploads(), function.clone());
        let found = blocking(move || in_place(&root, &name)).await?;
        if found.is_empty() {
            return Err(match self.elsewhere(function) {
                Some(source) => not_removable(function, &source),
                None => NotDone::NoFunction,
            });
        }
        self.meets(function, condition)?;
        let serves = self.elsewhere(function);
        let (root, name) = (self.uploads(), function.clone());
        let staged = blocking(move || Staged::begin(&root, &name, None)).await?;
        let gone = self.daemon.state.borrow_mut().functions.uploads.expect(function);
        let swapped = staged.clone();
        if let Err(error) = self.arrange(function, move || swapped.swap()).await {
            let taken = staged.clone();
            let _ = self.arrange(function, move || taken.take_back()).await; // `recover` tries again
            return Err(disk(error));
        }
        self.committed(function, staged).await?;
        let known = self.daemon.state.borrow().lifecycle.registry.get(function).is_some();
        if known && serves.is_none() {
            let _ = self.seen(gone, VERDICT).await; // the files are gone in any case
        }
        Ok(RemovedFunction {
            function: function.to_string(),
            files: found.iter().map(|path| path.display().to_string()).collect(),
            serves,
            remains: vec![
                format!("its history and output, until they are too old (`fndctl history {function}`)"),
                format!("its home and cache, which a new function `{function}` gets again"),
            ],
        })
    }

    fn diagnostics(&self, function: &FunctionName) -> Vec<Diagnostic> {
        let state = self.daemon.state.borrow();
        let known = state.lifecycle.registry.get(function);
        known
            .map(|known| known.findings.diagnostics.clone())
            .unwrap_or_default()
    }

    /// Moves files between two scans of the catalog.
    async fn arrange(
        &self,
        function: &FunctionName,
        work: impl FnOnce() -> io::Result<Vec<PathBuf>> + Send + 'static,
    ) -> io::Result<()> {
        let (sender, done) = oneshot::channel();
        let work = move || {
            let (placed, ended) = match work() {
                Ok(placed) => (placed, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            let _ = sender.send(ended); // an error: fnd is stopping
            placed
        };
        self.daemon
            .state
            .borrow()
            .functions
            .catalog
            .arrange(function.clone(), Box::new(work));
        done.await
            .unwrap_or_else(|_| Err(io::Error::other("the catalog has ended")))
    }
}

/// Does something with the disk that may take long.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, NotDone> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| failed(&error))?.map_err(disk)
}

fn failed(error: &dyn std::fmt::Display) -> NotDone {
    NotDone::Failed(Failure(error.to_string()))
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` takes")]
fn disk(error: io::Error) -> NotDone {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            NotDone::Unavailable("the disk of the state has no room: nothing was changed".to_owned())
        }
        _ => failed(&error),
    }
}
