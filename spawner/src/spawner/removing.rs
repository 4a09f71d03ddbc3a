//! Removes files that are no longer needed. Helpers do it, since it may take long and since some of the files may be
//! accessed only with their owner's rights.

use super::*;
use crate::places::FunctionPlaces;
use fnd_wire::ids::{FunctionId, InvocationId};
use std::collections::BTreeSet;

impl Spawner {
    pub(super) fn release(&mut self, request: u64, release: &Release) {
        let Some((_, name)) = self.uids.get(release.function) else {
            return self.failed(request, "no function has this number".to_owned());
        };
        let places = self.workers.host.places.of(&name.file_form());
        self.empty_and_remove((request, Some(release.function)), places, release.invocation);
    }

    fn empty_and_remove(&mut self, of: (u64, Option<FunctionId>), places: FunctionPlaces, id: InvocationId) {
        // Most runs leave `TMPDIR` empty, and then no helper is needed.
        if places.remove_invocation(id) {
            return self.emptied(of, &places);
        }
        let (dir, root) = (places.invocation(id).join("tmp"), self.sources.myself.root());
        self.helpers.add(Lane::Clean, After::Released(of, places, id), Box::new(move || removal::empty(&dir, root)));
    }

    fn emptied(&mut self, (request, function): (u64, Option<FunctionId>), places: &FunctionPlaces) {
        if let Some(function) = function {
            self.workers.unbound(function, places);
            self.workers.make_ready(function, places);
        }
        self.helped(After::Done(request));
    }

    /// Removes the directories of invocations that fnd does not know: these ran when an earlier spawner was killed.
    pub(super) fn sweep(&mut self, request: u64, sweep: &Sweep) {
        let places = self.workers.host.places.clone();
        // The directories of workers that this spawner has started stay, whatever fnd says.
        let known: BTreeSet<_> = sweep.invocations.iter().copied().chain(self.workers.invocations()).collect();
        let functions: BTreeSet<String> = sweep.functions.iter().map(FunctionName::file_form).collect();
        let found = places.invocations().and_then(|found| Ok((found, places.left_behind(&functions)?)));
        let (invocations, (names, count)) = match found {
            Ok(found) => found,
            Err(error) => return self.failed(request, format!("failed to look for what functions have left: {error}")),
        };
        for (function, invocation) in invocations.into_iter().filter(|(_, invocation)| !known.contains(invocation)) {
            self.empty_and_remove((0, None), places.of(&function), invocation);
        }
        self.reply(request, &Reply::Swept(fnd_wire::frame::Swept { count, names }), Vec::new());
    }

    pub(super) fn prune(&mut self, request: u64, prune: &Prune) {
        if let Some(id) = self.uids.id(&prune.function) {
            self.workers.keep_given(id, &prune.keep);
            self.build_homes.keep(id, &prune.keep);
        }
        let dir = self.workers.host.places.of(&prune.function.file_form()).versions;
        // A launcher's version stays although fnd does not name it: its processes may still read the code.
        let is_gone = |version| !prune.keep.contains(&version) && !self.workers.uses(&version);
        match removal::entries(&dir, |name| Version::parse(name).is_some_and(is_gone)) {
            Ok(gone) => self.helpers.add(Lane::Write, After::Done(request), Box::new(move || removal::remove(&gone))),
            Err(error) => self.failed(request, format!("failed to list `{}`: {error}", dir.display())),
        }
    }

    /// Removes the incomplete copies that a killed spawner left. If they can't be listed, the next start tries again.
    pub(super) fn remove_staged(&mut self) {
        let versions = self.workers.host.places.state.join("versions");
        let found = removal::entries(&versions, |name| name.starts_with(".new-")).unwrap_or_default();
        if !found.is_empty() {
            self.helpers.add(Lane::Write, After::Done(0), Box::new(move || removal::remove(&found)));
        }
    }

    /// Removes the directories of sockets whose workers are gone, with everything that the workers left in them.
    pub(super) fn remove_sockets(&mut self) {
        for dir in std::mem::take(&mut self.workers.sockets) {
            if !sockets::remove(&dir) {
                let (target, root) = (dir.clone(), self.sources.myself.root());
                self.helpers.add(Lane::Clean, After::Emptied(dir), Box::new(move || removal::empty(&target, root)));
            }
        }
    }

    /// Syncs the file system of the state directory.
    pub(super) fn sync(&mut self) {
        let state = self.workers.host.places.state.clone();
        let sync = move || i32::from(!fs::File::open(&state).is_ok_and(|dir| rustix::fs::syncfs(dir).is_ok()));
        self.helpers.add(Lane::Write, After::Done(0), Box::new(sync));
    }

    /// Removes the staging directory of a snapshot that is not needed any more.
    pub(super) fn put_away(&mut self, mut snapshot: Snapshot) {
        if snapshot.is_staged() {
            self.helpers.add(Lane::Write, After::Done(0), snapshot.remover());
        }
    }

    /// Takes the next step after a helper.
    pub(super) fn helped(&mut self, after: After) {
        match after {
            // No request asked for it, or nobody waits for the answer any more.
            After::Done(request) if self.number(request) == 0 => {}
            After::Done(request) => self.reply(request, &Reply::Done, Vec::new()),
            After::Released((request, _), places, id) if !places.remove_invocation(id) => {
                let why = format!("failed to remove `{}`", places.invocation(id).display());
                if self.number(request) == 0 { crate::log!("{why}") } else { self.failed(request, why) }
            }
            After::Emptied(dir) if sockets::remove(&dir) => {}
            After::Emptied(dir) => crate::log!("failed to remove `{}`", dir.display()),
            After::Released(of, places, _) => self.emptied(of, &places),
            After::Copied(mut snapshot) => match snapshot.copied() {
                Ok(()) => self.copied.push_back(*snapshot),
                Err(problem) => self.refuse_unread(*snapshot, problem),
            },
            After::Sealed(request, builder, report) => self.sealed(request, builder, &report),
            After::Cleared(request, builder, home) => {
                self.build_homes.cleared(builder, places::is_empty(&home)); // absent before the first build
                self.reply(request, &Reply::Sealed(None), Vec::new());
            }
            After::Gathered(waiting) => self.gathered(*waiting),
            After::Stored(snapshot, installed) => {
                self.stored(&snapshot, *installed, install::read_report(&snapshot.report()));
                std::rc::Rc::into_inner(snapshot).into_iter().for_each(|snapshot| self.put_away(snapshot));
            }
        }
    }
}
