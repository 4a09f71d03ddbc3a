//! The environment that a function gets, and the report about its end, with real cgroups.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;
use common::{Harness, privileged};
use fnd_wire::frame::{Containment, ExitStatus, Release, Reply, Request};
use fnd_wire::ids::InvocationId;
use std::fs;

#[test]
fn a_script_gets_its_user_environment_input_and_result_and_nothing_else() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    assert_eq!(harness.welcome.containment, Containment::Cgroup);
    let script = "id -u; umask; cat; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; ls /proc/self/fd | wc -l; \
        pwd; echo result > \"$FND_RESULT\"; echo err >/dev/stderr; echo out >/dev/stdout; env | sort >&2; touch $HOME/a $TMPDIR/b; exit 3\n";
    let installed = harness.install("hello.sh", &format!("\u{feff}{}", script.replace('\n', "\r\n")), "");
    let run = harness.run(&installed, Some(b"payload\n"), &[("FND_FUNCTION", "hello"), ("DATA", "{}")]);
    assert_eq!(run.exited.status, ExitStatus::Code(3), "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[..3], [installed.uid.to_string().as_str(), "0022", "payload"]);
    assert_eq!(installed.uid, harness.users.first());
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(lines.contains(&format!("{set}:\t0000000000000000").as_str()), "{set} in {lines:?}");
    }
    assert!(lines.contains(&"NoNewPrivs:\t1"));
    assert!(lines.contains(&"4"), "0, 1, 2 and the directory `ls` reads: {lines:?}"); // ls | wc
    let code = harness.path(&format!("state/versions/hello/{}/code", installed.version.hex()));
    assert!(lines.contains(&code.to_str().unwrap()));
    assert!(lines.contains(&"out") && run.stderr.contains("err\n"), "{}", run.stderr);
    assert_eq!(run.result, "result\n");
    let home = harness.path("state/home/hello");
    let tmp = harness.path(&format!("state/tmp/hello/{}/tmp", InvocationId(1)));
    for wanted in [
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        format!("HOME={}", home.display()),
        format!("STATE_DIRECTORY={}", home.display()),
        format!("TMPDIR={}", tmp.display()),
        "USER=hello".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        "FROM_PLAN={state}".to_owned(),
        format!("CODE={}", code.display()),
        "DATA={}".to_owned(),
        format!("SCRIPT={}/hello.sh", code.display()),
    ] {
        assert!(run.stderr.lines().any(|line| line == wanted), "{wanted} in {}", run.stderr);
    }
    let names: Vec<&str> = run.stderr.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(!names.contains(&"CARGO_PKG_NAME"), "the spawner's environment leaks: {names:?}");
    assert!(run.exited.cpu_us > 0 && run.exited.memory_peak.is_some() && !run.exited.stragglers);
    // The files of the invocation are removed with it; those of the function stay.
    assert!(tmp.join("b").exists());
    let number =
        harness.send(&Request::Release(Release { function: installed.id, invocation: InvocationId(1) }), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    assert!(!tmp.exists() && !tmp.parent().unwrap().exists() && home.join("a").exists());
}

#[test]
fn tmp_outlives_an_attempt_and_previous_is_passed() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed =
        harness.install("again.sh", "echo x >>$TMPDIR/n; wc -l <$TMPDIR/n; cat ${FND_PREVIOUS:-/dev/null}", "");
    let first = harness.order_in(&installed, InvocationId(9), (None, None), &[]);
    assert_eq!(harness.finish(first.0, first.1).stdout, "1\n");
    let second = harness.order_in(&installed, InvocationId(9), (None, Some(b"before")), &[]);
    assert_eq!(harness.finish(second.0, second.1).stdout, "2\nbefore");
}

