//! The spawner's answers about files and copies.

use super::builds::Waiter;
use super::installer::RequestKind;
use super::order::{InstallResult, Order, UploadSeen};
use super::{Lifecycle, NodeFacts};
use crate::report::FunctionNews;
use crate::run::{Event, InstalledVersion};
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Installed, NeedsBuild, Refused};
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::plan::CHECK;

/// The spawner's answer about a function's files.
#[derive(Debug)]
pub enum InstallAnswer {
    /// They are installed, with the tree of their dependencies.
    Installed(Box<Installed>, Option<Version>),
    /// Their dependencies are to be installed first.
    NeedsBuild(Box<NeedsBuild>),
    /// They cannot be used.
    Refused(Box<Refused>),
}

/// The consequence of the spawner's answer for a function.
#[derive(Debug)]
pub(super) enum VersionChange {
    /// A version is installed. It may serve; with a number it may get only this share of the calls, in percent.
    Serves(Box<InstalledVersion>, Option<u32>),
    /// A file is installed as this version and may not serve now; another release is installed in its place.
    Waits(Version),
    /// The newest content cannot serve: why, in one line, and whether fnd reports the refusal: not if a retry is refused again.
    Refused(String, bool),
}

impl Lifecycle {
    /// Handles the spawner's answer. An answer about a file is kept until the catalog has checked the file again: the spawner
    /// reads the file a moment after the catalog's scan, and somebody may have begun to write in between. A copy never changes,
    /// so an answer about a copy is handled at once.
    pub fn judged(&mut self, request: u32, judged: InstallAnswer, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        match self.installer.candidate(request) {
            Some(files) if files.copy().is_none() => {
                out.push(Order::Confirm(request, files.clone()));
                self.judged.insert(request, judged);
            }
            Some(_) => self.answered(request, judged, node, out),
            // No request with this number is open, so nothing waits for the answer.
            None => {}
        }
    }

    /// Handles the catalog's answer to [`Order::Confirm`]. If the files have changed, the spawner's answer is dropped: the
    /// catalog reports the files again when they are complete.
    pub fn confirmed(&mut self, request: u32, same: bool, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        // Absent: the catalog has answered twice. That cannot happen, and does no harm.
        let Some(judged) = self.judged.remove(&request) else {
            return;
        };
        if same {
            return self.answered(request, judged, node, out);
        }
        if let Some((files, _)) = self.installer.answered(request) {
            // The retries end as well, because they would install the files as they were.
            self.installer.is_final(&files);
            // The answer may have been about a syntax check. The changed files get a check of their own.
            self.installer.checks.forget(&files.function);
            let is_unknown = self.registry.get(&files.function).is_none();
            // fnd deletes no version of a function while it waits for such an answer, so it does that now.
            out.push(Order::Prune(files.function));
            if is_unknown {
                out.extend(self.installer.repeat_scan().map(Order::Rescan));
            }
        }
    }

    fn answered(&mut self, request: u32, judged: InstallAnswer, node: NodeFacts<'_>, out: &mut Vec<Order>) {
        // Absent: the request is over. That cannot happen, because each request has one answer.
        let Some((files, kind)) = self.installer.answered(request) else {
            return;
        };
        let function = files.function.clone();
        // The file of a function and a stored copy of it may wait for different trees, so each is a waiter of its own.
        let copy = files.copy().is_some();
        // While the code of the function is being fetched, this answer is about the earlier code. The fetched code is installed
        // after that, so the function goes on waiting for it.
        let is_old_code = matches!(judged, InstallAnswer::Installed(..)) && !copy && self.builds.is_fetching(&function);
        let was_check = kind == RequestKind::Check;
        let is_clean = kind == RequestKind::CleanBuild;
        if is_clean {
            self.clean_builds.remove(&function);
        }
        // The same holds while dependencies are built from scratch: this answer is about the tree from before.
        let is_old_tree = match &judged {
            InstallAnswer::Installed(_, tree) if !copy && !was_check => self.awaits_clean_build(&files, *tree),
            _ => false,
        };
        // An answer about a check says nothing of a build.
        if !is_old_code && !is_old_tree && !was_check {
            let function = function.clone();
            self.builds.forget(&Waiter { function, copy });
        }
        let is_over = !matches!(judged, InstallAnswer::NeedsBuild(_)) && !was_check;
        let change = match judged {
            InstallAnswer::NeedsBuild(needs) if was_check && needs.build.function.as_str() == CHECK => {
                self.needs_check(files, *needs, node, out);
                None
            }
            InstallAnswer::Refused(refused) if was_check => {
                let why = refused.problems.into_iter().next().map(|problem| problem.message);
                self.check_refused(files, &why.unwrap_or_default());
                None
            }
            // The file has changed since fnd asked for the check, and a request to check does not ask for the dependencies of
            // the new content. So the file is installed again without a check.
            InstallAnswer::Installed(..) if was_check => {
                self.check_refused(files, "there is nothing to check");
                None
            }
            InstallAnswer::NeedsBuild(needs) => {
                if was_check {
                    self.installer.checks.forget(&function); // its code is fetched first
                }
                self.needs_build((files, is_clean), *needs, node, out);
                None
            }
            InstallAnswer::Installed(installed, tree) => {
                if !copy {
                    self.builds.failed.remove(&function);
                }
                let change = self.installed(files, (*installed, tree), node, out);
                match change {
                    // `changed` below follows the canary, once the release serves.
                    Some(VersionChange::Serves(..)) => {}
                    // New content of the file ends a canary, even if the content is checked first or is wrong.
                    _ if !copy => out.push(Order::FollowCanary(function.clone())),
                    // The copy is not wanted any more, so versions that were kept for it may be deleted.
                    _ => out.push(Order::Prune(function.clone())),
                }
                change
            }
            InstallAnswer::Refused(refused) => self.refused(files, *refused, node.now.mono, out),
        };
        if !copy {
            let known = self.registry.get(&function);
            let source = known.and_then(|known| known.findings.source.as_ref());
            let every_s = source.and_then(|source| source.every_s);
            if is_over {
                self.sources.no_poll(&function);
            }
            self.sources.judged(&function, every_s, node.now.mono);
        }
        self.changed(function.clone(), change, !copy, out);
        // Every answer has the secrets read again: with a reload, which judges every function, a person ends the rotation of a
        // secret.
        out.push(Order::AskForSecrets(function));
    }

