//! Its functions: a name says how each ends.

use super::{BEGAN, FAILED, Fake, diagnostic, id, later, name};
use fnd_core::api::{
    CanaryView, CheckView, EventsRoute, FunctionChange, FunctionDetail, FunctionStatus, FunctionUsage, HoldView,
    LastEnd, ReleaseChanged, ReleaseFile, ReleaseFiles, ReleaseList, ReleaseView, RouteList, RouteTest,
    RouteTestReport, RouteView, ScheduleList, ScheduleState, ScheduleView, StorageUse, UsageList,
};
use fnd_core::lifecycle::release::{HoldKind, NoRelease, NotHeld, ReleaseState};
use fnd_core::records::outcome::{Reason, Trigger};
use fnd_core::supervisor::{Answer, FunctionState};
use fnd_daemon::backend::{
    Answering, Failure, FunctionBackend, FunctionChanges, FunctionFilter, NotStored, PageBounds, Pending, ReleaseChange,
};
use fnd_manifest::function::Mode;
use fnd_wire::ids::{FunctionName, Version};
use std::time::Duration;
use tokio::sync::mpsc;

const NAMES: [&str; 16] = [
    "bad-answer",
    "binary",
    "cancelled",
    "disabled",
    "fails",
    "full",
    "hello",
    "invalid",
    "oom",
    "ops/backup",
    "slow",
    "stopping",
    "stuck",
    "teapot",
    "text",
    "void",
];

fn route() -> RouteView {
    RouteView {
        methods: vec!["POST".to_owned()],
        host: Some("api.example.com".to_owned()),
        path: "/hooks/{name}".to_owned(),
        function: name("hello"),
        auth: vec!["github:hook".to_owned()],
        r#async: false,
        calls: 7,
        p50_ms: Some(1.5),
        p99_ms: Some(30.0),
        last_status: Some(200),
    }
}

fn status(function: &str) -> FunctionStatus {
    let ran = function == "fails";
    FunctionStatus {
        status: if ran { LastEnd::Failed } else { LastEnd::Pending },
        message: if ran { "no such host \u{1b}[31mdb1" } else { "" }.to_owned(),
        timestamp: "2026-11-21T08:00:00.123Z".to_owned(),
        function: name(function),
        version: Some(Version([0xab; 32])),
        state: if function == "invalid" {
            FunctionState::Invalid
        } else {
            FunctionState::Ready
        },
        invocation: ran.then(|| id(FAILED)),
        trigger: ran.then_some(Trigger::Load),
        attempt: ran.then_some(1),
        poll: ran.then_some(0),
        reason: ran.then_some(Reason::Exit(3)),
        exit_code: ran.then_some(3),
        started_at: ran.then(|| fnd_core::instant::text(*BEGAN)),
        duration_ms: ran.then_some(12.3),
        cpu_ms: ran.then_some(8.1),
        memory_peak_bytes: ran.then_some(9_437_184),
        memory_bytes: None,
        dead_letters: 0,
        next_attempt_at: None,
        next_run_at: None,
        result: None,
        runs: u64::from(ran) * 1234,
        failures: u64::from(ran) * 12,
        up_since: None,
        ports: Vec::new(),
        error: (function == "invalid").then(|| "unknown runtime `pyhton`".to_owned()),
        warning: None,
        alert: None,
        runtime: "python 3.11".to_owned(),
        labels: [("team".to_owned(), if ran { "web" } else { "ops" }.to_owned())].into(),
        p50_ms: ran.then_some(12.3),
        p99_ms: ran.then_some(1204.0),
        running: 0,
        queued: 0,
    }
}

impl Fake {
    fn known(&self, function: &FunctionName, done: Answer) -> Answering {
        self.answer(if NAMES.contains(&function.as_str()) {
            done
        } else {
            Answer::NotFound
        })
    }
}

impl FunctionBackend for Fake {
    fn functions(&self, filter: FunctionFilter) -> Pending<Vec<FunctionStatus>> {
        let all = NAMES.into_iter().map(status);
        later(
            all.filter(|status| filter.takes(&status.function, Some(status)))
                .collect(),
        )
    }