#[test]
fn ends_are_reported_as_they_were() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("ends.sh", "case $DATA in code) exit 200;; *) kill -$DATA $$; sleep 5;; esac", "");
    let code = harness.run(&installed, None, &[("DATA", "code")]);
    assert_eq!(code.exited.status, ExitStatus::Code(200));
    let segv = harness.run(&installed, None, &[("DATA", "SEGV")]);
    assert_eq!(segv.exited.status, ExitStatus::Signal(11));
    for name in ["LD_PRELOAD", "HTTP_PROXY", "HTTP_x", "FND_PARAM_a", "FND_STOP_SIGNAL", "PATH_TRANSLATED"] {
        let refused = harness.order(&installed, None, &[(name, "/x.so")]);
        assert!(matches!(harness.answer(refused.1).0, Reply::SpawnFailed(failed) if failed.message.contains(name)));
    }
    let big = "x".repeat(65_536);
    let run = harness.run(&installed, None, &[("DATA", "code"), ("CONTEXT", &big)]);
    assert_eq!(run.exited.status, ExitStatus::Code(200));
}

#[test]
fn a_request_is_in_the_environment_but_replaces_nothing_that_an_author_has_set() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed =
        harness.install("cgi.sh", "echo $REQUEST_METHOD $HTTP_X1 $FND_PARAM_ID2 $HTTP_FROM_PLAN $FROM_PLAN", "");
    let given =
        [("REQUEST_METHOD", "GET"), ("HTTP_X1", "header"), ("FND_PARAM_ID2", "7"), ("HTTP_FROM_PLAN", "the caller's")];
    assert_eq!(harness.run(&installed, None, &given).stdout, "GET header 7 own {state}\n");
}

#[test]
fn a_program_that_cannot_be_executed_is_reported_with_the_step() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    harness.write("broken", "no format");
    let path = harness.path("functions/broken");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let installed = harness.install("broken", "no format", "exec=1");
    let (_, number) = harness.order(&installed, None, &[]);
    let Reply::SpawnFailed(failed) = harness.answer(number).0 else { panic!("it ran") };
    assert!(failed.message.contains("execute the program") && failed.message.contains("format"), "{}", failed.message);
}

#[test]
fn many_runs_one_after_the_other_use_one_launcher() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let script = harness.install("quick.sh", ":", "");
    let program = harness.install("true", "", "exec=1");
    fs::copy("/bin/true", harness.path("functions/true")).unwrap();
    let program = match harness.try_install("true", Some("true.toml")) {
        common::Outcome::Installed(installed) => installed,
        common::Outcome::Refused(problems, _) => panic!("{problems:?} {program:?}"),
    };
    let mut functions = [("bash -c :", &script, Vec::new()), ("/bin/true", &program, Vec::new())];
    // In turn, since a launcher ends when it has been idle for long, and both are counted at the end.
    for _ in 0..200 {
        for (_, installed, times) in &mut functions {
            let start = fnd_spawner::clock::now();
            let (worker, number) = harness.order(installed, None, &[]);
            let spawned = harness.spawned(number);
            harness.exited(worker);
            times.push(fnd_spawner::clock::now() - start);
            drop(spawned);
            let release = Release { function: installed.id, invocation: InvocationId(u128::from(worker)) };
            let number = harness.send(&Request::Release(release), Vec::new());
            assert_eq!(harness.answer(number).0, Reply::Done);
        }
    }
    for (what, _, times) in &mut functions {
        times.sort();
        println!("{what}: Spawn to Exited p50 {:?}, p99 {:?}", times[100], times[198]);
    }
    let parent = harness.child.id();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    // Launchers are counted by name, since a helper may run, too: it syncs installed files, which takes long on a busy
    // disk.
    let names = children.split_whitespace().map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")));
    let launchers = names.flatten().filter(|name| name.trim() == "fnd-launcher").count();
    assert_eq!(launchers, 2, "one for each function; all children: {children}");
}

