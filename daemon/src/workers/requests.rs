//! Requests to the spawner whose answers something waits for, and what each request was for.

use super::Workers;
use super::http::endpoint::Endpoint;
use crate::output::AttemptOutput;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::builds::Lane;
use fnd_core::run::Rules;
use fnd_wire::frame::{Prune, Request, SealTree, StoredFile};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The files of a stored release, or why they cannot be read.
pub(crate) type StoredFiles = Result<Vec<StoredFile>, String>;

/// A worker that is being started.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) worker: WorkerId,
    /// The invocation whose output it is; the output of a handler's worker belongs to none yet.
    pub(crate) meta: AttemptOutput,
    pub(crate) rules: Arc<Rules>,
    pub(crate) tmp: Option<(FunctionId, InvocationId)>,
    /// The address and key of a worker that serves HTTP.
    pub(crate) endpoint: Endpoint,
}

/// The purpose of an outstanding request to the spawner.
#[derive(Debug)]
pub(crate) enum PendingRequest {
    Reload,
    Spawn(Box<Starting>),
    /// The watcher of a function's files: the function, the worker, and the pipe into it.
    Watch(Box<(FunctionName, WorkerId, OwnedFd)>),
    /// The process that measures a function.
    Measure(WorkerId),
    /// The function, and the versions to keep.
    Prune(Box<(FunctionName, Vec<Version>)>),
    /// The files of a build in this lane are removed, or made a tree.
    Seal(Lane),
    /// The version that builds a tree is given to a lane.
    Lend(Lane, Version),
    /// The files of a stored release; who waits for them.
    Files(oneshot::Sender<StoredFiles>),
}

impl Workers {
    /// Sends a request, and remembers what it is for. Returns whether it was sent: without a connection fnd ends, so that
    /// nobody misses the answer.
    pub(crate) fn ask(&mut self, request: &Request, descriptors: Vec<OwnedFd>, purpose: PendingRequest) -> bool {
        let number = self.send(request, descriptors);
        if let Some(number) = number {
            self.pending.insert(number, purpose);
        }
        number.is_some()
    }

    pub(crate) fn reload(&mut self) {
        self.ask(&Request::Reload, Vec::new(), PendingRequest::Reload);
    }

    pub(crate) fn is_reloading(&self) -> bool {
        let mut pending = self.pending.values();
        pending.any(|purpose| matches!(purpose, PendingRequest::Reload))
    }

    /// Asks to delete all versions of a function but those that stay. Returns whether the request was sent.
    pub(crate) fn prune(&mut self, function: &FunctionName, stay: Vec<Version>) -> bool {
        let request = Request::Prune(Prune {
            function: function.clone(),
            keep: stay.clone(),
        });
        let purpose = PendingRequest::Prune(Box::new((function.clone(), stay)));
        self.ask(&request, Vec::new(), purpose)
    }

    /// Asks to make a tree of the files in a lane, or without a tree to remove the files.
    pub(crate) fn seal(&mut self, lane: Lane, tree: Option<Version>) {
        let function = lane.builder();
        let request = Request::Seal(SealTree { function, tree });
        self.ask(&request, Vec::new(), PendingRequest::Seal(lane));
    }

    /// Asks to give a lane the version of `fnd-build` that builds a tree.
    pub(crate) fn lend(&mut self, lane: Lane, tree: Version) {
        let request = Request::Install(SourceFiles::of_copy(lane.builder(), tree).install());
        self.ask(&request, Vec::new(), PendingRequest::Lend(lane, tree));
    }

    /// Asks for the files of a stored release. Without a connection the sender is dropped, which tells the receiver.
    pub(crate) fn read_release(&mut self, function: &FunctionName, version: Version) -> oneshot::Receiver<StoredFiles> {
        let (sender, receiver) = oneshot::channel();
        let request = Request::Files(SourceFiles::of_copy(function.clone(), version).install());
        self.ask(&request, Vec::new(), PendingRequest::Files(sender));
        receiver
    }
}
