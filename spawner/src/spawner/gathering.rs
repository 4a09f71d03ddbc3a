//! Has a helper read the secrets and service bindings that a function gets, before the function is installed.

use super::*;
use crate::secrets::credentials::{self, Gathered, Gatherer};
use fnd_wire::plan::Credentials;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd as _;

/// A function that waits for its secrets, those to read next, and the memory file with the former.
pub(super) type Waiting = (Judged, Option<Credentials>, File);

impl Spawner {
    /// Returns the reader of a function's secrets, and the memory file that it writes, twice.
    fn gatherer(&self, snapshot: &Snapshot, credentials: Credentials) -> Result<(Gatherer, File, File), Problem> {
        let one = |why: String, help: &str| problem(&snapshot.shown, why, help);
        if let Some(flaw) = credentials.flaw() {
            return Err(one(flaw.to_owned(), "correct the manifest"));
        }
        snapshot.may_ask(Some("it has secrets or service bindings"), "")?;
        let failed = |what: &str, error: io::Error| one(format!("failed to make {what}: {error}"), "reload fnd");
        let memory = memfd_create("fnd-credentials", MemfdFlags::CLOEXEC);
        let memory = memory.map_err(|error| failed("a memory file", error.into()))?;
        let key = credentials::key(&self.workers.host.places.state.join("spawner/key"));
        let key = key.map_err(|error| failed("the key of this machine", error))?;
        let (host, install) = (&self.workers.host, &snapshot.install);
        let root = self.sources.dirs.get(usize::from(install.directory)).cloned().unwrap_or_default();
        let source = root.join(&install.source);
        let own = if install.directory_form { Some(source.as_path()) } else { source.parent() };
        // The function's own directory comes first, since the first secret that is found counts.
        let dirs = own.map(PathBuf::from).into_iter().chain([root.clone()]).collect();
        let (vault, program, root) = (self.secrets.vault.clone(), host.helper.clone(), host.myself.root());
        let gatherer = Gatherer { vault, program, root, dirs, credentials, key };
        let written = memory.try_clone().failed("open a memory file again");
        Ok((gatherer, memory.into(), written.map_err(|why| one(why, "reload fnd"))?.into()))
    }

    /// Has a helper read secrets: those of the build, and `then` those of the function. Without any, the function is decided
    /// about at once.
    pub(super) fn gather(&mut self, judged: Judged, (credentials, then): (Credentials, Option<Credentials>)) {
        if credentials.is_empty() {
            return self.decide(judged, None);
        }
        let (gatherer, memory, written) = match self.gatherer(&judged.snapshot, credentials) {
            Ok(started) => started,
            Err(problem) => return self.refuse_judged(judged, vec![problem]),
        };
        let kept = written.as_raw_fd();
        // A helper that fails leaves the memory file without a head, which `gathered` finds.
        let body = move || i32::from(gatherer.gather(&written).is_err());
        let after = After::Gathered(Box::new((judged, then, memory)));
        self.helpers.add_with(Lane::Write, after, (kept, Box::new(body)));
    }

    /// Continues with a function for which secrets were read.
    pub(super) fn gathered(&mut self, (mut judged, then, memory): Waiting) {
        match (credentials::head(&memory), then) {
            (Ok(head), Some(then)) => {
                let is_read = head.problems.is_empty();
                judged.snapshot.given = if is_read { Ok(Some(Gathered { head, memory })) } else { Err(head.problems) };
                self.gather(judged, (then, None));
            }
            (Ok(head), None) if head.problems.is_empty() => self.decide(judged, Some(Gathered { head, memory })),
            (Ok(head), None) => self.refuse_judged(judged, head.problems),
            (Err(why), _) => {
                let why = format!("failed to read its secrets: {why}");
                let problems = vec![problem(&judged.snapshot.shown, why, "reload fnd")];
                self.refuse_judged(judged, problems);
            }
        }
    }

    /// Refuses a function that the judge accepts. The version that serves keeps its secrets.
    pub(super) fn refuse_judged(&mut self, Judged { snapshot, function }: Judged, problems: Vec<Problem>) {
        self.secrets.judged(&snapshot.install.function, None, snapshot.stamps.clone());
        self.refuse_snapshot(snapshot, problems, Some(function.verdict.document));
    }
}
