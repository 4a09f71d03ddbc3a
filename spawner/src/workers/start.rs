//! Starting: a launcher where the version has none, then an order to it.

use super::*;

impl Workers {
    /// Starts a worker.
    ///
    /// # Errors
    /// Why not, for people. Nothing of it is left then.
    pub fn spawn(
        &mut self,
        request: u32,
        spawn: &Spawn,
        mut descriptors: VecDeque<OwnedFd>,
        with: (&Uids, &Policy, &Poller),
    ) -> Result<(), String> {
        let (uids, policy, poller) = with;
        let id = spawn.worker.0;
        if id < self.next || id > NUMBER_MAX {
            return Err(format!("worker number {id} was used before, or is too large"));
        }
        self.next = id + 1;
        let (uid, name) = uids.get(spawn.function).ok_or("no function has this number")?;
        let given = given(spawn, &mut descriptors)?;
        let mut take = |wanted: bool| {
            if wanted { descriptors.pop_front().map(Some).ok_or("a descriptor is missing") } else { Ok(None) }
        };
        let (input, previous) = (take(spawn.input)?, take(spawn.previous)?);
        let number = match self.launcher_of(spawn.function, spawn.version) {
            Some(number) => number,
            None => self.launch((spawn.function, uid, name), spawn.version, policy, poller)?,
        };
        let launcher = self.launchers.get_mut(&number).ok_or("the launcher is gone")?;
        let owner = launcher.identity.as_ref();
        let dirs = self.host.places.of(&name.file_form());
        let files = dirs.for_attempt(spawn.invocation, id, owner).failed("make the attempt's files")?;
        if let Some(previous) = previous {
            let _ = fs::remove_file(&files.previous); // of the attempt before
            File::create_new(&files.previous)
                .and_then(|mut copy| protocol::copy_file(previous, &mut copy, launcher.plan.limits.result))
                .and_then(|_| places::own(&files.previous, owner))
                .failed("copy the previous result")?;
        }
        let attempt = Attempt {
            plan: &launcher.plan,
            code: dirs.version(&spawn.version).join("code"),
            dirs,
            user: &launcher.user,
            files: &files,
            previous: spawn.previous,
            given: &given,
            zone: &self.host.zone,
        };
        let lines: Lines = (attempt.argv(), attempt.environment());
        let group = self.active.get(&spawn.function).and_then(|active| active.group.as_ref());
        let leaf = group.map(|group| Leaf::make(&group.dir, &format!("w{id}"))).transpose();
        let leaf = leaf.failed("make the attempt's cgroup")?;
        let before = group.map(Group::counters).unwrap_or_default();
        let sent = (|| {
            let input = input.map_or_else(|| File::open("/dev/null").map(OwnedFd::from), Ok)?;
            let (out_read, out_write) = pipe_with(PipeFlags::CLOEXEC)?;
            let (error_read, error_write) = pipe_with(PipeFlags::CLOEXEC)?;
            // Otherwise opening /dev/stdin or `echo >/dev/stderr`, which opens it again, is refused.
            for fd in [&input, &out_write, &error_write] {
                give_pipe(fd, owner)?;
            }
            let mut ends = vec![out_read, error_read, OwnedFd::from(files.result_file)];
            let mut order = Vec::new();
            if let Some(leaf) = &leaf {
                order.push(leaf.dir.try_clone()?);
                ends.push(leaf.kill_end.try_clone()?);
            }
            order.extend([input, out_write, error_write]);
            let document = protocol::document(lines.to_wire(), &mut order)?;
            launcher.channel.send((id, document).to_wire(), order)?;
            Ok::<_, io::Error>(ends)
        })();
        if sent.is_err() {
            let _ = leaf.as_ref().map(Leaf::remove); // empty
        }
        let stage = Stage::Starting { request, ends: sent.failed("order the start")? };
        launcher.live += 1;
        let function = spawn.function;
        let others = self.workers.values_mut().filter(|worker| worker.function == function && !worker.is_over());
        let shared = others.map(|other| other.shared = true).count() > 0;
        self.workers.insert(id, Worker { function, launcher: number, leaf, before, shared, early: Vec::new(), stage });
        Ok(())
    }

    pub(super) fn launcher_of(&self, function: FunctionId, version: Version) -> Option<u64> {
        let fits =
            |launcher: &Launcher| launcher.function == function && launcher.version == version && !launcher.retired;
        self.launchers.iter().find(|(_, launcher)| fits(launcher)).map(|(number, _)| *number)
    }

