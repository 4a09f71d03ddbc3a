//! Files and copies that are installed: which of them serve, get a share of the calls, are checked first, or wait.

use super::answers::{VersionChange, read_verdict};
use super::checks::CheckResult;
use super::installed_version::ServingVersion;
use super::order::Order;
use super::release::{AfterInstall, CanaryRules, Copied, Releases, Tried};
use super::{Lifecycle, NodeFacts, SourceFiles};
use crate::report::FunctionNews;
use crate::run::{InstalledVersion, Rules};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::{Listen, Manifest, Mode};
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::sync::Arc;

impl Lifecycle {
    /// Handles the answer that a file or a copy is installed, with this tree of its dependencies.
    pub(super) fn installed(
        &mut self,
        asked: SourceFiles,
        (mut installed, tree): (Installed, Option<Version>),
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) -> Option<VersionChange> {
        let document = std::mem::take(&mut installed.document);
        let name = asked.function.clone();
        let copy = asked.copy();
        self.installer.is_final(&asked);
        let files = match copy {
            Some(_) => self.registry.get(&name)?.candidate.clone(), // absent: its file is gone
            None => asked,
        };
        let verdict = read_verdict(&name, &document, out)?;
        warn_of(&name, &installed, &verdict, out);
        // The owner is looked up at the function's file, also for a copy: the copy itself belongs to root.
        let author = (node.author)(&files, verdict.trusted);
        if let Some(problem) = self.conflict(&files, author, &verdict) {
            return match copy {
                Some(asked) => self.copy_refused(&name, asked, (&problem.line(), None), out),
                None => {
                    let error = self.registry.unusable(files, &verdict.interpreters, vec![problem]);
                    self.decide_refused(&name);
                    Some(VersionChange::Refused(error, true))
                }
            };
        }
        let verdict = match copy {
            Some(asked) => match self.copy_installed(&name, asked, installed.version, out) {
                Copied::Serves => verdict,
                Copied::Canary => return self.canary(&name, (&installed, &verdict, tree), node, out),
                // While the copy was installed, another release was chosen or the hold has ended.
                Copied::Unwanted => return None,
            },
            None => {
                let next = self.decide_file(&files, (&installed, &verdict), node.now.unix_ms);
                // A poll has brought the same code: nothing changes, and nothing is reported. If that version could not be
                // loaded, the supervisor tries it again at times of its own.
                if next == AfterInstall::Serve && self.sources.is_poll(&name) && self.is_same(&name, installed.version)
                {
                    return None;
                }
                if let AfterInstall::Waits(_) = next {
                    self.registry.waits(files, verdict, false);
                    return Some(VersionChange::Waits(installed.version));
                }
                let verdict = match self.checked_first(&files, (&installed, verdict), node, out) {
                    Ok(verdict) => verdict,
                    Err(change) => return change,
                };
                if next == AfterInstall::Canary {
                    self.registry.waits(files, verdict.clone(), false);
                    return self.canary(&name, (&installed, &verdict, tree), node, out);
                }
                verdict
            }
        };
        // The old and the new version may have subscriptions, so this is called before and after the change.
        self.subscriptions_changed(&name);
        let serves = self.live(&name);
        match copy {
            Some(_) => self.registry.installed_copy(&name, (&installed, tree), verdict, serves),
            None => drop(self.registry.installed(files, (&installed, tree), verdict, serves)),
        }
        self.subscriptions_changed(&name);
        self.unsettled = true;
        self.set_hooks(&name, None, out);
        self.set_author(&name, author);
        self.set_routes(&name, author, out);
        let manifest = Arc::clone(&self.registry.get(&name)?.newest.as_ref()?.manifest);
        let rules = self.registry.rules(&manifest, node.host);
        let newest = self.registry.get(&name)?.newest.as_ref()?;
        let version = for_supervisor(&name, newest, rules);
        Some(VersionChange::Serves(Box::new(version), None))
    }