    fn usage(&self) -> Pending<Result<UsageList, Failure>> {
        // Each reading is a second after the one before; only one function does something.
        let second = self.readings.get();
        self.readings.set(second + 1);
        let functions = NAMES.into_iter().map(status).map(|status| {
            let busy = status.function.as_str() == "hello";
            let counted = |each: u64| busy.then_some(each * second);
            FunctionUsage {
                state: status.state,
                running: u32::from(busy),
                queued: u32::from(busy) * 2,
                runs: 10 + if busy { 3 * second } else { 0 },
                failures: 0,
                cpu_ms: busy.then(|| f64::from(u32::try_from(second).unwrap()) * 250.0),
                cpu_limit: Some(0.5),
                cpu_periods: counted(10),
                throttled_periods: counted(4),
                throttled_ms: busy.then_some(0.0),
                memory_bytes: busy.then_some(52 << 20),
                memory_limit_bytes: Some(256 << 20),
                pids: busy.then_some(3),
                function: status.function,
            }
        });
        later(Ok(UsageList {
            at: fnd_core::instant::text(*BEGAN + second * 1000),
            functions: functions.collect(),
        }))
    }

    fn function(&self, function: &FunctionName) -> Option<FunctionDetail> {
        NAMES.contains(&function.as_str()).then(|| FunctionDetail {
            status: status(function.as_str()),
            more: fnd_core::api::FunctionMore {
                tree: None,
                packages: Vec::new(),
                mode: "script".to_owned(),
                mode_reason: "no handler found".to_owned(),
                newer: None,
                storage: Some(StorageUse {
                    home_bytes: Some(12 << 20),
                    cache_bytes: Some(0),
                    measured_at: None,
                    problem: None,
                }),
                uploaded: false,
                source: format!("/etc/fnd/functions/{function}.py"),
                manifest: serde_json::json!({"env": {"PASSWORD": "hunter2"}, "limits": {"memory": "256M"}, "written": ["env.PASSWORD"]}),
                interpreter: "/usr/bin/python3.11".to_owned(),
                uid: Some(70_001),
                tree_bytes: None,
                build: None,
                diagnostics: vec![serde_json::to_value(diagnostic()).unwrap()],
            },
        })
    }

    fn bounds(&self, function: &FunctionName) -> Option<PageBounds> {
        let bounds = PageBounds {
            body: 6 << 20,
            timeout: Some(Duration::from_secs(180)),
            mode: Mode::Handler,
            passes: false,
        };
        (NAMES.contains(&function.as_str()) && function.as_str() != "invalid").then_some(bounds)
    }

    fn schedules(&self, function: Option<FunctionName>, next: usize) -> Pending<Result<ScheduleList, Failure>> {
        let view = ScheduleView {
            function: NAMES[0].parse().unwrap(),
            schedule: "0 3 * * *".to_owned(),
            timezone: Some("Europe/Berlin".to_owned()),
            state: ScheduleState::Active,
            next: vec!["2026-11-24T02:00:00.000Z".to_owned(); next],
            last: None,
        };
        let wanted = function.is_none_or(|name| name == view.function);
        later(Ok(ScheduleList {
            schedules: wanted.then_some(view).into_iter().collect(),
        }))
    }

    fn pause_schedules(&self, name: &FunctionName, _paused: bool) -> Pending<Result<Option<bool>, NotStored>> {
        later(Ok(NAMES.contains(&name.as_str()).then(|| name.as_str() == NAMES[0])))
    }

    fn route_list(&self) -> RouteList {
        RouteList {
            listen: vec!["127.0.0.1:8080".to_owned()],
            routes: vec![route()],
            events: Some(EventsRoute {
                path: "/events".to_owned(),
                auth: vec!["token:events-token".to_owned()],
            }),
        }
    }

    fn try_request(&self, test: RouteTest) -> Pending<Result<RouteTestReport, String>> {
        let check = |what: &str, holds, detail: &str| CheckView {
            what: what.to_owned(),
            holds,
            detail: detail.to_owned(),
        };
        later(if test.url.starts_with('/') {
            Ok(RouteTestReport {
                status: Some(401),
                verdict: "`hello` does not run: no credential holds".to_owned(),
                route: Some(route()),
                params: [("name".to_owned(), "Ada\u{1b}[31m".to_owned())].into(),
                credentials: vec![check(
                    "github:hook",
                    false,
                    "the header `X-Hub-Signature-256` is missing",
                )],
                when: vec![check("header.x-github-event", true, "it is `push`")],
                idempotency_key: Some("72d3162e".to_owned()),
            })
        } else {
            Err(format!("`{}` is not a URL", test.url))
        })
    }

