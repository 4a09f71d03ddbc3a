//! Starts workers: makes a launcher if the version has none, then sends it an order.

use super::sockets;
use super::*;
use fnd_wire::frame::{RECORD_MAX, RECORDS_MAX};
use fnd_wire::plan::may_be_given;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Bytes that wait in a handler's socket, at most `net.core.wmem_max` (socket(7)): a large payload or result then takes fewer
/// turns of fnd and the worker.
const SENT: usize = 1 << 20;
/// Largest number of worker numbers that fnd may skip at once.
const AHEAD_MAX: u64 = 1 << 20;

impl WorkerTable {
    /// Starts a worker: an attempt, or a program of fnd as the function's user.
    ///
    /// # Errors
    /// Why the worker was not started; then nothing of it remains.
    pub fn spawn(
        &mut self,
        (request, program): (u64, Program),
        spawn: Spawn,
        mut descriptors: VecDeque<OwnedFd>,
        with: (&Uids, &Policy, &Grants, &Poller),
    ) -> Result<(), NoStart> {
        let (uids, policy, grants, poller) = with;
        let (id, watch) = (spawn.worker.0, program != Program::Attempt);
        // A number far ahead is refused: after the last number no more workers could start.
        if id < self.next || id - self.next > AHEAD_MAX || id > NUMBER_MAX {
            return Err(format!("worker number {id} was used before, or is too far ahead of {}", self.next).into());
        }
        self.next = id + 1;
        if spawn.record.0.len() > RECORD_MAX || self.records_len() + spawn.record.0.len() > RECORDS_MAX {
            return Err("its adoption record is too long".into());
        }
        let (uid, name) = uids.get(spawn.function).ok_or("no function has this number")?;
        let mut given = spawn.environment;
        // With a variable such as `LD_PRELOAD`, an fnd that was taken over could run code of its own as the function's
        // user.
        if let Some((name, _)) = given.iter().find(|(name, value)| !may_be_given(name) || value.0.contains(&0)) {
            return Err(format!("the variable `{}` may not be set by fnd", name.escape_default()).into());
        }
        let socket = given.iter().find(|(name, _)| name == sockets::VARIABLE);
        let sockets_dir = self.host.places.http().join(id.to_string());
        let own_path = sockets::path(&sockets_dir);
        // fnd may say that a worker has a socket, but not where: an fnd that was taken over could name any path.
        if socket.is_some_and(|(_, path)| own_path.as_os_str().as_encoded_bytes() != path.0) {
            return Err("its socket is not in its own directory".into());
        }
        let (has_socket, fnd_group) = (socket.is_some(), self.fnd.1);
        let passed = self.host.passed;
        let mut take = |wanted: bool, pipe: bool| {
            let missing = "a descriptor is missing, or is of the wrong kind";
            let fits = |fd: &OwnedFd| passed.is_memory(fd) || pipe && passed.is_pipe(fd);
            if wanted { descriptors.pop_front().filter(fits).map(Some).ok_or(missing) } else { Ok(None) }
        };
        let (input, previous) = (take(spawn.input, true)?, take(spawn.previous, false)?);
        let dirs = self.host.places.of(&name.file_form());
        let apart = places::user_of(&dirs.version(&spawn.version)).map_err(tried("read the user of its version"))?;
        if let Some(uid) = apart.filter(|uid| !uids.has(name, *uid)) {
            return Err(format!("its uid {uid} is not in the uid table; reload fnd").into());
        }
        let uid = apart.unwrap_or(uid);
        let dirs = dirs.of_user(apart);
        let who = (spawn.function, uid, name, &dirs);
        let are_there = dirs.are_there();
        if !are_there {
            self.retire(spawn.function, None); // the sandbox of a launcher shows the directories that are gone
        }
        let what = (spawn.function, spawn.version, watch);
        let found = self.launcher_of(what).map(|found| self.is_still(found, uid, policy, grants)).transpose()?;
        if found == Some(false) {
            self.retire(spawn.function, None);
        }
        let number = match self.launcher_of(what) {
            Some(number) => number,
            None => self.launch(who, (spawn.version, watch), (policy, grants), poller)?,
        };
        let launcher = self.launchers.get_mut(&number).ok_or("the launcher has ended")?;
        let owner = launcher.identity.as_ref();
        let active = self.active.get_mut(&spawn.function).ok_or("the function is not active")?;
        let ready = active.take_ready(&mut self.leaves, owner);
        let ready = ready.map_err(tried_in_group("create the attempt's cgroup and pipes"))?;
        let ReadyStart { leaf, pipes: [(out_read, out_write), (error_read, error_write)], result, .. } = ready;
        let (leaf, leaf_dir) = leaf.unzip();
        let before = active.group.as_ref().map(Group::counters).unwrap_or_default();
        let connects = !watch && sockets::connects(&launcher.plan);
        let socket = (has_socket || connects).then_some(sockets_dir);
        let stop = launcher.plan.stop_signal().filter(|_| !watch).and_then(Signal::from_named_raw);
        let sent = (|| {
            let made = if are_there { Ok(()) } else { self.host.places.prepare_again(&dirs, owner) };
            let made = made.and_then(|()| dirs.for_attempt(spawn.invocation, id, owner, result));
            let files = made.map_err(tried("create the attempt's files"))?;
            self.sockets.extend(files.others.clone()); // both are emptied with the rights of their owner, and removed
            if let Some(previous) = previous {
                let path = files.give_previous(previous, launcher.plan.limits.result, owner);
                let path = path.map_err(tried("copy the previous result"))?;
                given.push(("FND_PREVIOUS".to_owned(), Bytes(path.into_bytes())));
            }
            let text = |path: &Path| path.to_string_lossy().into_owned();
            let code = dirs.version(&spawn.version).join("code");
            let values = [
                ("{entry}", text(&code.join(&launcher.plan.entry))),
                ("{code}", text(&code)),
                ("{tmp}", text(&files.tmp)),
                ("{result}", text(&files.result)),
                ("{state}", text(&dirs.home)),
                ("{cache}", text(&dirs.cache)),
                ("{credentials}", text(&dirs.credentials)),
                ("{bindings}", text(&dirs.bindings)),
                ("{interpreter}", launcher.plan.interpreters.first().cloned().unwrap_or_default()),
                ("{deps}", text(&dirs.version(&spawn.version).join("deps"))),
                ("{api}", text(&self.host.places.api(spawn.function))),
                (sockets::PLACEHOLDER, text(&own_path)),
                ("{shim}", launcher.plan.mode.handler().unwrap_or_default().to_owned()),
                ("{user}", launcher.user.clone()),
                ("{zone}", self.host.zone.clone()),
            ];
            let (plan, helper) = (&launcher.plan, &self.host.helper);
            let lines = match program {
                Program::Attempt => environment::lines(plan, &values, given),
                Program::Watcher => environment::of_watcher(plan, helper).ok_or("this version watches no files")?,
                Program::Measurement => environment::of_measurement([helper, &dirs.home, &dirs.cache]),
            };
            let order: LauncherOrder = (id, lines);
            let sent = (|| {
                let made = socket.as_ref().map(|dir| sockets::make(dir, owner, fnd_group, connects)).transpose()?;
                input.as_ref().filter(|fd| passed.is_pipe(fd)).map_or(Ok(()), |input| ready::owned(input, owner))?;
                let input = input.map_or_else(|| File::open("/dev/null").map(OwnedFd::from), Ok)?;
                let paired = || {
                    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                    [&pair.0, &pair.1].into_iter().try_for_each(|end| set_socket_send_buffer_size(end, SENT))?;
                    Ok::<_, io::Error>(pair)
                };
                let (ours, theirs) = match made.flatten() {
                    Some(listener) => (Some(listener), None),
                    None => launcher.plan.mode.handler().filter(|_| !watch).map(|_| paired()).transpose()?.unzip(),
                };
                let ends = vec![out_read, error_read, OwnedFd::from(files.result_file)];
                // Every descriptor needed later is made now: an order that was sent can't be taken back.
                let kill = leaf.iter().map(|leaf| &leaf.kill_end);
                let ready = ends.iter().chain(kill).chain(&ours).map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
                let aside = set_aside()?;
                let beside = leaf_dir.into_iter().chain([input, out_write, error_write]).chain(theirs).collect();
                launcher.channel.send(&order.to_wire(), beside)?;
                if launcher.channel.waiting() > 0 {
                    poller.change(&launcher.channel, (Token::Launcher, number), (true, true));
                }
                Ok::<_, io::Error>((ends, ours, ready, aside))
            })();
            sent.map_err(tried("order the start"))
        })();
        if sent.is_err() {
            let _ = leaf.as_ref().map(Leaf::remove); // it is empty, since the order was not sent
            self.sockets.extend(socket.clone());
        }
        let (ends, channel, ready, aside) = sent?;
        let began = now();
        let until = (spawn.lasts_ms > 0).then(|| began + Duration::from_millis(spawn.lasts_ms));
        let given = self.given.get(&(spawn.function, spawn.version)).filter(|_| !watch);
        let masks = given.map(|given| given.head.masks.clone()).unwrap_or_default();
        launcher.live += 1;
        launcher.ordered(began);
        self.aside.extend(aside);
        self.recheck_at(until);
        // Where only the function as a whole is counted, nobody can say which of two workers ran out of memory.
        let others = self.workers.values_mut().filter(|worker| worker.function == spawn.function && !worker.is_over());
        let shared = others.map(|other| other.shared = true).count() > 0;
        let Spawn { function, invocation, record, .. } = spawn;
        let channel = channel.map(Closing::from);
        let new = WorkerProcess { function, invocation, launcher: number, request, ..WorkerProcess::default() };
        let new = WorkerProcess { record, ends, channel, began, until, leaf, socket, before, ..new };
        self.workers.insert(id, WorkerProcess { shared, ready, masks, stop, ..new });
        Ok(())
    }