    /// Returns whether a version is the newest one of a function, without an error.
    fn is_same(&self, function: &FunctionName, version: Version) -> bool {
        self.registry.get(function).is_some_and(|known| {
            let newest = known.newest.as_ref().map(|newest| newest.version);
            newest == Some(version) && known.findings.error.is_none()
        })
    }

    /// Decides what a copy is for. If the version serves already, answers the callers who wait for it.
    fn copy_installed(
        &mut self,
        function: &FunctionName,
        asked: Version,
        version: Version,
        out: &mut Vec<Order>,
    ) -> Copied {
        let copied = self
            .releases
            .change(function, |releases| releases.copy_installed(asked, version));
        if self.live(function) == Some(version) {
            self.releases.answer(function, &Ok(version), out); // it serves already, so no later event would answer
        }
        self.copy_done(function, asked);
        copied
    }

    /// Handles the end of an installation from a copy: queues the file if it is to be installed after the copy.
    pub(super) fn copy_done(&mut self, function: &FunctionName, asked: Version) {
        if self.releases.change(function, |releases| releases.copy_done(asked)) {
            self.enqueue_file(function);
        }
    }

    /// Decides whether an installed file may serve; queues the copy that serves in its place, if there is one.
    fn decide_file(
        &mut self,
        files: &SourceFiles,
        (installed, verdict): (&Installed, &Verdict),
        now_ms: u64,
    ) -> AfterInstall {
        let function = &files.function;
        let tried = self.tried(function, verdict);
        // This is read before the change below, which may begin the first canary.
        let known = self.releases.get(function);
        let had_canary = known.is_some_and(|known| known.canary().is_some());
        let version = (installed.version, installed.load_key);
        let source = self.sources.name(function, &files.source);
        let next = self.releases.change(function, |releases| {
            releases.file_installed(now_ms, version, (&source, tried))
        });
        let copy = match next {
            // The release that serves may need the new secret or interpreter, too, so its copy is installed again.
            AfterInstall::Canary if had_canary => self.releases.get(function).and_then(Releases::serving),
            AfterInstall::Canary | AfterInstall::Serve => None,
            // After a start nothing serves yet. The copy that served last is installed first, so that it serves the callers while
            // the file is on trial.
            AfterInstall::Waits(copy) => Some(copy),
        };
        self.enqueue_copy(function, copy);
        next
    }

    /// Returns how a file is tried before it replaces the release that serves.
    fn tried(&self, function: &FunctionName, verdict: &Verdict) -> Tried {
        let Some(manifest) = &verdict.manifest else {
            return Tried::default();
        };
        let can_share = self
            .serving_manifest(function)
            .is_none_or(|serving| share_calls(serving, manifest));
        let is_loaded = matches!(manifest.mode, Mode::Handler | Mode::Http) && manifest.release.check;
        let percent = manifest.release.percent().filter(|_| can_share);
        Tried {
            before: verdict.checkable || is_loaded,
            canary: percent.map(|percent| canary_rules(manifest, percent)),
        }
    }

    /// Returns the manifest of the release that serves, or that served last.
    fn serving_manifest(&self, function: &FunctionName) -> Option<&Manifest> {
        let serving = self.releases.get(function).and_then(Releases::serving);
        Some(&*self.registry.get(function)?.serving(serving)?.manifest)
    }

    /// Returns the change for an installed canary. If calls cannot be shared with the release that serves, ends the canary.
    fn canary(
        &mut self,
        name: &FunctionName,
        (installed, verdict, tree): (&Installed, &Verdict, Option<Version>),
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) -> Option<VersionChange> {
        let percent = self.releases.get(name)?.canary()?.rules.percent;
        let canary = self.registry.version((installed, tree), verdict)?;
        let can_share = self
            .serving_manifest(name)
            .is_some_and(|serving| share_calls(serving, &canary.manifest));
        if !can_share {
            let why = "the release that serves has another mode or needs one port, so that calls cannot be shared";
            let now_ms = node.now.unix_ms;
            // An error means that the release is no canary any more, and that is the goal here.
            let _ = self
                .releases
                .change(name, |releases| releases.end_canary(now_ms, Some(why.to_owned())));
            self.releases.answer(name, &Err(why.to_owned()), out);
            return None;
        }
        let rules = canary_rules(&canary.manifest, percent);
        let version = canary.version;
        self.releases
            .change(name, |releases| releases.canary_judged(version, rules));
        let rules = self.registry.rules(&canary.manifest, node.host);
        let shared = for_supervisor(name, &canary, rules);
        self.registry.set_canary(name, Some(canary));
        Some(VersionChange::Serves(Box::new(shared), Some(percent)))
    }

