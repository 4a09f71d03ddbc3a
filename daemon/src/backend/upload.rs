//! The files that a caller uploads, and the result.

use super::Failure;
use crate::uploads::form::UploadForm;
use fnd_core::api::FunctionDetail;
use fnd_core::data::Data;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{FunctionName, Version};

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