    /// Returns the launcher of a function's version, or of its programs of fnd, that starts more.
    fn launcher_of(&self, what: (FunctionId, Version, bool)) -> Option<u64> {
        let fits = |it: &Launcher| !it.retired && (it.function, it.version, it.watch) == what;
        self.launchers.iter().find(|(_, launcher)| fits(launcher)).map(|(number, _)| *number)
    }

    /// Returns whether a launcher's identity is the one that its version would get now: the user that a manifest names
    /// may have another id by now, or be gone.
    fn is_still(&self, number: u64, uid: u32, policy: &Policy, grants: &Grants) -> Result<bool, String> {
        let Some(launcher) = self.launchers.get(&number) else { return Ok(false) };
        let plan = &launcher.plan;
        let found = || grants.check(plan).and_then(|()| policy::identity(plan, uid, policy, true, &self.host.myself));
        // One that asks for nothing goes on, also if its user is outside of a range that was made narrower.
        Ok(!crate::grants::asks(plan) || found()?.0 == launcher.identity)
    }

    pub(super) fn launch(
        &mut self,
        (function, uid, name, dirs): (FunctionId, u32, &FunctionName, &FunctionPlaces),
        (version, watch): (Version, bool),
        (policy, grants): (&Policy, &Grants),
        poller: &Poller,
    ) -> Result<u64, NoStart> {
        let dir = dirs.version(&version);
        let bytes = fs::read(dir.join("plan")).map_err(tried(&format!("read the installed version {version}")))?;
        let read = Planned::from_wire(&bytes).failed(&format!("read the plan of version {version}"))?;
        let (mut plan, (mut sandbox, has_credentials)) = read;
        // A watcher and a measurement are programs of fnd: they get no secrets.
        let given = self.given.get(&(function, version)).filter(|_| !watch);
        if has_credentials && given.is_none() && !watch {
            return Err("its secrets were not read since fnd-spawner was started; reload fnd".into());
        }
        let memory = given.map(|given| given.memory.try_clone()).transpose().map_err(tried("open its secrets"))?;
        let credentials = memory.map(|memory| (memory, dirs.credentials.clone(), dirs.bindings.clone()));
        // The manifest's owner was checked when the version was installed; the rest may have changed since.
        grants.check(&plan)?;
        let (identity, user) = policy::identity(&plan, uid, policy, true, &self.host.myself)?;
        let capable = identity.as_ref().is_some_and(|identity| identity.capabilities != 0);
        // Without a filter it could have every capability in a user namespace of its own.
        sandbox.syscalls = sandbox.syscalls.min(if capable { Profile::Standard } else { Profile::Off });
        (!capable || self.host.lacking.can("seccomp")).then_some(()).ok_or("its capabilities need `seccomp`")?;
        let user = self.host.name(&plan, uid, &dirs.home).unwrap_or(user);
        self.host.places.prepare_again(dirs, identity.as_ref()).map_err(tried("create the function's directories"))?;
        // As much as for /tmp; what a run writes to `FND_RESULT` lies there, too.
        let size = sandbox.tmp.saturating_add(plan.limits.result.saturating_mul(2));
        if let Some(Err(error)) = self.host.own_mounts.then(|| dirs.bound(size)) {
            crate::log!("function {name}: failed to bound its TMPDIR: {error}");
        }
        if !self.active.contains_key(&function) {
            let active = self.activate(function, &name.file_form(), poller);
            self.active.insert(function, active.map_err(tried_in_group("create the function's cgroup"))?);
        }
        let group = self.active.get(&function).and_then(|active| active.group.as_ref());
        // One more, for the init of its pid namespace.
        plan.limits.pids += u32::from(sandbox.profile != Profile::Off);
        if let Some(Err(text)) = group.map(|group| group.apply(&plan.limits)) {
            if !policy.best_effort_limits {
                return Err(format!("a limit can't be enforced: {text}").into());
            }
            crate::log!("function {name}: a limit can't be enforced, starting without it: {text}");
        }
        let text = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).failed("use a path");
        let (directory, rlimits) = (text(&dir.join("code"))?, rlimits::of(&plan.limits));
        // Programs of fnd need no capabilities.
        let own = identity.clone().map(|it| Identity { capabilities: if watch { 0 } else { it.capabilities }, ..it });
        let exec = Exec { directory, identity: own, rlimits, parent: Some(getpid()), ..Exec::default() };
        let who = (identity.as_ref(), &*user);
        let view = self.host.view((dirs, version, function), (&plan, sandbox), who, has_credentials);
        let view = view.map_err(tried("find what the function sees"))?;
        let spec = Spec { exec, host: &self.host, group, view: view.filter(|_| !watch), credentials };
        self.launcher_count += 1;
        let number = self.launcher_count;
        let (channel, child) = start_launcher(spec, number, poller).map_err(tried("start the function's launcher"))?;
        // Only now: if no new launcher could be made, those of other versions stay.
        self.retire(function, Some(version));
        let idle_since = now();
        let launcher = Launcher {
            function,
            version,
            watch,
            plan,
            identity,
            user,
            channel,
            child,
            live: 0,
            idle_since,
            owes: 0,
            silence: Silence::default(),
            retired: false,
            stopping: false,
        };
        self.launchers.insert(number, launcher);
        Ok(number)
    }

    pub(super) fn activate(&self, function: FunctionId, name: &str, poller: &Poller) -> io::Result<Active> {
        let Some(tree) = &self.host.tree else { return Ok(Active::default()) };
        let group = tree.group(name)?;
        let mut oom = None;
        if let Some(memory) = group.v1_memory() {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let control = File::open(memory.join("memory.oom_control"))?;
            // The line names the descriptors of the event and of the watched file (cgroup-v1/memory.rst, section 10).
            let line = format!("{} {}", event.as_raw_fd(), control.as_raw_fd());
            // Without this event an OOM kill is still counted. Only the rest of the process tree is not killed at once.
            if fs::write(memory.join("cgroup.event_control"), line).is_ok() {
                poller.add(&event, (Token::Oom, u64::from(function.0)))?;
                oom = Some(event);
            }
        }
        Ok(Active { group: Some(group), oom, ..Active::default() })
    }
}

fn start_launcher(spec: Spec<'_>, number: u64, poller: &Poller) -> io::Result<(Channel, Child)> {
    let (channel, theirs) = Channel::pair()?;
    let leaf = spec.group.map(|group| File::open(group.dir.join("l"))).transpose()?;
    let leaf = leaf.as_ref().map(|leaf| leaf.as_fd());
    let flags = if spec.host.own_ipc { libc::CLONE_NEWIPC } else { 0 };
    let child = clone::fork(leaf, false, flags, move || launcher::run(spec, theirs))?;
    poller.add(&channel, (Token::Launcher, number))?;
    Ok((channel, child))
}