    /// Has an installed file checked, if its syntax is to be checked before it serves. Returns the verdict on the file if it may
    /// serve.
    ///
    /// # Errors
    /// If the file may not serve: the change, or nothing until its check is over.
    fn checked_first(
        &mut self,
        files: &SourceFiles,
        (installed, verdict): (&Installed, Verdict),
        node: NodeFacts<'_>,
        out: &mut Vec<Order>,
    ) -> Result<Verdict, Option<VersionChange>> {
        let (function, version) = (&files.function, installed.version);
        let releases = self.releases.get(function).filter(|_| verdict.checkable);
        if !releases.is_some_and(|releases| releases.is_checked_first(installed.load_key)) {
            return Ok(verdict);
        }
        let checks = &mut self.installer.checks;
        let now_ms = node.now.unix_ms;
        if node.is_spawner_of_0_1 && checks.needs(function, version, now_ms) {
            checks.cannot(function, "(not started): the running fnd-spawner is older than checks");
        }
        match checks.result(function, version).cloned() {
            Some(CheckResult::Passed | CheckResult::Unchecked(_)) => Ok(verdict),
            Some(CheckResult::Wrong(output)) => Err(Some(self.check_failed(
                (files.clone(), verdict),
                (installed, &output),
                node.dirs,
                out,
            ))),
            None => {
                if checks.needs(function, version, now_ms) {
                    // The next request for this file asks the spawner for the check.
                    self.installer.requeue(files.clone());
                }
                self.registry.waits(files.clone(), verdict, false);
                Err(None)
            }
        }
    }
}

/// Writes the warnings about files into the journal.
fn warn_of(name: &FunctionName, installed: &Installed, verdict: &Verdict, out: &mut Vec<Order>) {
    let judged = verdict.diagnostics.iter().map(Diagnostic::text);
    let found = installed.warnings.iter();
    let found = found.map(|problem| format!("{}: {}; {}", problem.file, problem.message, problem.help));
    let warnings = judged.chain(found).map(FunctionNews::Warning);
    out.extend(warnings.map(|warning| Order::News(name.clone(), warning)));
}

/// Returns a version in the form of the supervisor. The driver adds the id of the run that the version may start.
pub(super) fn for_supervisor(name: &FunctionName, serving: &ServingVersion, rules: Arc<Rules>) -> InstalledVersion {
    InstalledVersion {
        function: name.clone(),
        id: serving.id,
        version: serving.version,
        load_key: serving.load_key,
        load_id: InvocationId(0),
        rules,
    }
}

/// Returns the rules of a canary: those of its manifest, and its share of the calls.
fn canary_rules(manifest: &Manifest, percent: u32) -> CanaryRules {
    let after = manifest.release.promote_after;
    CanaryRules {
        percent,
        promote_after_ms: after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        max_failures: manifest.release.max_failures,
    }
}

/// Says whether calls can be shared between two releases: both take calls in the same mode, and neither listens on a fixed port.
fn share_calls(old: &Manifest, new: &Manifest) -> bool {
    // Two releases cannot listen on one port at once.
    let has_port = |manifest: &Manifest| {
        let server = manifest.http_server.as_ref();
        server.is_some_and(|server| matches!(server.listen, Listen::Port(_)))
    };
    old.mode == new.mode && old.mode != Mode::Service && new.enabled && !has_port(old) && !has_port(new)
}