    fn releases(&self, name: &FunctionName) -> Result<ReleaseList, NotHeld> {
        if !NAMES.contains(&name.as_str()) {
            return Err(NotHeld::NoFunction);
        }
        let view = |version: u8, state, why: Option<&str>, error: Option<&str>| ReleaseView {
            build: None,
            version: Version([version; 32]),
            state,
            since: fnd_core::instant::text(*BEGAN),
            source: "hello.py".to_owned(),
            why: why.map(str::to_owned),
            error: error.map(str::to_owned),
        };
        Ok(ReleaseList {
            versions: vec![
                view(0xcd, ReleaseState::Failed, None, Some("no module \u{1b}[31mx")),
                view(0xbc, ReleaseState::Waiting, None, None),
                view(0xab, ReleaseState::Serving, None, None),
                view(0x9a, ReleaseState::Retired, Some("replaced by abababababab"), None),
            ],
            hold: Some(HoldView {
                kind: HoldKind::Pin,
                version: Version([0xab; 32]),
                since: fnd_core::instant::text(*BEGAN),
                waiting: Some(Version([0xbc; 32])),
            }),
            canary: Some(CanaryView {
                version: Version([0xbc; 32]),
                percent: 10,
                since: Some(fnd_core::instant::text(*BEGAN)),
                attempts: 41,
                failures: 2,
                max_failures: 5,
                promote_at: None,
            }),
        })
    }

    fn build(&self, name: &FunctionName, clean: bool) -> Option<Pending<Result<(), String>>> {
        let outcome = match name.as_str() {
            "hello" if clean => Err("built anew".to_owned()),
            "hello" => Ok(()),
            "fails" => Err("exit 65".to_owned()),
            _ => return None,
        };
        Some(Box::pin(async move { outcome }))
    }

    fn change_release(&self, name: &FunctionName, change: ReleaseChange) -> Pending<Result<ReleaseChanged, NotHeld>> {
        let state = match change {
            ReleaseChange::Canary(_) => ReleaseState::Canary,
            ReleaseChange::StopCanary => ReleaseState::Waiting,
            _ => ReleaseState::Serving,
        };
        let (kind, release) = match change {
            ReleaseChange::Hold(kind, release) => (Some(kind), release),
            _ => (None, None),
        };
        let version = |text: &str| if text == "9a" { 0x9a } else { 0xab };
        let changed = Ok(ReleaseChanged {
            version: Some(Version([version(release.as_deref().unwrap_or("9a")); 32])),
            state,
        });
        later(match (name.as_str(), release.as_deref()) {
            ("full", _) if kind.is_none() => Err(NotHeld::NothingHeld),
            ("full", None) => Err(NotHeld::Serves("abababababab".to_owned())),
            ("fails", _) => Err(NotHeld::Failed("the new version could not be loaded".to_owned())),
            (_, Some("0")) => Err(NotHeld::NoRelease(NoRelease::Ambiguous {
                name: "0".to_owned(),
                releases: vec!["012345678901".to_owned(), "0fedcba98765".to_owned()],
            })),
            (_, Some("77")) => Err(NotHeld::NoRelease(NoRelease::Unknown("77".to_owned()))),
            (known, _) if NAMES.contains(&known) => changed,
            _ => Err(NotHeld::NoFunction),
        })
    }

    fn release_files(&self, name: &FunctionName, release: &str) -> Pending<Result<ReleaseFiles, NotHeld>> {
        let new = Version([0xab; 32]).hex().starts_with(release);
        let file = |path: &str, sha256: &str, text: Option<&str>| ReleaseFile {
            path: path.to_owned(),
            executable: false,
            bytes: 20,
            sha256: sha256.to_owned(),
            text: text.map(str::to_owned),
        };
        let code = if new {
            "def handler(event, context):\n    return 2\n"
        } else {
            "def handler(event, context):\n    return 1\n"
        };
        later(if NAMES.contains(&name.as_str()) {
            Ok(ReleaseFiles {
                version: Version([if new { 0xab } else { 0x9a }; 32]),
                files: vec![
                    file("hello.py", if new { "2" } else { "1" }, Some(code)),
                    file("logo.png", if new { "4" } else { "3" }, None),
                    file("/etc/fnd/functions/hello.toml", "5", Some("size = \"S\"\n")),
                ],
            })
        } else {
            Err(NotHeld::NoFunction)
        })
    }

    fn set_enabled(&self, function: &FunctionName, _enabled: bool) -> Answering {
        self.known(function, Answer::Done)
    }

    fn status_written(&self, function: &FunctionName) -> Pending<()> {
        self.seen.lock().unwrap().waited_for.push(function.to_string());
        Box::pin(std::future::ready(()))
    }

    fn watch(&self, filter: FunctionFilter) -> FunctionChanges {
        let (sender, receiver) = mpsc::channel(8);
        for status in NAMES.into_iter().map(status) {
            if filter.takes(&status.function, Some(&status)) {
                let (function, now) = (status.function.clone(), Some(Box::new(status)));
                sender.try_send(FunctionChange { function, now }).unwrap();
            }
        }
        receiver
    }
}
