//! Requests of routes that change the files of functions.

use crate::backend::{Deployed, NotDone, Pending, Upload, UploadCondition};
use fnd_core::api::RemovedFunction;
use fnd_wire::ids::FunctionName;

/// The directory of uploaded functions.
pub trait UploadBackend {
    /// Stores the files of a function, and waits until they serve or are refused; then the files before stay.
    fn deploy(&self, upload: Upload) -> Pending<Result<Deployed, NotDone>>;

    /// Deletes the files of a function, and waits until it is gone.
    fn remove(&self, function: FunctionName, condition: UploadCondition) -> Pending<Result<RemovedFunction, NotDone>>;
}
