//! A judge for the spawner's tests: answers in the wire form, with plans made of `KEY=VALUE` lines in the sidecar.
#![expect(clippy::unwrap_used, reason = "a test program: it may die, and dying is one of the things tested")]

use fnd_spawner::protocol::Channel;
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::ids::FunctionName;
use fnd_wire::plan::{
    ALWAYS, BUILD, CodeLayout, Credentials, FunctionJudgment, FunctionVerdict, JudgeFunction, JudgeReply, JudgeRequest,
    JudgedFile, Limits, Mapped, Plan, PlanText, PlannedBuild, Policy, RunMode, STOP_SIGNAL, SettingsJudgment,
    SettingsVerdict, User,
};
use fnd_wire::sandbox::{Network, Profile, Sandbox};
use fnd_wire::unpack::{UnpackRecord, Unpacked};
use rustix::event::{PollFd, PollFlags};
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};

fn main() {
    if std::env::args().any(|argument| argument.starts_with("--unpack=")) {
        return unpack();
    }
    #[expect(unsafe_code, reason = "descriptor 0 is the socket")]
    // SAFETY: the spawner passes it as standard input, and nothing else here uses that.
    let mut channel = Channel::new(unsafe { OwnedFd::from_raw_fd(0) });
    let mut configured = 0;
    while let Ok(Some(frame)) = channel.receive() {
        let request = JudgeRequest::from_wire(&frame.bytes).unwrap();
        let is_stored = matches!(request, JudgeRequest::Stored(_));
        let reply = match request {
            JudgeRequest::Settings(settings) => {
                // The first file is the test's, others are the harness's.
                configured = settings.files.first().map_or(0, |file| file.bytes.0.len());
                let text: Vec<_> = settings.files.iter().map(|file| String::from_utf8_lossy(&file.bytes.0)).collect();
                let text = text.join("\n");
                let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
                let range = value("range=").and_then(|range| range.split_once(' ')).unwrap_or(("70000", "99999"));
                let allowed = value("allow=").into_iter().flat_map(|names| names.split(','));
                let allowed = text.contains("allow_nobody").then_some("daemon").into_iter().chain(allowed);
                let policy = Policy {
                    uid_range: (range.0.parse().unwrap(), range.1.parse().unwrap()),
                    allow_users: allowed.map(str::to_owned).collect(),
                    allow_root: text.contains("allow_root"),
                    best_effort_limits: false,
                    memory: value("memory=").map(|number| number.parse().unwrap()),
                    reserve_memory: 256 << 20,
                };
                let verdict = SettingsVerdict { policy: Some(policy), document: Bytes(b"{}".to_vec()) };
                let tls = value("tls=").and_then(|paths| paths.split_once(' '));
                let tls = tls.map(|(certificate, key)| (certificate.to_owned(), key.to_owned()));
                let (secrets, profile) = (Vec::new(), Profile::Off);
                JudgeReply::Settings(SettingsJudgment { verdict, tls, secrets, profile, age_key: None })
            }
            JudgeRequest::Function(function) | JudgeRequest::Check(function) | JudgeRequest::Stored(function) => {
                let manifest =
                    function.manifest.as_ref().map(|file| String::from_utf8_lossy(&file.bytes.0).into_owned());
                let manifest = manifest.unwrap_or_default();
                let (mut verdict, secrets) = judge(&function, configured);
                if is_stored && manifest.lines().any(|line| line == "says_stored") {
                    verdict.document = Bytes(b"stored".to_vec());
                }
                let sandbox = verdict.plan.as_ref().map(|_| sandbox_of(&manifest));
                let (credentials, build) = (credentials_of(&manifest), build_of(&manifest, configured));
                JudgeReply::Function(Box::new(FunctionJudgment { verdict, secrets, sandbox, credentials, build }))
            }
        };
        channel.send(&reply.to_wire(), Vec::new()).unwrap();
    }
}

/// Says what the archive contains: its bytes are the records. `endless` and `silent` are words for a child
/// that does not end by itself.
fn unpack() {
    let (mut records, mut output) = (Vec::new(), std::io::stdout());
    std::io::stdin().read_to_end(&mut records).unwrap();
    if records.starts_with(b"silent") {
        // Until nobody listens any more.
        let mut gone = [PollFd::new(&output, PollFlags::empty())];
        rustix::event::poll(&mut gone, None).unwrap();
        return;
    }
    if records.starts_with(b"endless") {
        let length = 1 << 40;
        let file = Unpacked { path: "a".to_owned(), executable: false, length };
        output.write_all(&UnpackRecord::File(file).framed()).unwrap();
        loop {
            output.write_all(&UnpackRecord::Data(Bytes(vec![0; 1000])).framed()).unwrap();
        }
    }
    let _ = output.write_all(&records); // the spawner may have read enough
    output.flush().unwrap();
}

/// The sandbox that a manifest's lines `profile=`, `syscalls=`, `network=`, `read_only=`, `read_write=`, `hide=`, `tmp=` and `asked_layers=` ask
/// for; without them, none.
fn sandbox_of(manifest: &str) -> Sandbox {
    let value = |key: &str| manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let list =
        |key: &str| value(key).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default();
    let profile = |key: &str| match value(key) {
        Some("strict") => Profile::Strict,
        Some("standard") => Profile::Standard,
        _ => Profile::Off,
    };
    Sandbox {
        profile: profile("profile"),
        network: match value("network") {
            Some("none") => Network::None,
            Some("loopback") => Network::Loopback,
            Some(ports) => Network::Connect(ports.split(',').map(|port| port.parse().unwrap()).collect()),
            None => Network::Host,
        },
        syscalls: profile(if value("syscalls").is_some() { "syscalls" } else { "profile" }),
        proc_full: value("proc").is_some(),
        read_only: list("read_only"),
        read_write: list("read_write"),
        hide: list("hide"),
        devices: list("devices"),
        tmp: value("tmp").map_or(64 << 20, |bytes| bytes.parse().unwrap()),
        asked: list("asked_layers"),
    }
}

