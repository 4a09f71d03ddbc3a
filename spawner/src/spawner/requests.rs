//! Talks with fnd: connections, requests, replies.

use super::*;
use crate::install::Purpose;
use crate::process::clone::NoStart;
use crate::process::closing::Closing;
use fnd_wire::frame::STORED;
use fnd_wire::plan::is_builder;

/// Largest number of waiting requests to read or install, more than there are users for functions; and the longest path
/// in one.
const JOBS_MAX: usize = 40_000;
const PATH_MAX: usize = 1024;
const TOO_MANY: &str = "too many files wait to be read";

/// Pipes and memory files, and connections.
type PassedDescriptors = (VecDeque<OwnedFd>, VecDeque<Closing>);

impl Spawner {
    pub(super) fn accept(&mut self) {
        let Some(socket) = self.listener.as_ref().and_then(listener::accept) else { return };
        // The previous fnd may have ended without being noticed yet. Its last requests, at most some 300 frames in the
        // socket's buffer, are read first, then the end of its connection.
        (0..16).for_each(|_| self.read_requests());
        if self.connection.is_some() {
            crate::log!("refused a second connection: one fnd at a time");
            closing::later([socket]);
        } else if let Err(error) = self.connect(socket) {
            crate::log!("failed to use a connection: {error}");
        }
    }

    pub(super) fn connect(&mut self, socket: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        self.poller.add(&socket, (Token::Connection, 0))?;
        let fnd = rustix::net::sockopt::socket_peercred(&socket)?;
        self.workers.fnd = (fnd.uid.as_raw(), fnd.gid.as_raw());
        (self.interest, self.welcomed, self.configured) = ((true, false), false, false);
        self.connection = Some(Channel::new(socket));
        Ok(())
    }

    pub(super) fn disconnect(&mut self, why: &io::Error) {
        if let Some(connection) = self.connection.take() {
            // The connection was closed: fnd has ended, and has logged that itself.
            if why.kind() != io::ErrorKind::UnexpectedEof {
                crate::log!("the connection with fnd ended: {why}");
            }
            self.poller.remove(&connection);
            // Descriptors that fnd passed and that were not read are closed with the connection.
            connection.give_up();
            self.hello = None;
            self.connections += 1;
        }
    }

    pub(super) fn read_requests(&mut self) {
        // Bounded, so that a flood of requests can't keep the loop from handling exits.
        for _ in 0..64 {
            let Some(connection) = &mut self.connection else { return };
            let received = still_heard(connection.flush())
                .and_then(|()| if connection.waiting() > BACKLOG { Ok(None) } else { connection.receive() });
            let frame = match received {
                Ok(Some(frame)) => frame,
                // Nothing more has come, or fnd has to read its answers first.
                Ok(None) => return,
                Err(error) => return self.disconnect(&error),
            };
            let with = (self.sorted(frame.descriptors), frame.cut);
            match decode::<Request>(&frame.bytes) {
                Ok((number, request)) => self.request(self.connections << 32 | u64::from(number), request, with),
                Err(error) => return self.disconnect(&io::Error::other(error)),
            }
        }
    }

    /// Returns the descriptors that the spawner may read, pass on and close, and the connections; none if one of them is of
    /// another kind.
    fn sorted(&mut self, descriptors: VecDeque<OwnedFd>) -> PassedDescriptors {
        let passed = self.workers.host.passed;
        let (connections, rest): (Vec<_>, Vec<_>) = descriptors.into_iter().partition(PassedDescriptor::is_connection);
        // Also those that nobody uses are closed elsewhere.
        let connections = connections.into_iter().map(Closing::from).collect();
        let is_fine = |fd: &OwnedFd| passed.is_pipe(fd) || passed.is_memory(fd);
        let (fine, other): (VecDeque<_>, VecDeque<_>) = rest.into_iter().partition(is_fine);
        if other.is_empty() {
            return (fine, connections);
        }
        crate::log!("fnd passed a descriptor that is neither a pipe, a memory file nor a connection; it is not used");
        closing::later(other);
        PassedDescriptors::default()
    }

