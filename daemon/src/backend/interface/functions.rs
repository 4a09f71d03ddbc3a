//! Requests of routes about functions.

use crate::backend::{
    Answering, Failure, FunctionChanges, FunctionFilter, NotStored, PageBounds, Pending, ReleaseChange,
};
use fnd_core::api::{
    FunctionDetail, FunctionStatus, ReleaseChanged, ReleaseFiles, ReleaseList, RouteList, RouteTest, RouteTestReport,
    ScheduleList, UsageList,
};
use fnd_core::lifecycle::release::NotHeld;
use fnd_core::supervisor::{Calling, Rejection};
use fnd_core::trace::Trace;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::FunctionName;
use std::sync::Arc;

pub trait FunctionBackend {
    /// Returns the functions that a filter takes, sorted by name. Others are served meanwhile, so the list is no picture of
    /// one moment.
    fn functions(&self, filter: FunctionFilter) -> Pending<Vec<FunctionStatus>>;

    /// Returns what every function uses now, sorted by name. This reads several files of each function.
    fn usage(&self) -> Pending<Result<UsageList, Failure>>;

    /// Returns one function with all details; nothing if there is no function of that name.
    fn function(&self, name: &FunctionName) -> Option<FunctionDetail>;

    /// Returns why a function that does not exist cannot run.
    fn unknown(&self, _name: &FunctionName) -> Rejection {
        Rejection::NoSuchFunction
    }

    /// Returns the limits for requests to a function; nothing if it has no version that can run.
    fn bounds(&self, name: &FunctionName) -> Option<PageBounds>;

    /// Waits until a function serves its files as they are on the disk, or they are refused. Returns whether that came in time.
    fn saved(&self, _name: &FunctionName) -> Pending<bool> {
        Box::pin(std::future::ready(true))
    }

    /// Returns the user and the manifest of a function that serves, for its own socket.
    fn access(&self, _name: &FunctionName) -> Option<(u32, Arc<Manifest>)> {
        None
    }

    /// Returns how many calls in a chain a request of a function is.
    ///
    /// # Errors
    /// The chain is too long, or the invocation that the request names does not run.
    fn call_depth(&self, _calling: &Calling, _trace: Option<&Trace>) -> Result<u8, Rejection> {
        Ok(1)
    }

    /// Returns the routes of the public listener.
    fn route_list(&self) -> RouteList;

    /// Returns what would become of a request to the public listener; nothing runs. An error is the words for a request
    /// that cannot be.
    fn try_request(&self, test: RouteTest) -> Pending<Result<RouteTestReport, String>>;

    /// Returns the schedules of all functions or of one, each with `next` of its next slots.
    fn schedules(&self, function: Option<FunctionName>, next: usize) -> Pending<Result<ScheduleList, Failure>>;

    /// Pauses the schedules of a function, or lets them go on, once that is stored. Returns whether it has any; nothing if
    /// there is no function of that name.
    fn pause_schedules(&self, name: &FunctionName, paused: bool) -> Pending<Result<Option<bool>, NotStored>>;

    /// Returns the releases of a function.
    ///
    /// # Errors
    /// There is no such function, or it has none.
    fn releases(&self, name: &FunctionName) -> Result<ReleaseList, NotHeld>;

    /// Changes which release of a function gets calls.
    fn change_release(&self, name: &FunctionName, change: ReleaseChange) -> Pending<Result<ReleaseChanged, NotHeld>>;

    /// Installs a function again, with its dependencies; `clean`: these are built anew. Resolves when it is installed, or with the reason why it cannot be;
    /// nothing if there is no function of that name.
    fn build(&self, name: &FunctionName, clean: bool) -> Option<Pending<Result<(), String>>>;

    /// Returns the files of a release.
    fn release_files(&self, name: &FunctionName, release: &str) -> Pending<Result<ReleaseFiles, NotHeld>>;

    /// Enables or disables a function, once that is stored: `Answer::Done`, `Answer::NotFound` or `Answer::StoreFailed`.
    fn set_enabled(&self, name: &FunctionName, enabled: bool) -> Answering;

    /// Resolves when the function's status file contains all that has happened to the function so far.
    fn status_written(&self, name: &FunctionName) -> Pending<()>;

    /// Returns the present state of every function that matches the filter, and then each function that changes; ends
    /// with the receiver.
    fn watch(&self, filter: FunctionFilter) -> FunctionChanges;
}
