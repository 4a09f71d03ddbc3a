//! Removing what is no longer needed, in helpers: it may take long, and some of it may be touched as its owner only.

use super::*;

impl Spawner {
    pub(super) fn release(&mut self, request: u32, release: Release) {
        let Some((_, name)) = self.uids.get(release.function) else {
            return self.reply(request, &Reply::Failed("no function has this number".to_owned()), Vec::new());
        };
        let name = name.file_form();
        if self.workers.host().places.of(&name).remove_invocation(release.invocation) {
            return self.done(request);
        }
        self.tasks.push_back(Task::Empty(request, name, release));
    }

    pub(super) fn prune(&mut self, request: u32, prune: &Prune) {
        let keep: Vec<String> = prune.keep.iter().map(fnd_core::ids::Version::hex).collect();
        let dir = self.workers.host().places.of(&prune.function.file_form()).versions;
        let mut gone = Vec::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = fnd_core::ids::Version::parse(&name);
            if !keep.contains(&name) && version.is_some_and(|version| !self.workers.uses(&version)) {
                gone.push(entry.path());
            }
        }
        self.tasks.push_back(Task::Delete(request, gone));
    }

    pub(super) fn start_helpers(&mut self) {
        while self.helpers.len() < HELPERS_MAX {
            let Some(task) = self.tasks.pop_front() else { return };
            let places = &self.workers.host().places;
            let started = match &task {
                Task::Empty(_, name, release) => {
                    let dir = places.of(name).invocation(release.invocation).join("tmp");
                    let root = self.workers.host().myself.root();
                    fs::symlink_metadata(&dir).and_then(|meta| {
                        let owner = Identity { uid: meta.uid(), gid: meta.gid(), groups: Vec::new() };
                        places::empty_as(root.then_some(owner), dir)
                    })
                }
                Task::Delete(_, paths) => {
                    places::apart(|| paths.iter().map(|path| i32::from(fs::remove_dir_all(path).is_err())).sum())
                }
                Task::Sync => places::apart(|| {
                    i32::from(fs::File::open(&places.state).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?)).is_err())
                }),
            };
            match started {
                Ok(child) => {
                    self.helper_count += 1;
                    let _ = self.poller.add(&child.pidfd, Token::Helper(self.helper_count)); // only memory can fail it
                    self.helpers.insert(self.helper_count, (child, task));
                }
                Err(error) => {
                    crate::log!("failed to start a helper: {error}");
                    self.task_done(task);
                }
            }
        }
    }

    pub(super) fn helper_ended(&mut self, number: u64) {
        let Some((child, task)) = self.helpers.remove(&number) else {
            return;
        };
        let _ = reap::ended(&child); // how far it came is seen by what is left
        self.task_done(task);
    }

    pub(super) fn task_done(&mut self, task: Task) {
        match task {
            Task::Sync => {}
            Task::Delete(request, _) => self.done(request),
            Task::Empty(request, name, release) => {
                let id = release.invocation;
                let gone = self.workers.host().places.of(&name).remove_invocation(id);
                let why = || format!("the temporary directory of invocation {id} of {name} could not be removed");
                self.reply(request, &if gone { Reply::Done } else { Reply::Failed(why()) }, Vec::new());
            }
        }
    }
}
