//! Removing what is no longer needed, in helpers: it may take long, and some of it may be touched as its owner only.

use super::*;

/// Something done in a helper, and for which request (0: none).
pub(super) struct Task {
    pub(super) request: u32,
    /// The invocation whose `tmp` it empties: the rest of its files go afterwards.
    pub(super) invocation: Option<(FunctionPlaces, InvocationId)>,
    pub(super) body: Box<dyn FnOnce() -> i32>,
}

/// What follows when a helper ends.
pub(super) type After = (u32, Option<(FunctionPlaces, InvocationId)>);

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
        let body = Box::new(move || places::empty(&dir, root));
        self.tasks.push_back(Task { request, invocation: Some((places, release.invocation)), body });
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
        self.tasks.push_back(Task { request, invocation: None, body });
    }

    /// Syncs the file system of the state directory.
    pub(super) fn sync(&mut self) {
        let state = self.workers.host().places.state.clone();
        let body =
            Box::new(move || i32::from(!fs::File::open(&state).is_ok_and(|dir| rustix::fs::syncfs(dir).is_ok())));
        self.tasks.push_back(Task { request: 0, invocation: None, body });
    }

    pub(super) fn start_helpers(&mut self) {
        while self.helpers.len() < HELPERS_MAX {
            let Some(Task { request, invocation, body }) = self.tasks.pop_front() else { return };
            match places::apart(body) {
                Ok(child) => {
                    self.helper_count += 1;
                    let _ = self.poller.add(&child.pidfd, Token::Helper(self.helper_count)); // only memory can fail it
                    self.helpers.insert(self.helper_count, (child, (request, invocation)));
                }
                Err(error) => {
                    crate::log!("failed to start a helper: {error}");
                    self.helped((request, invocation));
                }
            }
        }
    }

    pub(super) fn helper_ended(&mut self, number: u64) {
        if let Some((child, after)) = self.helpers.remove(&number) {
            let _ = reap::ended(&child); // how far it came is seen by what is left
            self.helped(after);
        }
    }

    fn helped(&mut self, (request, invocation): After) {
        match invocation {
            Some((places, id)) if !places.remove_invocation(id) => {
                self.failed(request, format!("`{}` could not be removed", places.invocation(id).display()));
            }
            _ => self.reply(request, &Reply::Done, Vec::new()),
        }
    }
}