    pub(super) fn launch(
        &mut self,
        who: (FunctionId, u32, &FunctionName),
        version: Version,
        policy: &Policy,
        poller: &Poller,
    ) -> Result<u64, String> {
        let (function, uid, name) = who;
        let file_form = name.file_form();
        let dirs = self.host.places.of(&file_form);
        let dir = dirs.version(&version);
        let bytes = fs::read(dir.join("plan")).failed(&format!("read the installed version {version}"))?;
        let plan = Plan::from_wire(&bytes).failed(&format!("read the plan of version {version}"))?;
        // Whether the manifest was root's was checked when it was installed; the rest may have changed since.
        let (identity, user) = policy::identity(&plan, uid, policy, true, &self.host.myself)?;
        dirs.prepare(identity.as_ref()).failed("make the function's directories")?;
        if !self.active.contains_key(&function) {
            let active = self.activate(function, &file_form, poller).failed("make the function's cgroup")?;
            self.active.insert(function, active);
        }
        let group = self.active.get(&function).and_then(|active| active.group.as_ref());
        if let Some(Err(failed)) = group.map(|group| group.apply(&plan.limits)) {
            let text: Vec<String> = failed.into_iter().map(|(limit, why)| format!("`{limit}`: {why}")).collect();
            let text = text.join("; ");
            if !self.host.best_effort && !policy.best_effort_limits {
                return Err(format!("a limit can't be enforced: {text}"));
            }
            crate::log!("function {name}: a limit can't be enforced, going on: {text}");
        }
        let text = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).failed("use a path");
        let code = dir.join("code");
        let program = plan.interpreters.first().map_or_else(|| code.join(&plan.entry), Into::into);
        let exec = Exec {
            path: text(&program)?,
            directory: text(&code)?,
            identity: identity.clone(),
            rlimits: rlimits::of(&plan.limits),
            ..Exec::default()
        };
        let spec = Spec {
            exec,
            containment: self.host.containment,
            group: group.map(|group| group.dir.clone()),
            v1: group.map(Group::v1_dirs).unwrap_or_default(),
        };
        self.launcher_count += 1;
        let number = self.launcher_count;
        let (channel, child) = start_launcher(spec, number, poller).failed("start the function's launcher")?;
        self.retire(function, Some(version));
        let idle_since = crate::clock::now();
        let launcher = Launcher {
            function,
            version,
            plan,
            identity,
            user,
            channel,
            child,
            live: 0,
            idle_since,
            retired: false,
            stopping: false,
        };
        self.launchers.insert(number, launcher);
        Ok(number)
    }

    pub(super) fn activate(&self, function: FunctionId, name: &str, poller: &Poller) -> io::Result<Active> {
        let Some(tree) = &self.host.tree else {
            return Ok(Active::default());
        };
        let group = tree.group(name)?;
        let mut active = Active { oom_seen: group.counters().oom_kills, ..Active::default() };
        if let Some(memory) = group.v1_memory() {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let control = File::open(memory.join("memory.oom_control"))?;
            let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
            if fs::write(memory.join("cgroup.event_control"), line).is_ok() {
                poller.add(&event, Token::Oom(u64::from(function.0)))?;
                active.oom = Some(event);
            }
        }
        active.group = Some(group);
        Ok(active)
    }
}

fn start_launcher(spec: Spec, number: u64, poller: &Poller) -> io::Result<(Channel, Child)> {
    let (ours, theirs) = protocol::pair()?;
    let leaf = spec.group.as_ref().map(|group| File::open(group.join("l"))).transpose()?;
    let leaf = leaf.as_ref().map(|leaf| leaf.as_fd());
    let child = clone::fork(leaf, false, 0, move || launcher::run(spec, &theirs))?;
    let channel = Channel::new(ours)?;
    poller.add(&channel, Token::Launcher(number))?;
    poller.add(&child.pidfd, Token::LauncherEnd(number))?;
    Ok((channel, child))
}

/// Gives a pipe to its user; what else fnd passed stays whose it is.
fn give_pipe(fd: &OwnedFd, owner: Option<&Identity>) -> io::Result<()> {
    let pipe = rustix::fs::fstat(fd)?.st_mode & libc::S_IFMT == libc::S_IFIFO;
    owner.filter(|_| pipe).map_or(Ok(()), |owner| std::os::unix::fs::fchown(fd, Some(owner.uid), Some(owner.gid)))
}

fn given(spawn: &Spawn, descriptors: &mut VecDeque<OwnedFd>) -> Result<Vec<(String, Bytes)>, String> {
    let bytes = protocol::contents(spawn.environment.clone(), descriptors, ARGUMENTS_MAX);
    let given = Vec::<(String, Bytes)>::from_wire(&bytes.failed("read the environment")?);
    let given = given.failed("read the environment")?;
    for (name, value) in &given {
        if !environment::may_be_given(name) || value.0.contains(&0) {
            return Err(format!("the variable `{}` may not be set by fnd", name.escape_default()));
        }
    }
    Ok(given)
}
