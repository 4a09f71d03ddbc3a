//! Files and copies that cannot be used: the version that serves goes on, and the reason is kept with the function.

use super::answers::{VersionChange, read_document};
use super::check_end::syntax_problem;
use super::function::UNFETCHED;
use super::installer::RequestKind;
use super::order::Order;
use super::release::{Releases, short};
use super::{Lifecycle, SourceFiles};
use crate::report::FunctionNews;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::BuildNetwork;
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Installed, Problem, Refused};
use fnd_wire::ids::{FunctionName, Version};
use std::time::Duration;

impl Lifecycle {
    /// Handles the answer that files cannot be used.
    pub(super) fn refused(
        &mut self,
        files: SourceFiles,
        mut refused: Refused,
        mono: Duration,
        out: &mut Vec<Order>,
    ) -> Option<VersionChange> {
        let function = files.function.clone();
        let document = refused.document.take();
        let verdict = document.and_then(|document| read_document(&document).ok());
        // The judge's problems follow from the files. The spawner's problems may disappear without a change of the
        // files.
        let retry = (!refused.problems.is_empty()).then_some(mono);
        if let Some(asked) = files.copy() {
            return self.copy_refused(&function, asked, (&reason(refused, verdict), retry), out);
        }
        let is_retry = self.installer.is_over(&files, retry);
        let problems = refused.problems.into_iter().map(diagnostic).collect();
        let (error, is_new) = self.wrong_content(files, verdict, problems);
        self.decide_refused(&function);
        // Code that was fetched again and is refused again is no news.
        let is_news = is_new || !self.sources.is_poll(&function);
        Some(VersionChange::Refused(error, !is_retry && is_news))
    }

    /// Handles the answer that the spawner could not do what a request asked for, for a reason outside of the files.
    pub fn failed(&mut self, request: u32, message: &str, mono: Duration, out: &mut Vec<Order>) {
        let Some((files, kind)) = self.installer.answered(request) else {
            return;
        };
        if kind == RequestKind::Check {
            return self.check_refused(files, message);
        }
        let function = files.function.clone();
        let is_file = files.copy().is_none();
        let change = match files.copy() {
            Some(asked) => self.copy_refused(&function, asked, (message, Some(mono)), out),
            None => {
                self.installer.is_over(&files, Some(mono));
                // The reason is kept with the function: its status, `show` and its alerts say it as long as it lasts.
                let problem = Diagnostic::error("file", format!("it could not be installed: {message}"));
                let error = self.registry.unusable(files, &[], vec![problem]);
                // After a start nothing serves yet, so the release that served last does until a retry works.
                if self.live(&function).is_none() {
                    self.decide_refused(&function);
                }
                Some(VersionChange::Refused(error, false))
            }
        };
        self.changed(function, change, is_file, out);
    }

    /// Handles a copy that cannot be installed. `retry` is the time now if the reason may disappear without a change of the
    /// files: then the copy is tried again as long as it is needed.
    pub(super) fn copy_refused(
        &mut self,
        function: &FunctionName,
        asked: Version,
        (why, retry): (&str, Option<Duration>),
        out: &mut Vec<Order>,
    ) -> Option<VersionChange> {
        let ended = self.releases.change(function, |releases| releases.copy_refused(asked));
        self.releases.answer(function, &Err(why.to_owned()), out);
        self.copy_done(function, asked);
        // It may have been the canary, which is none any more.
        out.push(Order::FollowCanary(function.clone()));
        if ended {
            // Its file may have been judged under the hold that is over now.
            if self.releases.get(function).is_some_and(Releases::wants_file) {
                self.enqueue_file(function);
            }
            return None;
        }
        let name = short(asked);
        let error = format!("release {name}, which is to serve, cannot be installed: {why}");
        let known = self.releases.get(function);
        let is_needed = known.is_some_and(|releases| releases.wants_copy(asked));
        let copy = SourceFiles::of_copy(function.clone(), asked);
        let is_retry = self.installer.is_over(&copy, retry.filter(|_| is_needed));
        // After the retry is planned: no retry is while another copy of the function is queued.
        let promoted = known.and_then(|releases| releases.promoted_instead_of(asked));
        self.enqueue_copy(function, promoted);
        let Some(error) = self.registry.copy_refused(function, error.clone()) else {
            // The status shows why the file cannot serve, so this is only in the journal.
            if !is_retry {
                out.push(Order::News(function.clone(), FunctionNews::Warning(error)));
            }
            return None;
        };
        Some(VersionChange::Refused(error, !is_retry))
    }

    /// Handles dependencies that cannot be installed; the version that serves goes on. The first line of `why` is the reason, the
    /// other lines are the last ones that the build printed.
    pub(super) fn build_failed(
        &mut self,
        (files, document): (SourceFiles, &Bytes),
        why: &str,
        dirs: &[String],
        out: &mut Vec<Order>,
    ) {
        let (function, is_file) = (files.function.clone(), files.copy().is_none());
        let verdict = read_document(document).ok();
        let mut lines = why.lines();
        let (code, reason) = failed_step(verdict.as_ref(), lines.next().unwrap_or_default());
        let change = if let Some(asked) = files.copy() {
            self.copy_refused(&function, asked, (&reason, None), out)
        } else {
            let path = path_of(&files, dirs);
            let help =
                format!("`fndctl logs {function} --build` shows all of it; `fndctl build {function}` tries again");
            let problem = Diagnostic::error(code, reason).in_file(&path).with_help(help);
            let problem = lines.fold(problem, Diagnostic::with_note);
            // The same error again is no news: a poll fetches the code again and again.
            let (error, is_new) = self.wrong_content(files, verdict, vec![problem]);
            self.decide_refused(&function);
            Some(VersionChange::Refused(error, is_new))
        };
        self.changed(function, change, is_file, out);
    }

