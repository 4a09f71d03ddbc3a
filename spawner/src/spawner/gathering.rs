//! Has a helper read the secrets and service bindings that a function gets, before the function is installed.

use super::*;
use crate::secrets::credentials::{self, Gathered, Gatherer};
use crate::secrets::decrypter::Decrypter;
use fnd_wire::plan::{Credentials, FunctionJudgment};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd as _;

/// A function that waits for its secrets.
pub(super) struct Waiting {
    pub(super) snapshot: Snapshot,
    function: Box<FunctionJudgment>,
    /// The secrets to read next.
    then: Option<Credentials>,
    memory: File,
}

impl Spawner {
    /// Returns the reader of a function's secrets, and the memory file that it writes.
    pub(super) fn gatherer(&self, snapshot: &Snapshot, credentials: Credentials) -> Result<(Gatherer, File), Problem> {
        let one = |why: String, help: &str| problem(&snapshot.shown, why, help);
        if let Some(flaw) = credentials.flaw() {
            return Err(one(flaw.to_owned(), "correct the manifest"));
        }
        if !snapshot.trusted {
            let why = "it has secrets or service bindings, but root does not own all of its files";
            return Err(one(why.to_owned(), "run `chown root` for code and manifest"));
        }
        let failed = |what: &str, error: io::Error| one(format!("failed to make {what}: {error}"), "reload fnd");
        let memory = memfd_create("fnd-credentials", MemfdFlags::CLOEXEC);
        let memory = memory.map_err(|error| failed("a memory file", error.into()))?;
        let key = credentials::key(&self.workers.host().places.state.join("spawner/key"));
        let key = key.map_err(|error| failed("the key of this machine", error))?;
        let (host, install) = (self.workers.host(), &snapshot.install);
        let root = self.sources.dirs.get(usize::from(install.directory)).cloned().unwrap_or_default();
        let source = root.join(&install.source);
        let own = if install.directory_form { Some(source.as_path()) } else { source.parent() };
        // The function's own directory comes first, since the first secret that is found counts.
        let dirs = own.map(PathBuf::from).into_iter().chain([root.clone()]);
        let decrypter = Decrypter { program: host.helper.clone(), root: host.myself.root(), dirs: dirs.collect() };
        Ok((Gatherer { vault: self.secrets.vault.clone(), decrypter, credentials, key }, memory.into()))
    }

    /// Has a helper read secrets: those of the build, and `then` those of the function. Without any, the function is decided
    /// about at once.
    pub(super) fn gather(
        &mut self,
        snapshot: Snapshot,
        function: Box<FunctionJudgment>,
        (credentials, then): (Credentials, Option<Credentials>),
    ) {
        if credentials.is_empty() {
            return self.decide(snapshot, function, None);
        }
        let gatherer = self.gatherer(&snapshot, credentials);
        let started = gatherer.and_then(|(gatherer, memory)| {
            let failed = |error| format!("failed to open a memory file again: {error}");
            let written = memory.try_clone().map_err(|error| problem(&snapshot.shown, failed(error), "reload fnd"))?;
            Ok((gatherer, memory, written))
        });
        let (gatherer, memory, written) = match started {
            Ok(started) => started,
            Err(problem) => return self.refuse_judged(snapshot, function, vec![problem]),
        };
        let kept = written.as_raw_fd();
        // A helper that fails leaves the memory file without a head, which `gathered` finds.
        let body = move || i32::from(gatherer.gather(&written).is_err());
        let after = After::Gathered(Box::new(Waiting { snapshot, function, then, memory }));
        self.helpers.add_with(Lane::Write, after, (kept, Box::new(body)));
    }

    /// Continues with a function for which secrets were read.
    pub(super) fn gathered(&mut self, waiting: Waiting) {
        let Waiting { mut snapshot, function, then, memory } = waiting;
        let unread = |why| vec![problem(&snapshot.shown, format!("failed to read its secrets: {why}"), "reload fnd")];
        match (credentials::head(&memory), then) {
            (Ok(head), Some(then)) => {
                match head.problems.is_empty() {
                    true => snapshot.given = Some(Gathered { head, memory }),
                    false => snapshot.unread = head.problems,
                }
                self.gather(snapshot, function, (then, None));
            }
            (Ok(head), None) if head.problems.is_empty() => {
                self.decide(snapshot, function, Some(Gathered { head, memory }));
            }
            (Ok(head), None) => self.refuse_judged(snapshot, function, head.problems),
            (Err(why), _) => {
                let problems = unread(why);
                self.refuse_judged(snapshot, function, problems);
            }
        }
    }

    /// Refuses a function that the judge accepts. The version that serves keeps its secrets.
    pub(super) fn refuse_judged(
        &mut self,
        snapshot: Snapshot,
        function: Box<FunctionJudgment>,
        problems: Vec<Problem>,
    ) {
        let name = snapshot.install.function.clone();
        self.secrets.judged(&name, None, snapshot.stamps.clone());
        self.refuse(snapshot.request, name, problems, Some(function.verdict.document));
        self.put_away(snapshot);
    }
}