/// The secrets and service bindings that a manifest's lines `given=NAME:SECRET,...`, `variables=NAME:SECRET,...` and
/// `bindings=` ask for.
fn credentials_of(manifest: &str) -> Credentials {
    let list = |key: &str| {
        let value = manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default()
    };
    let mapped = |variable: bool| {
        move |text: String| {
            let (name, secret) = text.split_once(':').unwrap();
            Mapped { name: name.to_owned(), secret: secret.to_owned(), variable }
        }
    };
    let secrets = list("given").into_iter().map(mapped(false)).chain(list("variables").into_iter().map(mapped(true)));
    Credentials { secrets: secrets.collect(), bindings: list("bindings") }
}

/// The build that a manifest's line `build=SCRIPT` asks for: a script of bash.
fn build_of(manifest: &str, configured: usize) -> Option<PlannedBuild> {
    let script = manifest.lines().find_map(|line| line.strip_prefix("build="))?;
    let name = "fnd-build.sh";
    let file = JudgedFile { path: name.to_owned(), bytes: Bytes::default(), mode: 0o644, trusted: true };
    let name_of_build = FunctionName::new(BUILD).unwrap();
    let function =
        JudgeFunction { name: name_of_build, files: vec![file], manifest: None, form: CodeLayout::Directory };
    Some(PlannedBuild {
        plan: judge(&function, configured).0.plan?,
        sandbox: sandbox_of(""),
        document: Bytes(b"{}".to_vec()),
        inputs: Vec::new(),
        made: (name.to_owned(), Bytes(script.as_bytes().to_vec())),
        credentials: Credentials::default(),
        fresh_for: None,
    })
}

/// Returns the verdict, and the secrets that routes name.
fn judge(function: &JudgeFunction, configured: usize) -> (FunctionVerdict, Vec<String>) {
    let manifest =
        function.manifest.as_ref().map(|file| String::from_utf8(file.bytes.0.clone()).unwrap()).unwrap_or_default();
    let value = |key: &str| manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let number = |key: &str| value(key).map(|text| text.parse::<u64>().unwrap());
    assert!(value("crash").is_none(), "told to");
    if value("refuse").is_some() {
        let verdict = FunctionVerdict { plan: None, document: Bytes(b"{\"refused\":true}".to_vec()) };
        return (verdict, Vec::new());
    }
    let entry =
        value("entry").map_or_else(|| function.files[0].path.rsplit('/').next().unwrap().to_owned(), str::to_owned);
    let list =
        |key: &str| value(key).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap_or_default();
    let interpreters = if value("exec").is_some() {
        Vec::new()
    } else {
        value("interpreters").map_or_else(|| vec!["/bin/bash".to_owned()], |_| list("interpreters"))
    };
    let exec = interpreters.is_empty();
    let template = |text: &str| PlanText { text: text.to_owned(), template: true };
    let mut argv = if exec { Vec::new() } else { vec![template("{entry}")] };
    if value("shim").is_some() {
        argv.insert(0, template("{shim}"));
    }
    if value("connects").is_some() {
        argv.push(template("{socket}"));
    }
    let plan = Plan {
        function: function.name.clone(),
        mode: value("handler")
            .map_or(RunMode::Script, |_| RunMode::Handler(value("shim").unwrap_or_default().to_owned())),
        runtime: "bash".to_owned(),
        interpreters,
        asked_interpreters: u32::try_from(number("asked").unwrap_or(0)).unwrap(),
        interpreter_help: "install one: `apt install bash`".to_owned(),
        argv,
        environment: [
            ("SHOWN".to_owned(), PlanText { text: function.files.len().to_string(), template: false }),
            ("FROM_PLAN".to_owned(), PlanText { text: "{state}".to_owned(), template: false }),
            ("HTTP_FROM_PLAN".to_owned(), PlanText { text: "own".to_owned(), template: false }),
            ("CODE".to_owned(), template("{code}")),
            ("CONFIGURED".to_owned(), PlanText { text: configured.to_string(), template: false }),
        ]
        .into_iter()
        .chain(ALWAYS.map(|(name, value)| (name.to_owned(), template(value))))
        .chain(value("stop_signal").map(|number| (STOP_SIGNAL.to_owned(), template(number))))
        .collect(),
        entry,
        unix_text: true,
        user: value("user").map_or(User::Own, |user| User::Named(user.to_owned())),
        groups: list("groups"),
        limits: Limits {
            timeout_ms: None,
            grace_ms: number("grace").unwrap_or(500),
            memory: number("memory").unwrap_or(256 << 20),
            memory_high: None,
            swap: 0,
            cpu_milli: number("cpu").map(|milli| u32::try_from(milli).unwrap()),
            cpu_weight: 100,
            pids: u32::try_from(number("pids").unwrap_or(64)).unwrap(),
            open_files: 1024,
            file_size: number("file_size"),
            io_weight: 100,
            io_read: None,
            io_write: None,
            result: 6 << 20,
            asked: list("asked_limits"),
        },
    };
    let document = Bytes(vec![b'x'; usize::try_from(number("document").unwrap_or(2)).unwrap()]);
    (FunctionVerdict { plan: Some(plan), document }, list("secrets"))
}
