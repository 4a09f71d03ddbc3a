//! A spawner that a test plays. It sends real frames over a real socket, and judges with the real judge. It keeps in memory
//! what the real spawner has on the disk. It answers installations, and lets workers go on, only when the test wants that.

use crate::simulate::{Fate, SourceContent, exited, judged_file, runtimes};
use fnd_core::records::protocol::worker_side::{self, FndDecoder, FndMessage};
use fnd_core::records::protocol::{FailureKind, InvokeHead, ProtocolFailure, ResultHead, head_and_parts};
use fnd_manifest::judge::Judge;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{
    Containment, ExitStatus, Install, Installed, InstalledWithTree, MemoryGroups, NeedsBuild, PACKET_MAX, PROTOCOL_MAX,
    Partial, Problem, Refused, Reply, Request, STORED, SettingsRead, Spawn, Spawned, Swept, Welcome, decode, encode,
    packets,
};
use fnd_wire::ids::{FunctionId, FunctionName, Version, WorkerId};
use fnd_wire::plan::{
    BUILD, CHECK, CodeLayout, FunctionJudgment, JudgeFunction, JudgeReply, JudgeRequest, JudgeSettings,
};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv,
    send, sendmsg, socketpair,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Why a file or a stored version is refused that is gone.
pub(crate) const NOT_THERE: &str = "it is not there";

/// The content of a function's files. The number determines its code, its manifest and its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Content(pub(crate) u8);

impl Content {
    /// A handler with a variable.
    pub(crate) const WITH_ENV: Self = Self(17);
    /// A handler with one worker.
    pub(crate) const SINGLE: Self = Self(33);
    /// A handler that subscribes to the events `order`.
    pub(crate) const WITH_EVENT: Self = Self(25);

    pub(crate) fn fate(self) -> Fate {
        SourceContent(self.0).fate()
    }

    /// Returns the content of a version that [`Content::version`] has made.
    pub(crate) fn of(version: Version) -> Self {
        Self(version.0[0])
    }

    /// Returns whether the content can serve, whichever content serves before.
    pub(crate) fn is_good(self) -> bool {
        SourceContent(self.0).is_good()
    }

    fn version(self) -> Version {
        let mut bytes = [7; 32];
        bytes[0] = self.0;
        Version(bytes)
    }

    /// Returns the tree of the content's dependencies.
    fn tree(self) -> Version {
        let mut bytes = [8; 32];
        bytes[0] = self.0;
        Version(bytes)
    }

    fn manifest(self) -> Option<&'static str> {
        match self.fate() {
            _ if self == Self::WITH_ENV => Some("[env]\nPASSWORD = \"hunter2\"\n"),
            _ if self == Self::SINGLE => Some("[pool]\nmax = 1\n"),
            _ if self == Self::WITH_EVENT => Some("[[event]]\ntype = \"order\"\n"),
            Fate::Refused => Some("no_such_key = 1\n"),
            Fate::Canary => Some("[release]\ncanary = \"50%\"\n"),
            _ => None,
        }
    }
}

/// A request to install that waits for its answer.
#[derive(Debug)]
pub(crate) struct AskedInstall {
    number: u32,
    pub(crate) install: Install,
    is_check: bool,
}

/// A worker that runs.
#[derive(Debug)]
pub(crate) struct FakeWorker {
    pub(crate) function: FunctionName,
    pub(crate) version: Version,
    pub(crate) is_ready: bool,
    /// The worker's end of the connection for the worker protocol; absent if the worker is no handler.
    channel: Option<OwnedFd>,
    decoder: FndDecoder,
    /// The bytes that the socket does not take yet.
    unsent: Vec<u8>,
    /// The writing ends of its output.
    output: Vec<OwnedFd>,
    result: OwnedFd,
}

pub(crate) struct Spawner {
    socket: OwnedFd,
    partial: Partial,
    judge: Judge,
    /// The functions directory.
    pub(crate) files: BTreeMap<FunctionName, Content>,
    /// The installed versions.
    pub(crate) stored: BTreeSet<(FunctionName, Version)>,
    trees: BTreeSet<Version>,
    names: Vec<FunctionName>,
    pub(crate) asked: Vec<AskedInstall>,
    pub(crate) workers: BTreeMap<WorkerId, FakeWorker>,
    /// The number of the newest worker.
    pub(crate) last_worker: u64,
}

