//! Functions whose dependencies are being installed, or could not be.

use super::Functions;
use super::install::{CatalogChange, read_document};
use super::registry::UNFETCHED;
use fnd_core::lifecycle::SourceFiles;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::BuildNetwork;
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Problem, Refused};

impl Functions {
    /// Notes that a function waits for its dependencies. Returns what is to be installed once they are there.
    /// With `keeps_error`, what is wrong with the code before stays until the other code is there.
    pub(crate) fn waits_for_build(&mut self, request: u32, document: &Bytes, keeps_error: bool) -> Option<SourceFiles> {
        let candidate = self.installer.answered(request)?;
        if candidate.copy().is_some() {
            return Some(candidate);
        }
        self.installer.is_final(&candidate.function);
        let verdict = read_document::<Verdict>(document)
            .inspect_err(|error| tracing::error!("the verdict on `{}` cannot be read: {error}", candidate.function));
        if keeps_error {
            self.registry.waits_as_before(candidate.clone(), verdict.ok()?);
        } else {
            self.registry.waits(candidate.clone(), verdict.ok()?);
        }
        // Until then the release serves that served last, also if fnd was started meanwhile.
        self.decide_refused(&candidate.function);
        Some(candidate)
    }

    /// Notes that the dependencies of a function cannot be installed; its serving version goes on. The first line of `why`
    /// is the reason, the others are the last ones that were printed.
    pub(crate) fn build_failed(
        &mut self,
        candidate: SourceFiles,
        document: &Bytes,
        why: &str,
        dirs: &[String],
    ) -> Option<CatalogChange> {
        let function = candidate.function.clone();
        let verdict = read_document::<Verdict>(document).ok();
        let origin = verdict.as_ref().and_then(Verdict::to_fetch);
        let mut lines = why.lines();
        let reason = lines.next().unwrap_or_default();
        // The end of an invocation says its reason in parentheses.
        let colon = if reason.starts_with('(') { "" } else { ":" };
        let manifest = verdict.as_ref().and_then(|verdict| verdict.manifest.as_ref());
        let without_network = match manifest.map(|manifest| manifest.build.network) {
            Some(BuildNetwork::None) => ", without network (`[build] network = \"none\"`)",
            Some(BuildNetwork::Host) | None => "",
        };
        let (code, reason) = match origin {
            Some(origin) => (
                UNFETCHED,
                format!("fetching its code from {} failed{colon} {reason}", origin.from),
            ),
            None if verdict.as_ref().is_some_and(|verdict| verdict.compiled) => (
                "compile",
                format!("compiling it failed{without_network}{colon} {reason}"),
            ),
            None => (
                "dependencies",
                format!("the installation of its dependencies failed{without_network}{colon} {reason}"),
            ),
        };
        if let Some(asked) = candidate.copy() {
            return self.copy_refused(&function, asked, &reason);
        }
        let dir = dirs.get(usize::from(candidate.directory));
        let path = format!("{}/{}", dir.map_or("", String::as_str), candidate.source);
        let help = format!("`fndctl logs {function} --build` shows all of it; `fndctl build {function}` tries again");
        let problem = Diagnostic::error(code, reason).in_file(&path).with_help(help);
        let problem = lines.fold(problem, Diagnostic::with_note);
        let (mut diagnostics, interpreters) = verdict
            .map(|verdict| (verdict.diagnostics, verdict.interpreters))
            .unwrap_or_default();
        diagnostics.insert(0, problem);
        let before = self
            .registry
            .get(&function)
            .and_then(|known| known.findings.error.clone());
        let error = self.registry.unusable(candidate, interpreters, diagnostics);
        self.decide_refused(&function);
        // The same again is no news: code is fetched again and again.
        let is_news = before.as_ref() != Some(&error);
        Some(self.change_refused(function, error, is_news))
    }
}

/// Adds the reason if an older spawner refuses a function because it knows nothing of dependencies: its judge accepts the
/// function, and gives it no plan.
pub(crate) fn explain(refused: &mut Refused) {
    let verdict = refused.document.as_ref().filter(|_| refused.problems.is_empty());
    let verdict = verdict.and_then(|document| read_document::<Verdict>(document).ok());
    if verdict.is_some_and(|verdict| verdict.manifest.is_some()) {
        refused.problems.push(Problem {
            file: refused.function.to_string(),
            message: "the running fnd-spawner is older than dependencies".to_owned(),
            help: "start it again: `systemctl stop fnd && systemctl start fnd`".to_owned(),
        });
    }
}