    /// Carries out a request; `cut`: there was no room for some of its descriptors.
    fn request(
        &mut self,
        number: u64,
        request: Request,
        ((descriptors, mut connections), cut): (PassedDescriptors, bool),
    ) {
        if !self.welcomed && !matches!(request, Request::Hello(_)) {
            return self.failed(number, "the first request must be Hello".to_owned());
        }
        match request {
            Request::Hello(hello) => return self.hello = Some((number, hello, now() + STARTS)),
            Request::Reload if self.jobs.len() < JOBS_MAX => return self.jobs.push_back(Job::Reload(number)),
            Request::Reload => return self.failed(number, TOO_MANY.to_owned()),
            Request::Install(install) => return self.add_install(number, install, Purpose::Install),
            // Only of stored versions: fnd must not get the content of files that only root may read.
            Request::Files(it) => return self.add_install(number, Install { directory: STORED, ..it }, Purpose::Files),
            Request::Fetch(install) => return self.add_install(number, install, Purpose::Fetch),
            Request::Check(install) => return self.add_install(number, install, Purpose::Check),
            Request::Rebuild(install) => return self.add_install(number, install, Purpose::Rebuild),
            Request::Spawn(spawn) => return self.spawn((number, Program::Attempt), spawn, (descriptors, cut)),
            Request::Watch(spawn) => return self.spawn((number, Program::Watcher), spawn, (descriptors, cut)),
            Request::Measure(spawn) => return self.spawn((number, Program::Measurement), spawn, (descriptors, cut)),
            Request::Release(release) => return self.release(number, &release),
            Request::Prune(prune) => return self.prune(number, &prune),
            Request::Sweep(sweep) => return self.sweep(number, &sweep),
            Request::Seal(it) if is_builder(it.function.as_str()) => return self.seal(number, &it.function, it.tree),
            Request::Seal(_) => return self.failed(number, "that function builds nothing".to_owned()),
            Request::PruneTrees(keep_s) => return self.prune_trees(number, Duration::from_secs(keep_s)),
            Request::Acknowledge(worker) => return self.workers.acknowledge(worker),
            Request::Retire(function) => self.workers.retire(function, None),
            Request::Lease(lease) => self.workers.lease(lease),
            Request::Remove(function) => {
                self.secrets.forget(&function);
                self.grants.forget(&function);
                if let Some(id) = self.uids.id(&function) {
                    self.workers.forget(id);
                    let _ = fs::remove_dir(self.workers.host.places.api(id)); // with fnd's socket in it, it stays
                    self.workers.host.forget_names(&function, self.uids.users(&function, None).map(|(uid, ..)| uid));
                }
            }
            Request::Term(worker) => self.workers.terminate(worker, TermCause::Asked),
            Request::Ping => {}
            Request::Secret(asked) => return self.secret(number, &asked),
            Request::AdoptionRecord(record) => self.workers.set_record(record, connections.pop_front()),
            Request::Kill(worker) => self.workers.signal(worker, rustix::process::Signal::KILL),
        }
        self.reply(number, &Reply::Done, Vec::new());
    }

    fn add_install(&mut self, number: u64, install: Install, purpose: Purpose) {
        let paths = [Some(&install.source), install.sidecar.as_ref()];
        let long = paths.into_iter().flatten().any(|path| path.len() > PATH_MAX);
        if long || self.jobs.len() >= JOBS_MAX {
            let too_long = ("its path is too long", "give it a shorter name");
            let (wrong, help) = if long { too_long } else { (TOO_MANY, "reload fnd later") };
            let problem = problem(install.source.get(..PATH_MAX).unwrap_or(&install.source), wrong, help);
            let (function, problems) = (install.function, vec![problem]);
            return self.refuse(number, Refused { function, problems, document: None });
        }
        // The claim to the name stays in memory; so it shares the text of the name with the table of users.
        let known = self.uids.id(&install.function).and_then(|id| self.uids.get(id)).map(|(_, name)| name.clone());
        let install = Install { function: known.unwrap_or(install.function), ..install };
        self.jobs.push_back(Job::Install(number, install, purpose));
    }