impl FakeWorker {
    /// Reads messages, and sends answers. Returns whether there was something to do, and whether fnd asks the worker to stop.
    fn hear(&mut self) -> (bool, bool) {
        let channel = self.channel.as_ref().expect("a handler");
        let mut bytes = [0; 16 << 10];
        let mut is_busy = false;
        while let Ok((_, count @ 1..)) = recv(channel, &mut bytes[..], RecvFlags::DONTWAIT) {
            self.decoder.push(&bytes[..count]);
            is_busy = true;
        }
        while let Some(message) = self.decoder.take().expect("fnd keeps to the protocol") {
            match message {
                FndMessage::Stop => return (true, true),
                FndMessage::Invoke { call, content } => self.unsent.extend(answer(&self.function, call, &content)),
            }
        }
        if let Ok(count) = send(channel, &self.unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            is_busy |= count > 0;
            drop(self.unsent.drain(..count));
        }
        (is_busy, false)
    }

    /// Returns whether the worker speaks the worker protocol.
    pub(crate) fn is_handler(&self) -> bool {
        self.channel.is_some()
    }
}

impl Spawner {
    /// Returns the spawner, and fnd's end of its connection.
    pub(crate) fn new() -> (Self, OwnedFd) {
        let (ours, socket) = pair(SocketType::SEQPACKET);
        let spawner = Self {
            socket,
            partial: Partial::default(),
            judge: Judge::new(),
            files: BTreeMap::new(),
            stored: BTreeSet::new(),
            trees: BTreeSet::new(),
            names: Vec::new(),
            asked: Vec::new(),
            workers: BTreeMap::new(),
            last_worker: 0,
        };
        (spawner, ours)
    }

    /// Connects to the next fnd, and returns fnd's end of the connection. The workers of the fnd before are gone.
    pub(crate) fn connect(&mut self) -> OwnedFd {
        let (ours, socket) = pair(SocketType::SEQPACKET);
        (self.socket, self.partial) = (socket, Partial::default());
        self.asked.clear();
        self.workers.clear();
        ours
    }

    pub(crate) fn welcome(next_worker: WorkerId) -> Welcome {
        Welcome {
            protocol: PROTOCOL_MAX,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            containment: Containment::Cgroup,
            layout: "v2".to_owned(),
            missing: Vec::new(),
            next_worker,
            functions_dirs: vec!["/functions".to_owned()],
            memory: MemoryGroups::None,
        }
    }

    /// Judges a configuration.
    pub(crate) fn settings(&mut self) -> SettingsRead {
        let text = "[build]\nenv = { TOKEN = \"hunter3\" }\n";
        let settings = JudgeRequest::Settings(JudgeSettings {
            files: vec![judged_file("/etc/fnd/fnd.toml".to_owned(), text)],
            runtimes: runtimes(),
        });
        let JudgeReply::Settings(read) = self.judge.answer(&settings) else {
            panic!("another answer");
        };
        SettingsRead {
            document: read.verdict.document,
            problems: Vec::new(),
            applied: true,
        }
    }

    /// Handles the requests that have come. Returns whether there were some.
    pub(crate) fn take_requests(&mut self) -> bool {
        let mut packet = vec![0; PACKET_MAX];
        let mut has_some = false;
        loop {
            match recv(&self.socket, &mut packet[..], RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return has_some,
                received => {
                    let (_, bytes) = received.expect("the connection is open");
                    has_some = true;
                    if let Some(frame) = self.partial.add(&packet[..bytes]).expect("a packet") {
                        let (number, request) = decode(&frame).expect("a request");
                        self.request(number, request);
                    }
                }
            }
        }
    }

    fn request(&mut self, number: u32, request: Request) {
        match request {
            Request::Install(install) | Request::Fetch(install) | Request::Rebuild(install) => {
                let is_check = false;
                self.asked.push(AskedInstall {
                    number,
                    install,
                    is_check,
                });
            }
            Request::Check(install) => {
                let is_check = true;
                self.asked.push(AskedInstall {
                    number,
                    install,
                    is_check,
                });
            }
            Request::Spawn(spawn) => self.spawn(number, &spawn),
            Request::Term(worker) | Request::Kill(worker) => {
                self.reply(number, &Reply::Done, &[]);
                self.end(worker, ExitStatus::Signal(9));
            }
            Request::Prune(prune) => {
                self.stored
                    .retain(|(name, version)| *name != prune.function || prune.keep.contains(version));
                self.reply(number, &Reply::Done, &[]);
            }
            Request::Seal(seal) => {
                self.trees.extend(seal.tree);
                self.reply(number, &Reply::Sealed(None), &[]);
            }
            Request::Sweep(_) => self.reply(
                number,
                &Reply::Swept(Swept {
                    names: Vec::new(),
                    count: 0,
                }),
                &[],
            ),
            Request::Acknowledge(_) => {}
            _ => self.reply(number, &Reply::Done, &[]),
        }
    }