    /// Refuses a file whose code is wrong; the version that serves goes on. If a person has asked for this release, that request
    /// fails.
    pub(super) fn check_failed(
        &mut self,
        (files, verdict): (SourceFiles, Verdict),
        (installed, output): (&Installed, &str),
        dirs: &[String],
        out: &mut Vec<Order>,
    ) -> VersionChange {
        let (function, version) = (files.function.clone(), installed.version);
        let manifest = verdict.manifest.as_ref();
        let entry = manifest.map_or(String::new(), |manifest| manifest.entry.clone());
        let mut path = path_of(&files, dirs);
        // For a directory or an archive the problem names the file inside of it.
        if !path.ends_with(&format!("/{entry}")) {
            path = format!("{path}/{entry}");
        }
        let problem = syntax_problem(&path, &entry, output);
        let why = problem.text();
        let (error, is_new) = self.wrong_content(files, Some(verdict), vec![problem]);
        let hold = self.releases.get(&function).and_then(Releases::hold);
        let is_asked = hold.is_some_and(|hold| hold.awaits(version));
        let content = (version, installed.load_key);
        let copy = self.releases.change(&function, |releases| {
            releases.failed(version, &why);
            releases.is_no_canary(version);
            releases.file_is_wrong(content)
        });
        if is_asked {
            self.releases.answer(&function, &Err(why), out);
        }
        self.enqueue_copy(&function, copy);
        VersionChange::Refused(error, is_new)
    }

    /// Stores why content cannot serve: these problems, and those that the judge has found. Returns the error in one line, and
    /// whether the function had another error before, or none.
    fn wrong_content(
        &mut self,
        files: SourceFiles,
        verdict: Option<Verdict>,
        mut problems: Vec<Diagnostic>,
    ) -> (String, bool) {
        let (judged, interpreters) = verdict
            .map(|verdict| (verdict.diagnostics, verdict.interpreters))
            .unwrap_or_default();
        problems.extend(judged);
        let known = self.registry.get(&files.function);
        let before = known.and_then(|known| known.findings.error.clone());
        let error = self.registry.unusable(files, &interpreters, problems);
        let is_new = before.as_ref() != Some(&error);
        (error, is_new)
    }

    /// Queues the copy that serves in place of a file that was refused.
    pub(super) fn decide_refused(&mut self, function: &FunctionName) {
        let copy = self.releases.change(function, Releases::file_refused);
        self.enqueue_copy(function, copy);
    }
}

/// Converts a problem of the spawner to a diagnostic like the judge's.
#[must_use]
pub fn diagnostic(problem: Problem) -> Diagnostic {
    let found = Diagnostic::error("file", problem.message).in_file(&problem.file);
    if problem.help.is_empty() {
        return found;
    }
    found.with_help(problem.help)
}

/// Returns the path of a function's source.
pub(super) fn path_of(files: &SourceFiles, dirs: &[String]) -> String {
    let dir = dirs.get(usize::from(files.directory));
    format!("{}/{}", dir.map_or("", String::as_str), files.source)
}

/// Returns the code and the message of the problem that a build has failed: which step has failed, and why.
fn failed_step(verdict: Option<&Verdict>, reason: &str) -> (&'static str, String) {
    // The reason of an invocation is in parentheses, with a colon behind them; any other reason needs a colon in front.
    let colon = if reason.starts_with('(') { "" } else { ":" };
    let manifest = verdict.and_then(|verdict| verdict.manifest.as_ref());
    let without_network = match manifest.map(|manifest| manifest.build.network) {
        Some(BuildNetwork::None) => ", without network (`[build] network = \"none\"`)",
        Some(BuildNetwork::Host) | None => "",
    };
    let (code, step) = match verdict.and_then(Verdict::to_fetch) {
        Some(origin) => (UNFETCHED, format!("fetching its code from {} failed", origin.from)),
        None if verdict.is_some_and(|verdict| verdict.compiled) => ("compile", "compiling it failed".to_owned()),
        None => ("dependencies", "the installation of its dependencies failed".to_owned()),
    };
    // Code that is still to be fetched has no manifest yet, so its step is never `without_network`.
    (code, format!("{step}{without_network}{colon} {reason}"))
}

/// Returns why a copy was refused, in one line.
fn reason(refused: Refused, verdict: Option<Verdict>) -> String {
    let own = refused.problems.into_iter().next().map(|problem| problem.message);
    let judged = || {
        let found = verdict?.diagnostics;
        found.iter().find(|found| found.is_error()).map(Diagnostic::line)
    };
    own.or_else(judged)
        .unwrap_or_else(|| "it was refused without a reason".to_owned())
}

/// Adds a problem if the spawner of fnd 0.1 has refused a function because that spawner knows no dependencies. Then the judge has
/// accepted the function, and no problem says why it is refused.
pub fn refused_by_0_1(refused: &mut Refused) {
    let document = refused.document.as_ref().filter(|_| refused.problems.is_empty());
    let verdict = document.and_then(|document| read_document(document).ok());
    if verdict.is_some_and(|verdict| verdict.manifest.is_some()) {
        refused.problems.push(Problem {
            file: refused.function.to_string(),
            message: "the running fnd-spawner is older than dependencies".to_owned(),
            help: "start it again: `systemctl stop fnd && systemctl start fnd`".to_owned(),
        });
    }
}
