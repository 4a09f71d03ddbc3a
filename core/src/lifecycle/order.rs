//! The orders of the lifecycle: what the driver does for it. Each list of orders is carried out from front to back.

use super::builds::Lane;
use super::function::SourceFiles;
use crate::report::FunctionNews;
use crate::run::{Event, InstalledVersion};
use fnd_wire::frame::Request;
use fnd_wire::ids::{FunctionName, Version};

/// The number of a caller who waits for an answer.
pub type CallerNumber = u64;

/// The answer to a caller: the version that serves or was installed, or the reason why none is.
pub type InstallResult = Result<Version, String>;

/// Work that the driver does for the lifecycle.
#[derive(Debug)]
pub enum Order {
    /// Has the supervisor handle an event.
    Supervise(Event),
    /// Has the supervisor install a version that serves from now on, or after its trial; with a number, one that gets only this
    /// share of the calls, in percent. The driver adds the id of the run that the version may start.
    Serve(Box<InstalledVersion>, Option<u32>),
    /// Asks the catalog whether the files of a request have not changed; [`Lifecycle::confirmed`](super::Lifecycle::confirmed)
    /// must follow.
    Confirm(u32, SourceFiles),
    /// Has the catalog scan the directories; [`Installer::scanned`](super::installer::Installer::scanned) with this number must
    /// follow.
    Rescan(u64),
    /// Sends the spawner a request whose answer changes nothing.
    Request(Request),
    /// Makes this tree of the files that the build in a lane has left, or without a tree removes the files;
    /// [`Lifecycle::sealed`](super::Lifecycle::sealed) must follow.
    Seal(Lane, Option<Version>),
    /// Gives a lane the version that builds this tree; [`Lifecycle::lent`](super::Lifecycle::lent) must follow.
    Lend(Lane, Version),
    /// Starts the build in a lane, or waits for the end of the one that an earlier fnd has started there.
    Build(Lane),
    /// Starts a run of checks with this input.
    Check(Vec<u8>),
    /// Deletes the surplus versions of a function: [`Lifecycle::prune`](super::Lifecycle::prune).
    Prune(FunctionName),
    /// Ends the canary that the supervisor has, if the lifecycle has another one or none:
    /// [`Lifecycle::follow_canary`](super::Lifecycle::follow_canary).
    FollowCanary(FunctionName),
    /// Has the canary installed if the supervisor does not have it:
    /// [`Lifecycle::enqueue_canary`](super::Lifecycle::enqueue_canary).
    EnqueueCanary(FunctionName),
    /// Asks for installations while there is room, and does the work that follows when all of them are over.
    Settle,
    /// Stores which versions of a function are installed.
    StoreVersions(FunctionName, Vec<Version>),
    /// Answers a caller who waits until a function is installed or refused.
    Answer(CallerNumber, InstallResult),
    /// Tells an upload the result of installing its files.
    UploadSeen(FunctionName, UploadSeen),
    /// Stops everything that a deleted function does.
    Remove(FunctionName),
    /// Listens at the socket of a function, if one of its versions may do something there.
    Listen(FunctionName),
    /// Compares the condition of a function with its alerts.
    CheckAlert(FunctionName),
    /// Writes the status of a function.
    Status(FunctionName),
    /// Asks for the secrets that a function uses outside of its runs.
    AskForSecrets(FunctionName),
    /// Reports that new content of a function cannot serve, and why in one line. The flag says that an earlier version goes on.
    ReportRefused(FunctionName, String, bool),
    /// Reports news of a function.
    News(FunctionName, FunctionNews),
}

/// The result of installing the files of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadSeen {
    /// The files are installed.
    Installed,
    /// The files cannot be used.
    Refused,
    /// The files are gone.
    Removed,
}