    /// Gives the orders that follow from a change of a function, if there is one. `is_file` says that the change is about the file and
    /// not about a copy: callers of `build` and uploads wait for the file.
    pub(super) fn changed(
        &mut self,
        function: FunctionName,
        change: Option<VersionChange>,
        is_file: bool,
        out: &mut Vec<Order>,
    ) {
        let Some(change) = change else { return };
        if is_file {
            // The file is refused, so it cannot get the new secret or interpreter. Only the release that serves gets it, from its
            // copy.
            let is_renewed = self.renewed.remove(&function);
            let is_refused = matches!(change, VersionChange::Refused(..));
            let serving = self.live(&function).filter(|_| is_renewed && is_refused);
            self.enqueue_copy(&function, serving);
            let (seen, outcome) = match &change {
                VersionChange::Serves(installed, _) => (UploadSeen::Installed, Ok(installed.version)),
                // Another release is held. The uploaded files are installed all the same, so the upload is over.
                VersionChange::Waits(version) => (UploadSeen::Installed, Ok(*version)),
                VersionChange::Refused(error, _) => (UploadSeen::Refused, Err(error.clone())),
            };
            self.answer_builds(&function, &outcome, out);
            out.push(Order::UploadSeen(function.clone(), seen));
        }
        match change {
            VersionChange::Serves(installed, percent) => {
                let version = installed.version;
                self.is_built(&function, version);
                // The socket has to listen before a run of this version begins, so this order comes first. If the version serves
                // only after its trial, the driver sets the socket again then.
                out.push(Order::Listen(function.clone()));
                out.push(Order::Serve(installed, percent));
                // The file may be refused while this other release is installed from its copy. Then the supervisor gets the error
                // of the file after the release.
                let known = self.registry.get(&function);
                if let Some(error) = known.and_then(|known| known.findings.error.clone()) {
                    let function = function.clone();
                    out.push(Order::Supervise(Event::Refused { function, error }));
                }
                self.is_on_disk(&function, version, out);
                out.push(Order::CheckAlert(function.clone()));
                out.push(Order::FollowCanary(function.clone()));
                if percent.is_none() {
                    out.push(Order::EnqueueCanary(function));
                }
            }
            VersionChange::Waits(version) => {
                self.is_on_disk(&function, version, out);
                out.push(Order::Status(function.clone()));
                out.push(Order::FollowCanary(function));
            }
            VersionChange::Refused(error, report) => {
                if report {
                    let known = self.registry.get(&function);
                    let is_serving = known.is_some_and(|known| known.newest.is_some());
                    out.push(Order::ReportRefused(function.clone(), error.clone(), is_serving));
                }
                out.push(Order::Prune(function.clone()));
                out.push(Order::Supervise(Event::Refused {
                    function: function.clone(),
                    error,
                }));
                out.push(Order::CheckAlert(function));
            }
        }
    }

    /// Answers the callers who wait until a function is installed, unless the answer that they wait for is still to come.
    pub(super) fn answer_builds(&mut self, function: &FunctionName, outcome: &InstallResult, out: &mut Vec<Order>) {
        let is_clean = || self.clean_builds.contains(function) || self.builds.clean_tree(function).is_some();
        let is_to_come = || self.builds.is_fetching(function) || is_clean();
        if self.sources.is_asked(function) || outcome.is_ok() && is_to_come() {
            return;
        }
        let waiting = self.build_callers.extract_if(.., |caller| caller.function == *function);
        out.extend(waiting.map(|caller| Order::Answer(caller.number, outcome.clone())));
    }
}

/// Reads a document of the judge.
pub(super) fn read_document(document: &Bytes) -> Result<Verdict, serde_json::Error> {
    serde_json::from_slice(&document.0)
}

/// Reads the judge's verdict on a function, and reports one that cannot be read.
pub(super) fn read_verdict(function: &FunctionName, document: &Bytes, out: &mut Vec<Order>) -> Option<Verdict> {
    let unread = |error: serde_json::Error| {
        let news = FunctionNews::VerdictUnread(error.to_string());
        out.push(Order::News(function.clone(), news));
    };
    read_document(document).map_err(unread).ok()
}
