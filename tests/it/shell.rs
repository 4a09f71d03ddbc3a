//! `fndctl shell`: a shell beside a running process sees the machine as this process does, and outlives it.

use fnd_core::api::AuditList;
use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;
use std::process::{Command, Stdio};

/// Prints the rights, the view and the limits of a process.
const FACTS: &str = "id -u; id -G; pwd; umask; ulimit -n; ulimit -c; ls -A /root /home; \
    for kind in mnt pid net ipc uts user cgroup; do readlink /proc/self/ns/$kind; done; \
    grep -E \"^(NoNewPrivs|Cap)\" /proc/self/status; grep -v ^0: /proc/self/cgroup; \
    echo $FND_FUNCTION $STATE_DIRECTORY $SECRET $PATH";

fn function() -> String {
    format!(
        "# /// fnd\n# on_load = false\n# [env]\n# SECRET = \"seven\"\n# ///\n\
         sh -c '{FACTS}' >\"$STATE_DIRECTORY/new\" && mv \"$STATE_DIRECTORY/new\" \"$STATE_DIRECTORY/facts\"\nsleep 1000\n"
    )
}

#[test]
fn a_shell_sees_the_machine_as_the_function_does() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    fnd.drop_file("job.sh", &function());
    fnd.wait_ready("job");
    let shell = |command: &[&str], input: &[u8]| fnd.ctl_with(&[&["shell", "job", "--"][..], command].concat(), input);
    let sh = |script: &str| shell(&["sh", "-c", script], b"");
    let early = sh("true").expect_code(2).stderr;
    assert!(early.contains("nothing of `job` runs now"), "{early}");
    let run = fnd.queue("job", "");
    let noted = wait_until("the function to note what it sees", PATIENCE, || {
        let printed = sh("cat \"$STATE_DIRECTORY/facts\"");
        (printed.code == 0).then(|| printed.out())
    });
    let seen = sh(FACTS).expect_code(0).out();
    assert_eq!(seen, noted);
    assert!(!seen.starts_with("0\n") && seen.contains("NoNewPrivs:\t1"), "{seen}");
    assert!(seen.contains("CapBnd:\t0000000000000000"), "{seen}");
    let groups = sh("cat /proc/self/cgroup").expect_code(0).out();
    assert!(
        groups
            .lines()
            .any(|line| line.starts_with("0::") && line.contains("/job/s")),
        "{groups}"
    );

    // Input, output, errors and the exit code are those of the command.
    assert_eq!(shell(&["cat"], b"a\nb").expect_code(0).out(), "a\nb");
    let failed = sh("echo wrong >&2; exit 7").expect_code(7);
    assert_eq!((failed.out(), failed.stderr), (String::new(), "wrong\n".to_owned()));
    let missing = shell(&["nosuchprogram"], b"").expect_code(127).stderr;
    assert!(missing.contains("failed to execute the program"), "{missing}");
    assert_eq!(
        sh("ls /proc/self/fd").expect_code(0).out().lines().count(),
        4,
        "0 to 2, and that of ls"
    );
    // The rest of a shell ends with it.
    let left = sh("sleep 1000 & echo $!").expect_code(0).out();
    wait_until("the init to reap it", PATIENCE, || {
        (sh(&format!("kill -0 {left}")).code == 1).then_some(())
    });

    // Nor does the rest hold up the end.
    let _ = sh("yes & exit 5").expect_code(5);

    it_has_a_terminal_of_its_own(&fnd);

    // A run ends although a shell is open, and the shell goes on.
    let home = fnd.path("state/home/job");
    std::thread::scope(|scope| {
        let open = scope.spawn(|| {
            let script = "cd && touch open && until test -e done; do sleep 0.05; done; echo on";
            sh(script).expect_code(0).out()
        });
        wait_until("the shell to be open", PATIENCE, || {
            home.join("open").exists().then_some(())
        });
        let _ = fnd.ctl(&["cancel", &run.to_string()]).expect_code(0);
        fnd.wait_end(run);
        fs::write(home.join("done"), "").unwrap();
        assert_eq!(open.join().unwrap(), "on\n");
    });
    it_is_refused(&fnd);
}

fn it_has_a_terminal_of_its_own(fnd: &Fnd) {
    let line = format!(
        "stty rows 33 cols 77; {} shell job -- sh -c 'test -t 0 && stty size; exit 9'; echo code $?; stty -a | grep -o -- '-*icanon'",
        program("fndctl").display()
    );
    // `script` of util-linux, which is essential in Debian, provides the terminal of the person.
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
    command.env("FND_SOCKET", fnd.socket()).env("SHELL", "/bin/sh");
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    // `script` types an end of input, whose echo may stand between the lines.
    assert!(
        shown.contains("33 77\n") && shown.contains("code 9\nicanon\n"),
        "{shown}"
    );
}

fn it_is_refused(fnd: &Fnd) {
    for (arguments, code, words) in [
        (&["shell", "nobody"][..], 3, "there is no function `nobody`"),
        (&["shell", "job"], 2, "`fndctl invoke job --async`"),
        (&["shell", "job", "-o", "json"], 2, "it has no `-o`"),
        (&["shell", "Job"], 2, "`Job`"),
    ] {
        let refused = fnd.ctl(arguments).expect_code(code).stderr;
        assert!(refused.contains(words), "{refused}");
    }
    let _ = fnd.ctl(&["disable", "job"]).expect_code(0);
    let refused = fnd.ctl(&["shell", "job"]).expect_code(2).stderr;
    assert!(refused.contains("it is disabled, and `fndctl enable job`"), "{refused}");
    // The audit has who, what, and what came of it.
    let list: AuditList = fnd.client().get("/v1/audit?verb=shell&limit=500").json();
    let entries = list.entries.iter().filter(|entry| entry.uid == 0);
    let statuses = |name: &str| {
        let own = entries.clone().filter(|entry| {
            let function = entry.function.as_ref().map(ToString::to_string);
            function.as_deref() == Some(name)
        });
        own.filter_map(|entry| entry.status).collect::<Vec<_>>()
    };
    assert_eq!(statuses("nobody"), [404]);
    assert!(
        statuses("job").contains(&200) && statuses("job").contains(&400),
        "{list:?}"
    );
}