    /// Answers one of the installations that wait.
    pub(crate) fn install(&mut self, index: usize) {
        let AskedInstall {
            number,
            install,
            is_check,
        } = self.asked.remove(index);
        let function = install.function.clone();
        let content = if install.directory == STORED {
            let version = Version::parse(&install.source).expect("a version");
            let is_stored = self.stored.contains(&(function.clone(), version));
            is_stored.then(|| Content::of(version))
        } else {
            self.files.get(&function).copied()
        };
        let reply = match content {
            Some(content) => self.judged(&function, content, is_check),
            None => Reply::Refused(Refused {
                function: function.clone(),
                problems: vec![Problem {
                    file: format!("/functions/{}", install.source),
                    message: NOT_THERE.to_owned(),
                    help: String::new(),
                }],
                document: None,
            }),
        };
        self.reply(number, &reply, &[]);
    }

    fn judged(&mut self, function: &FunctionName, content: Content, is_check: bool) -> Reply {
        let asked = JudgeFunction {
            name: function.clone(),
            files: vec![judged_file(
                format!("/functions/{}.py", function.as_str()),
                &SourceContent(content.0).code(),
            )],
            manifest: content
                .manifest()
                .map(|text| judged_file(format!("/functions/{}.toml", function.as_str()), text)),
            form: CodeLayout::File,
        };
        let request = if is_check {
            JudgeRequest::Check(asked)
        } else {
            JudgeRequest::Function(asked)
        };
        let JudgeReply::Function(judgment) = self.judge.answer(&request) else {
            panic!("another answer");
        };
        let FunctionJudgment { verdict, build, .. } = *judgment;
        let document = verdict.document;
        let function = function.clone();
        if verdict.plan.is_none() {
            return Reply::Refused(Refused {
                function,
                problems: Vec::new(),
                document: Some(document),
            });
        }
        let version = content.version();
        let tree = content.tree();
        if let Some(build) = build.filter(|_| is_check || !self.trees.contains(&tree)) {
            let own = FunctionName::new(if is_check { CHECK } else { BUILD }).unwrap();
            let key = if is_check { version } else { tree };
            self.stored.insert((own.clone(), key));
            let build = self.installed(own, (key, key), build.document);
            return Reply::NeedsBuild(NeedsBuild {
                function,
                document,
                build,
            });
        }
        self.stored.insert((function.clone(), version));
        let installed = self.installed(function, (version, content.version()), document);
        match content.fate() {
            Fate::Built | Fate::NotBuilt => Reply::InstalledWithTree(InstalledWithTree { installed, tree }),
            _ => Reply::Installed(installed),
        }
    }

    fn installed(
        &mut self,
        function: FunctionName,
        (version, load_key): (Version, Version),
        document: Bytes,
    ) -> Installed {
        Installed {
            id: self.id(&function),
            function,
            version,
            load_key,
            interpreter: "/usr/bin/python3".to_owned(),
            uid: 60000,
            warnings: Vec::new(),
            document,
        }
    }

    fn id(&mut self, function: &FunctionName) -> FunctionId {
        let known = self.names.iter().position(|name| name == function);
        let index = known.unwrap_or_else(|| {
            self.names.push(function.clone());
            self.names.len() - 1
        });
        FunctionId(u32::try_from(index).unwrap())
    }

    fn spawn(&mut self, number: u32, spawn: &Spawn) {
        let function = self.names[usize::try_from(spawn.function.0).unwrap()].clone();
        let is_handler = !matches!(function.as_str(), BUILD | CHECK)
            && !matches!(Content::of(spawn.version).fate(), Fate::Script | Fate::Wrong);
        let result = rustix::fs::memfd_create(c"result", MemfdFlags::CLOEXEC).unwrap();
        let (out, theirs_out) = rustix::pipe::pipe().unwrap();
        let (err, theirs_err) = rustix::pipe::pipe().unwrap();
        let spawned = Spawned {
            worker: spawn.worker,
            pid: 1,
            stdout: true,
            stderr: true,
            result: true,
            kill: false,
        };
        let mut passed = vec![out, err, result.try_clone().unwrap()];
        let (reply, channel) = if is_handler {
            let (ours, theirs) = pair(SocketType::STREAM);
            passed.push(ours);
            (Reply::SpawnedWithChannel(spawned), Some(theirs))
        } else {
            (Reply::Spawned(spawned), None)
        };
        self.reply(number, &reply, &passed);
        let worker = FakeWorker {
            function,
            version: spawn.version,
            is_ready: channel.is_none(),
            channel,
            decoder: FndDecoder::default(),
            unsent: Vec::new(),
            output: vec![theirs_out, theirs_err],
            result,
        };
        self.workers.insert(spawn.worker, worker);
        self.last_worker = spawn.worker.0;
    }

    /// Returns the workers that load or run, oldest first.
    pub(crate) fn unfinished(&self) -> Vec<WorkerId> {
        let unfinished = self
            .workers
            .iter()
            .filter(|(_, worker)| !(worker.is_handler() && worker.is_ready));
        unfinished.map(|(id, _)| *id).collect()
    }