    fn spawn(&mut self, what: (u64, Program), spawn: Spawn, (descriptors, cut): (VecDeque<OwnedFd>, bool)) {
        let (worker, function) = (spawn.worker, spawn.function);
        if cut {
            // The kernel had no numbers left for the descriptors (`MSG_CTRUNC`). The node is the cause, and the attempt has
            // not begun.
            let message = "failed to receive its input: too many files are open".to_owned();
            return self.reply(what.0, &Reply::NodeCannotStart(SpawnFailed { worker, message }), Vec::new());
        }
        // Before a file belongs to the function: its uid must not be given to another function after a crash.
        let synced = self.uids.sync();
        let ready = synced.and_then(|()| if what.1 == Program::Attempt { self.build_starts(&spawn) } else { Ok(()) });
        let policy = self.policy.as_ref().ok_or("the configuration has not been read yet".to_owned());
        let result = ready.and(policy).map_err(NoStart::from).and_then(|policy| {
            self.workers.spawn(what, spawn, descriptors, (&self.uids, policy, &self.grants, &self.poller))
        });
        if let Err(why) = result {
            self.reply(what.0, &self.workers.not_started(worker, function, why), Vec::new());
        }
    }

    fn secret(&mut self, number: u64, asked: &SecretAsked) {
        match self.secrets.open(asked) {
            Ok(memory) => self.reply(number, &Reply::Secret, vec![memory]),
            Err(NoSecret::Refused(problem)) => self.reply(number, &Reply::SecretRefused(problem), Vec::new()),
            Err(NoSecret::Shortage(why)) => self.failed(number, format!("failed to open a secret: {why}")),
        }
    }

    /// Answers the Hello once no start is under way, so that fnd learns of every worker. A start that takes too long
    /// fails.
    pub(super) fn answer_hello(&mut self) {
        let ready = |(_, _, at): &mut (u64, Hello, Duration)| now() >= *at || !self.workers.any_starting();
        let Some((number, hello, _)) = self.hello.take_if(ready) else { return };
        self.workers.give_up_starts(&mut Outbox::new()); // an fnd that has ended asked for them
        if hello.min > PROTOCOL_MAX || hello.max < PROTOCOL_MIN {
            let fnds = format!("fnd supports protocols {} to {}", hello.min, hello.max);
            return self.failed(number, format!("{fnds}, fnd-spawner {PROTOCOL_MIN} to {PROTOCOL_MAX}; restart both"));
        }
        self.welcomed = true;
        let host = &self.workers.host;
        let welcome = Welcome {
            protocol: hello.max.min(PROTOCOL_MAX),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            containment: host.containment,
            layout: host.tree.as_ref().map_or("none", CgroupTree::layout).to_owned(),
            missing: host.missing(),
            next_worker: WorkerId(self.workers.next),
            functions_dirs: self.sources.dirs.iter().map(|dir| dir.display().to_string()).collect(),
            memory: host.tree.as_ref().map_or(MemoryGroups::None, CgroupTree::memory),
        };
        self.protocol = welcome.protocol;
        self.reply(number, &Reply::Welcome(welcome), Vec::new());
        let http = self.workers.host.places.http().to_string_lossy().into_owned();
        self.reply(number, &Reply::Sockets(http), Vec::new());
        let held = self.workers.held(now());
        held.into_iter().for_each(|(reply, descriptors)| self.reply(0, &reply, descriptors));
        // fnd waits for the configuration after each Welcome, and does not ask for it.
        self.jobs.push_back(Job::Reload(0));
    }

    /// Returns the number that the connected fnd has given to a request; 0 if it was an earlier fnd's: the numbers of each fnd
    /// begin anew.
    pub(super) fn number(&self, request: u64) -> u32 {
        request.checked_sub(self.connections << 32).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
    }

    pub(super) fn failed(&mut self, request: u64, why: String) {
        self.reply(request, &Reply::Failed(why), Vec::new());
    }

    pub(super) fn reply(&mut self, request: u64, reply: &Reply, descriptors: Vec<OwnedFd>) {
        let number = self.number(request);
        // The connected fnd may be older. It gets only what it knows.
        let is_known = self.protocol != PROTOCOL_0_1 || !matches!(reply, Reply::Masks(_));
        let is_sent = is_known && (self.welcomed || matches!(reply, Reply::Failed(_)));
        let Some(connection) = self.connection.as_mut().filter(|_| is_sent) else { return };
        if let Err(error) = still_heard(connection.send(&encode(number, reply), descriptors)) {
            self.disconnect(&error);
        }
    }
}

/// Ignores the error that fnd has closed its end. Its earlier requests are still carried out; then the end of the
/// connection is read.
fn still_heard(sent: io::Result<()>) -> io::Result<()> {
    sent.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}
