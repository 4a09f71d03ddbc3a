//! The files that a caller uploads, the result, and the conditions of an upload or a removal: the owner of the function's files, and
//! the version that serves.

use super::{Backend, Failure};
use crate::uploads::form::UploadForm;
use fnd_core::api::FunctionDetail;
use fnd_core::data::Data;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::naming::UPLOADS;
use std::path::{Path, PathBuf};

/// The files of a function.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) function: FunctionName,
    /// The user who sends it: what its manifest asks for is what this user may ask for.
    pub(crate) uploader: u32,
    /// How the files are in the body.
    pub(crate) form: UploadForm,
    /// The body of the request.
    pub(crate) body: Data,
    /// The version that has to serve now, if the client names one.
    pub(crate) condition: UploadCondition,
    /// Whether the files are only judged.
    pub(crate) dry_run: bool,
}

/// The requirement of a request on the version that serves.
pub(crate) type UploadCondition = fnd_core::kv::KvCondition<Version>;

/// The result of a deployment.
#[derive(Debug)]
pub(crate) enum Deployed {
    /// The function is new.
    Created(Box<FunctionDetail>),
    /// The function was there before.
    Replaced(Box<FunctionDetail>),
    /// The files were only judged; with warnings.
    Judged(Vec<Diagnostic>),
}

/// Why nothing was changed.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// The body is wrong; says what.
    Wrong(String),
    /// There is no function of that name.
    NoFunction,
    /// The function's files are not uploads; with the words and the command.
    NotUploaded(String),
    /// Another version serves, or somebody changes the function now; in words.
    Conflict(String),
    /// The files are refused.
    Refused(Vec<Diagnostic>),
    /// fnd cannot find out now whether the files are in order; in words.
    Unavailable(String),
    /// The disk or fnd fails.
    Failed(Failure),
}

impl Backend {
    /// Checks whether a function may be uploaded; returns whether it is new.
    pub(super) fn may_change(&self, function: &FunctionName, condition: UploadCondition) -> Result<bool, NotDone> {
        if let Some(source) = self.elsewhere(function) {
            let command = format!(
                "sudo cp FILE {}",
                Path::new(&source).parent().unwrap_or(Path::new("/")).display()
            );
            return Err(not_uploaded(function, &source, &command));
        }
        self.meets(function, condition)?;
        Ok(self.daemon.state.borrow().lifecycle.registry.get(function).is_none())
    }

    /// Checks whether the spawner reads the directory of uploads: its list comes from its own command line.
    pub(super) fn is_read(&self) -> Result<(), NotDone> {
        let uploads = self.uploads();
        let state = self.daemon.state.borrow();
        let directories = &state.workers.welcome.functions_dirs;
        if directories.iter().any(|directory| Path::new(directory) == uploads) {
            return Ok(());
        }
        Err(NotDone::Unavailable(format!(
            "fnd-spawner does not read the directory of uploads: start it with `--functions {}` after the other directories",
            uploads.display()
        )))
    }

    /// Checks that fnd starts workers, without which it cannot try new code.
    pub(super) fn loads_code(&self) -> Result<(), NotDone> {
        if self.daemon.state.borrow().supervisor.is_draining() {
            return Err(NotDone::Unavailable(
                "fnd is draining and starts nothing, so that new code cannot be tried: nothing was changed; deploy it when the \
                 drain is over (`fndctl drain --cancel` cancels it)"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Checks what the caller requires of the version that serves.
    pub(super) fn meets(&self, function: &FunctionName, condition: UploadCondition) -> Result<(), NotDone> {
        let state = self.daemon.state.borrow();
        let is_known = state.lifecycle.registry.get(function).is_some();
        let serves = state.serving(function).map(|serving| serving.version);
        let now = serves.map_or("no version of it serves".to_owned(), |version| {
            format!("`{version}` serves")
        });
        match condition {
            UploadCondition::Any => Ok(()),
            UploadCondition::New if !is_known => Ok(()),
            UploadCondition::New => Err(NotDone::Conflict(format!(
                "there is a function `{function}`: nothing was changed"
            ))),
            UploadCondition::Version(expected) if serves == Some(expected) => Ok(()),
            UploadCondition::Version(expected) => Err(NotDone::Conflict(format!(
                "of `{function}`, not `{expected}` but {now}: nothing was changed; look at it, and repeat the change"
            ))),
        }
    }

    /// Returns the path of a function whose files are no uploads.
    pub(super) fn elsewhere(&self, function: &FunctionName) -> Option<String> {
        let state = self.daemon.state.borrow();
        let parts = state.look();
        let candidate = &parts.lifecycle.registry.get(function)?.candidate;
        if parts.is_uploads(candidate.directory) {
            return None;
        }
        let root = parts.directory(candidate.directory)?;
        Some(format!("{root}/{}", candidate.source))
    }

    /// Returns the directory of uploads.
    pub(super) fn uploads(&self) -> PathBuf {
        Path::new(&self.daemon.state.borrow().node.places.state).join(UPLOADS)
    }
}

/// Returns why a function cannot be removed: its file, and the command that deletes it.
pub(super) fn not_removable(function: &FunctionName, source: &str) -> NotDone {
    not_uploaded(function, source, &format!("sudo rm {}", files_of(source)))
}

/// Returns the refusal for a function that is no upload, with the command to use.
fn not_uploaded(function: &FunctionName, source: &str, command: &str) -> NotDone {
    NotDone::NotUploaded(format!(
        "`{function}` is not an upload but the file `{source}`, which the API does not change: `{command}`"
    ))
}

/// Returns the paths to delete for a function: its code, and its manifest if it lies beside.
fn files_of(source: &str) -> String {
    let path = Path::new(source);
    if path.is_dir() {
        return format!("-r {source}");
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let manifest = path.with_file_name(format!("{stem}.toml"));
    if manifest.exists() && manifest != path {
        format!("{source} {}", manifest.display())
    } else {
        source.to_owned()
    }
}
