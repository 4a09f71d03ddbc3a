//! The messages of fnd 0.1.0 (protocol 3), byte by byte: after an upgrade one of fnd and its spawner is still the released one.
//!
//! The bytes are those that the released crate made of the same values. They never change.

#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

use fnd_wire::form::{Bytes, Wire};
use fnd_wire::frame::{
    AdoptionRecord, Containment, ExitStatus, Exited, Hello, Install, Installed, MemoryGroups, Problem, Prune, Refused,
    Release, Reply, Request, RetainedWorker, SettingsRead, Spawn, SpawnFailed, Spawned, StoredExit, Sweep, Swept,
    TermCause, Welcome, decode, encode,
};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use fnd_wire::plan::{
    CodeLayout, Credentials, FunctionJudgment, FunctionVerdict, JudgeFunction, JudgeReply, JudgeRequest, JudgeSettings,
    JudgedFile, Limits, Plan, PlanText, PlannedBuild, Policy, RunMode, SettingsJudgment, SettingsVerdict, User,
};
use fnd_wire::sandbox::{Network, Profile, Sandbox};

/// The number of the request in each frame.
const NUMBER: u32 = 7;

fn name() -> FunctionName {
    FunctionName::new("ops/a").unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes(text.as_bytes().to_vec())
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn requests() -> Vec<Request> {
    let install = Install {
        directory: 1,
        function: name(),
        source: "ops/a.sh".to_owned(),
        sidecar: Some("ops/a.toml".to_owned()),
        directory_form: false,
    };
    let spawn = Spawn {
        worker: WorkerId(9),
        function: FunctionId(3),
        version: Version([0xab; 32]),
        invocation: InvocationId(5),
        environment: vec![("FND_ATTEMPT".to_owned(), bytes("1"))],
        input: true,
        previous: false,
        lasts_ms: 1500,
        record: bytes("record"),
    };
    let release = Release {
        function: FunctionId(3),
        invocation: InvocationId(5),
    };
    let prune = Prune {
        function: name(),
        keep: vec![Version([1; 32])],
    };
    let record = AdoptionRecord {
        worker: WorkerId(9),
        record: bytes("new"),
    };
    let sweep = Sweep {
        functions: vec![name()],
        invocations: vec![InvocationId(5)],
    };
    vec![
        Request::Hello(Hello { min: 1, max: 3 }),
        Request::Reload,
        Request::Install(install),
        Request::Remove(name()),
        Request::Spawn(spawn),
        Request::Term(WorkerId(9)),
        Request::Kill(WorkerId(9)),
        Request::Release(release),
        Request::Acknowledge(WorkerId(9)),
        Request::Prune(prune),
        Request::AdoptionRecord(record),
        Request::Sweep(sweep),
        Request::Ping,
    ]
}

fn spawned() -> Spawned {
    Spawned {
        worker: WorkerId(9),
        pid: 42,
        stdout: true,
        stderr: true,
        result: true,
        kill: false,
    }
}

fn held() -> RetainedWorker {
    RetainedWorker {
        spawned: spawned(),
        age_ms: 60_000,
        termed: Some((5, TermCause::TimeUp)),
        record: bytes("record"),
    }
}

fn exited() -> Exited {
    Exited {
        worker: WorkerId(9),
        late: Some((1, 2)),
        status: ExitStatus::Signal(9),
        cpu_us: 3,
        memory_peak: Some(4096),
        peak_of_largest: true,
        oom_kills: 1,
        oom_shared: false,
        pids_refused: 2,
        throttled_us: 4,
        stragglers: true,
    }
}

fn problem() -> Problem {
    Problem {
        file: "/etc/fnd/functions/ops/a.sh".to_owned(),
        message: "it is empty".to_owned(),
        help: "write it".to_owned(),
    }
}

fn replies() -> Vec<Reply> {
    let welcome = Welcome {
        protocol: 3,
        version: "0.1.0".to_owned(),
        containment: Containment::Cgroup,
        layout: "v2".to_owned(),
        missing: vec![("io_read".to_owned(), "no controller".to_owned())],
        next_worker: WorkerId(10),
        functions_dirs: texts(&["/etc/fnd/functions"]),
        memory: MemoryGroups::V2("/sys/fs/cgroup/f".to_owned()),
    };
    let settings = SettingsRead {
        document: bytes("{}"),
        problems: vec![problem()],
        applied: true,
    };
    let installed = Installed {
        function: name(),
        id: FunctionId(3),
        version: Version([0xab; 32]),
        load_key: Version([2; 32]),
        interpreter: "/bin/bash".to_owned(),
        uid: 70_000,
        warnings: vec![problem()],
        document: bytes("{}"),
    };
    let refused = Refused {
        function: name(),
        problems: vec![problem()],
        document: Some(bytes("{}")),
    };
    let failed = SpawnFailed {
        worker: WorkerId(9),
        message: "failed to clone".to_owned(),
    };
    let swept = Swept {
        count: 1,
        names: texts(&["gone"]),
    };
    vec![
        Reply::Welcome(welcome),
        Reply::Settings(settings),
        Reply::Installed(installed),
        Reply::Refused(refused),
        Reply::Spawned(spawned()),
        Reply::SpawnFailed(failed.clone()),
        Reply::Exited(exited()),
        Reply::Held(held()),
        Reply::SpawnedWithChannel(spawned()),
        Reply::HeldWithChannel(held()),
        Reply::NodeCannotStart(failed),
        Reply::Done,
        Reply::Failed("no".to_owned()),
        Reply::Swept(swept),
        Reply::Sockets("/run/fnd-spawner/http".to_owned()),
    ]
}

fn stored() -> StoredExit {
    StoredExit {
        held: held(),
        exited: exited(),
        at_ms: 6,
        rest: vec![bytes("out"), bytes("err")],
    }
}

fn file(path: &str) -> JudgedFile {
    JudgedFile {
        path: path.to_owned(),
        bytes: bytes("text"),
        mode: 0o644,
        trusted: true,
    }
}

fn questions() -> Vec<JudgeRequest> {
    let settings = JudgeSettings {
        files: vec![file("/etc/fnd/fnd.toml")],
        runtimes: vec![file("bash/runtime.toml")],
    };
    let function = |form| JudgeFunction {
        name: name(),
        files: vec![file("/etc/fnd/functions/ops/a.sh")],
        manifest: Some(file("/etc/fnd/functions/ops/a.toml")),
        form,
    };
    vec![
        JudgeRequest::Settings(settings),
        JudgeRequest::Function(function(CodeLayout::File)),
        JudgeRequest::Function(function(CodeLayout::Directory)),
    ]
}

fn plan() -> Plan {
    let text = |text: &str, template| PlanText {
        text: text.to_owned(),
        template,
    };
    let limits = Limits {
        timeout_ms: Some(1000),
        grace_ms: 5,
        memory: 1 << 28,
        memory_high: None,
        swap: 0,
        cpu_milli: Some(250),
        cpu_weight: 100,
        pids: 64,
        open_files: 1024,
        file_size: Some(1 << 20),
        io_weight: 100,
        io_read: None,
        io_write: Some(9),
        result: 1 << 20,
        asked: texts(&["memory"]),
    };
    Plan {
        function: name(),
        mode: RunMode::Handler("/usr/lib/fnd/shim".to_owned()),
        runtime: "bash".to_owned(),
        interpreters: texts(&["/bin/bash"]),
        asked_interpreters: 1,
        interpreter_help: "install bash".to_owned(),
        argv: vec![text("{entry}", true), text("x", false)],
        environment: vec![("HOME".to_owned(), text("{state}", true))],
        entry: "a.sh".to_owned(),
        unix_text: true,
        user: User::Named("www-data".to_owned()),
        groups: texts(&["adm"]),
        limits,
    }
}

fn verdicts() -> Vec<JudgeReply> {
    let policy = Policy {
        uid_range: (70_000, 79_999),
        allow_users: texts(&["www-data"]),
        allow_root: false,
        best_effort_limits: true,
        memory: None,
        reserve_memory: 1 << 27,
    };
    let settings = SettingsVerdict {
        policy: Some(policy),
        document: bytes("{}"),
    };
    let function = FunctionVerdict {
        plan: Some(plan()),
        document: bytes("{}"),
    };
    vec![
        JudgeReply::OldSettings(settings),
        JudgeReply::OldFunction(Box::new(function)),
    ]
}

/// Returns bytes as text, two digits each.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Compares what the values of `all` are encoded as with the released bytes, and these with what they are decoded to.
fn compare<T: Wire + PartialEq + std::fmt::Debug>(all: Vec<T>, released: &str) {
    let lines: Vec<&str> = released.lines().collect();
    assert_eq!(all.len(), lines.len());
    for (value, line) in all.into_iter().zip(lines) {
        assert_eq!(hex(&encode(NUMBER, &value)), line, "{value:?}");
        assert_eq!(decode::<T>(&from_hex(line)), Ok((NUMBER, value)));
    }
}

#[test]
fn requests_have_the_released_form() {
    compare(requests(), include_str!("released/requests.txt"));
}

#[test]
fn replies_have_the_released_form() {
    compare(replies(), include_str!("released/replies.txt"));
}

#[test]
fn exits_on_disk_have_the_released_form() {
    compare(vec![stored()], include_str!("released/exits.txt"));
}

#[test]
fn questions_to_the_judge_have_the_released_form() {
    compare(questions(), include_str!("released/questions.txt"));
}

#[test]
fn verdicts_of_the_judge_have_the_released_form() {
    compare(verdicts(), include_str!("released/verdicts.txt"));
}

/// After an upgrade the released spawner may start the judge of this fnd.
#[test]
fn the_released_spawner_gets_no_more_than_the_verdict() {
    let all: [JudgeReply; 2] = verdicts().try_into().unwrap();
    let [JudgeReply::OldSettings(settings), JudgeReply::OldFunction(function)] = all else {
        panic!("other verdicts");
    };
    let judgment = SettingsJudgment {
        verdict: settings,
        tls: Some(("/c.pem".to_owned(), "/k.pem".to_owned())),
        secrets: texts(&["token"]),
        profile: Profile::Strict,
        age_key: Some("/age.key".to_owned()),
    };
    let judged = |build| FunctionJudgment {
        verdict: (*function).clone(),
        secrets: texts(&["token"]),
        sandbox: None,
        credentials: Credentials::default(),
        build,
    };
    let replies = vec![
        JudgeReply::Settings(judgment).for_0_1(),
        JudgeReply::Function(Box::new(judged(None))).for_0_1(),
    ];
    compare(replies, include_str!("released/verdicts.txt"));
    let sandbox = Sandbox {
        profile: Profile::Strict,
        network: Network::Host,
        syscalls: Profile::Off,
        proc_full: false,
        read_only: Vec::new(),
        read_write: Vec::new(),
        hide: Vec::new(),
        devices: Vec::new(),
        tmp: 1 << 20,
        asked: Vec::new(),
    };
    let build = PlannedBuild {
        plan: plan(),
        sandbox,
        document: bytes("{}"),
        inputs: Vec::new(),
        made: (String::new(), Bytes::default()),
        credentials: Credentials::default(),
        fresh_for: None,
    };
    // It would start the function without its dependencies.
    let reply = JudgeReply::Function(Box::new(judged(Some(build)))).for_0_1();
    assert!(matches!(reply, JudgeReply::OldFunction(verdict) if verdict.plan.is_none()));
}

#[test]
fn stored_plans_have_the_released_form() {
    compare(vec![plan()], include_str!("released/plans.txt"));
}
