//! Removing what is no longer needed, in helpers: it may take long, and some of it may be touched as its owner only.

use super::*;
use std::rc::Rc;

impl Spawner {
    pub(super) fn release(&mut self, request: u32, release: &Release) {
        let Some((_, name)) = self.uids.get(release.function) else {
            return self.failed(request, "no function has this number".to_owned());
        };
        let places = self.workers.host().places.of(&name.file_form());
        if places.remove_invocation(release.invocation) {
            return self.reply(request, &Reply::Done, Vec::new());
        }
        let (dir, root) = (places.invocation(release.invocation).join("tmp"), self.sources.myself.root());
        let after = After::Released(request, places, release.invocation);
        self.helpers.add(Lane::Clean, after, Box::new(move || removal::empty(&dir, root)));
    }

    pub(super) fn prune(&mut self, request: u32, prune: &Prune) {
        let mut gone = Vec::new();
        let dir = self.workers.host().places.of(&prune.function.file_form()).versions;
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let version = entry.file_name().to_str().and_then(Version::parse);
            if version.is_some_and(|version| !prune.keep.contains(&version) && !self.workers.uses(&version)) {
                gone.push(entry.path());
            }
        }
        let body = Box::new(move || gone.iter().map(|path| i32::from(fs::remove_dir_all(path).is_err())).sum());
        self.helpers.add(Lane::Write, After::Done(request), body);
    }

    /// Removes what a spawner that was killed had half copied.
    pub(super) fn remove_staged(&mut self) {
        let versions = self.workers.host().places.state.join("versions");
        let staged = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".new-");
        let entries = fs::read_dir(versions).into_iter().flatten().flatten();
        let found: Vec<PathBuf> = entries.filter(staged).map(|entry| entry.path()).collect();
        if !found.is_empty() {
            let remove = |path: &PathBuf| fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
            let body = Box::new(move || found.iter().map(|path| i32::from(remove(path).is_err())).sum());
            self.helpers.add(Lane::Write, After::Done(0), body);
        }
    }

    /// Syncs the file system of the state directory.
    pub(super) fn sync(&mut self) {
        let state = self.workers.host().places.state.clone();
        let body =
            Box::new(move || i32::from(!fs::File::open(&state).is_ok_and(|dir| rustix::fs::syncfs(dir).is_ok())));
        self.helpers.add(Lane::Write, After::Done(0), body);
    }

    /// Lets go of a function's files that are not going to be installed.
    pub(super) fn put_away(&mut self, mut snapshot: Snapshot) {
        if snapshot.is_staged() {
            self.helpers.add(Lane::Write, After::Done(0), snapshot.remover());
        }
    }

    pub(super) fn start_helpers(&mut self) {
        for after in self.helpers.start(&self.poller) {
            self.helped(after);
        }
    }

    pub(super) fn helper_ended(&mut self, number: u64) {
        if let Some(after) = self.helpers.ended(number) {
            self.helped(after);
        }
    }

    fn helped(&mut self, after: After) {
        match after {
            After::Done(request) => self.reply(request, &Reply::Done, Vec::new()),
            After::Released(request, places, id) if !places.remove_invocation(id) => {
                self.failed(request, format!("`{}` could not be removed", places.invocation(id).display()));
            }
            After::Released(request, ..) => self.reply(request, &Reply::Done, Vec::new()),
            After::Copied(mut snapshot) => match snapshot.copied() {
                Ok(()) => self.copied.push_back(*snapshot),
                Err(problem) => self.refuse_unread(*snapshot, problem),
            },
            After::Stored(snapshot, request, installed) => {
                let written = install::told(&snapshot.report());
                self.stored(&snapshot, request, *installed, written);
                if let Ok(snapshot) = Rc::try_unwrap(snapshot) {
                    self.put_away(snapshot);
                }
            }
        }
    }
}