#[test]
fn a_newer_version_replaces_the_launcher_when_it_is_idle() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let first = harness.install("v.sh", "echo 1; read -r line; echo $line", "");
    let (read, write) = rustix::pipe::pipe().unwrap();
    let (worker, number) = harness.order_pipe(&first, read);
    let (_, mut descriptors) = harness.spawned(number);
    let second = harness.install("v.sh", "echo 2", "");
    assert_eq!(harness.run(&second, None, &[]).stdout, "2\n");
    // The attempt of the old version continues beside it, and its end affects nothing else.
    let parent = harness.child.id();
    let children = || fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    common::until("judge, two launchers, one worker", || children().split_whitespace().count() == 4);
    rustix::io::write(&write, b"old\n").unwrap();
    assert_eq!(common::text(descriptors.pop_front().unwrap()), "1\nold\n");
    assert_eq!(harness.exited(worker).status, ExitStatus::Code(0));
    common::until("the old launcher ended", || children().split_whitespace().count() == 2);
    assert_eq!(harness.run(&second, None, &[]).stdout, "2\n");
    // After ten idle seconds the other launcher ends, too, and the function's groups are removed.
    let group = format!("/sys/fs/cgroup/unified/fnd-{parent}/f/v");
    let there = fs::exists(&group).unwrap();
    common::until("the idle launcher ended", || children().split_whitespace().count() == 1);
    common::until("its groups went", || !fs::exists(&group).unwrap());
    println!("group was there: {there}");
    assert_eq!(harness.run(&first, None, &[]).stdout, "1\n\n", "and it starts again, an old version too");
}

#[test]
fn a_plan_that_changed_without_the_version_is_used() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let before = harness.install("f.sh", "echo $CONFIGURED", "");
    assert_eq!(harness.run(&before, None, &[]).stdout, "0\n");
    fs::write(harness.path("etc/fnd.toml"), "# more").unwrap();
    harness.send(&Request::Reload, Vec::new());
    harness.wait(|_, reply| matches!(reply, Reply::Settings(_)));
    let after = harness.install("f.sh", "echo $CONFIGURED", "");
    assert_eq!(after.version, before.version);
    assert_eq!(harness.run(&after, None, &[]).stdout, "6\n");
}

#[test]
fn a_thousand_functions_are_installed_and_again() {
    let mut harness = Harness::start();
    for n in 0..1000 {
        harness.write(&format!("f{n}.sh"), &format!("echo {n}"));
    }
    for round in ["first", "again"] {
        let start = fnd_spawner::clock::now();
        let numbers: Vec<u32> = (0..1000)
            .map(|n| {
                let install = fnd_wire::frame::Install {
                    directory: 0,
                    function: fnd_wire::ids::FunctionName::new(&format!("f{n}")).unwrap(),
                    source: format!("f{n}.sh"),
                    sidecar: None,
                    directory_form: false,
                };
                harness.send(&Request::Install(install), Vec::new())
            })
            .collect();
        for number in numbers {
            assert!(matches!(harness.answer(number).0, Reply::Installed(_)));
        }
        println!("1000 installs, {round}: {:?}", fnd_spawner::clock::now() - start);
    }
}

#[test]
fn a_number_far_ahead_is_refused_and_leaves_the_others() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("n.sh", "exit 4", "");
    let spawn = fnd_wire::frame::Spawn {
        worker: fnd_wire::ids::WorkerId((1 << 56) - 1),
        function: installed.id,
        version: installed.version,
        invocation: InvocationId(1),
        environment: Vec::new(),
        input: false,
        previous: false,
        lasts_ms: 0,
        record: fnd_wire::form::Bytes::default(),
    };
    let number = harness.send(&Request::Spawn(spawn), Vec::new());
    let (reply, _) = harness.answer(number);
    assert!(matches!(&reply, Reply::SpawnFailed(failed) if failed.message.contains("too far ahead")), "{reply:?}");
    assert_eq!(harness.run(&installed, None, &[]).exited.status, ExitStatus::Code(4));
}

#[test]
fn a_path_that_is_too_long_is_refused_before_it_waits() {
    let mut harness = Harness::start();
    let install = |source: String| fnd_wire::frame::Install {
        directory: 0,
        function: fnd_wire::ids::FunctionName::new("long").unwrap(),
        source,
        sidecar: None,
        directory_form: false,
    };
    let number = harness.send(&Request::Install(install("x".repeat(5000))), Vec::new());
    let (reply, _) = harness.answer(number);
    assert!(matches!(&reply, Reply::Refused(refused) if refused.problems[0].message.contains("too long")), "{reply:?}");
}