    /// Lets a worker go on as its content says: a handler that can be loaded becomes ready, every other worker ends.
    pub(crate) fn go_on(&mut self, worker: WorkerId) {
        let running = &self.workers[&worker];
        if running.is_handler() && Content::of(running.version).fate() != Fate::NotLoaded {
            self.ready(worker);
        } else {
            self.finish(worker);
        }
    }

    /// Lets the worker of a handler report that it is ready.
    pub(crate) fn ready(&mut self, worker: WorkerId) {
        let worker = self.workers.get_mut(&worker).expect("it runs");
        let channel = worker.channel.as_ref().expect("a handler");
        rustix::io::write(channel, &worker_side::ready(1)).unwrap();
        worker.is_ready = true;
    }

    /// Ends a worker, with the exit status that its content says.
    pub(crate) fn finish(&mut self, worker: WorkerId) {
        let running = &self.workers[&worker];
        let fate = Content::of(running.version).fate();
        let code = match running.function.as_str() {
            CHECK => {
                // Each content has a check of its own, so the result is the same for all functions that wait for this one.
                let mut result = std::fs::File::from(running.result.try_clone().unwrap());
                let code = u8::from(fate == Fate::Wrong);
                for name in &self.names {
                    writeln!(result, "{} {code}", name.file_form()).unwrap();
                }
                0
            }
            BUILD => u8::from(fate == Fate::NotBuilt),
            _ => u8::from(fate == Fate::NotLoaded),
        };
        self.end(worker, ExitStatus::Code(code));
    }

    fn end(&mut self, worker: WorkerId, status: ExitStatus) {
        // The output of a worker ends before its exit is reported.
        if let Some(FakeWorker { channel, output, .. }) = self.workers.remove(&worker) {
            drop((channel, output));
            self.reply(0, &Reply::Exited(exited(worker, status)), &[]);
        }
    }

    /// Lets the handlers read their messages: they answer calls, and end when fnd asks them to stop. Returns whether there was
    /// something to do.
    pub(crate) fn hear_workers(&mut self) -> bool {
        let (mut is_busy, mut stopped) = (false, Vec::new());
        for (id, worker) in &mut self.workers {
            if worker.is_ready && worker.is_handler() {
                let (heard, is_stopped) = worker.hear();
                is_busy |= heard;
                stopped.extend(is_stopped.then_some(*id));
            }
        }
        stopped.iter().for_each(|worker| self.end(*worker, ExitStatus::Code(0)));
        is_busy
    }

    fn reply(&self, number: u32, reply: &Reply, descriptors: &[OwnedFd]) {
        let all = packets(&encode(number, reply));
        let (last, first) = all.split_last().expect("a frame is never empty");
        for packet in first {
            send(&self.socket, packet, SendFlags::empty()).unwrap();
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        if !borrowed.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
        }
        sendmsg(&self.socket, &[IoSlice::new(last)], &mut control, SendFlags::empty()).unwrap();
    }
}

/// Returns the frames of an answer to a call. The name of the function says what it does: `stuck` does not answer, `fails` fails,
/// `mirror` answers with what it got, `chooses` with a status that its payload names, and every other one with its payload.
fn answer(function: &FunctionName, call: u64, content: &[u8]) -> Vec<u8> {
    let (head, payload) = head_and_parts(content).unwrap();
    let result = |head: ResultHead, data: &[u8]| worker_side::result(call, &head, data.to_vec().into());
    let of_type = |media: &str, data: &[u8]| ResultHead {
        content_type: Some(media.to_owned()),
        data: Some(data.len() as u64),
        ..ResultHead::default()
    };
    match function.as_str() {
        "stuck" => Vec::new(),
        "fails" => {
            let failure = ProtocolFailure {
                kind: FailureKind::Failed,
                message: "no such host".to_owned(),
                printed: false,
                stack: None,
                data: None,
            };
            worker_side::failure(call, &failure)
        }
        "chooses" => {
            let status = str::from_utf8(payload).unwrap().parse::<u16>();
            let headers = [
                ("x-name", "value"),
                ("connection", "close"),
                ("fnd-invocation", "forged"),
            ];
            let head = ResultHead {
                // fnd replaces a worker that states 0.
                status: Some(status.unwrap_or(0)),
                headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                ..of_type("text/html", b"<p>none")
            };
            result(head, b"<p>none")
        }
        "mirror" => result(of_type("application/json", head), head),
        _ if payload.is_empty() => result(ResultHead::default(), b""),
        _ => {
            let head: InvokeHead<'_> = serde_json::from_slice(head).unwrap();
            let media = head.content_type.unwrap_or("application/json".into());
            result(of_type(&media, payload), payload)
        }
    }
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}
