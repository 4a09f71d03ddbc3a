//! `fndctl run`: a function of a file runs without a daemon, as it would with one, and nothing of it remains.

use fnd_tests::ctl::fndctl;
use fnd_tests::leftovers::Mark;
use fnd_tests::programs::{deno, program, runtimes};
use fnd_tests::require::is_root;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Run, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A directory with files, and another one for what `run` writes.
struct Ground {
    files: TempDir,
    temporary: TempDir,
}

impl Ground {
    fn new(files: &[(&str, &str)]) -> Self {
        let ground = Self {
            files: tempfile::tempdir().unwrap(),
            temporary: tempfile::tempdir().unwrap(),
        };
        // Functions of root have users of their own.
        for directory in [&ground.files, &ground.temporary] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (name, text) in files {
            let path = ground.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn run(&self, file: &str, arguments: &[&str], input: &str) -> Run {
        let path = self.path(file).display().to_string();
        let runtimes = runtimes();
        let environment = [("TMPDIR", self.temporary.path()), ("FND_RUNTIMES", runtimes.as_path())];
        let run = fndctl(&[&["run", &path], arguments].concat(), input.as_bytes(), &environment);
        self.is_clean();
        run
    }

    fn start(&self, file: &str, arguments: &[&str]) -> Child {
        Command::new(program("fndctl"))
            .arg("run")
            .arg(self.path(file))
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/nonexistent")
            .env("TMPDIR", self.temporary.path())
            .env("FND_RUNTIMES", runtimes())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[track_caller]
    fn is_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Sends Ctrl-C and returns the exit code.
fn interrupt(child: &mut Child) -> Option<i32> {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    wait_until("fndctl to end", PATIENCE, || child.try_wait().unwrap()).code()
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap)
}

#[test]
fn result_exit_code_and_message_are_those_of_an_installed_function() {
    let ground = Ground::new(&[
        (
            "hello.py",
            "def handler(event, context):\n    return {'hello': event['data']['name']}\n",
        ),
        ("echo.sh", "cat\n"),
        ("three.sh", "echo why >&2\nexit 3\n"),
        (
            "slow.sh",
            "# /// fnd\n# [limits]\n# timeout = \"200ms\"\n# ///\nsleep 1000\n",
        ),
        (
            "again.sh",
            "# /// fnd\n# [retry]\n# retries = 1\n# interval = \"10ms\"\n# ///\n[ $FND_ATTEMPT = 2 ]\n",
        ),
        (
            "load.sh",
            "# /// fnd\n# on_load = true\n# ///\necho $FND_TRIGGER $A $B\n",
        ),
        ("whole/function.toml", "entry = \"main.py\"\nargs = [\"x\"]\n"),
        ("whole/main.py", "import other, sys\nprint(other.NAME, sys.argv[1])\n"),
        ("whole/other.py", "NAME = 'other'\n"),
        (
            "trace.py",
            "def handler(event, context):\n    raise ValueError('no such thing')\n",
        ),
        ("bad.sh", "echo\n"),
        ("bad.toml", "[limits]\ntimout = \"1s\"\n"),
        ("notes.txt", "text\n"),
    ]);
    for (file, arguments, input, code, out, errors) in [
        (
            "hello.py",
            &["-d", "{\"name\": \"Ada\"}"][..],
            "",
            0,
            "{\"hello\":\"Ada\"}",
            "",
        ),
        ("echo.sh", &[], "piped", 0, "piped", ""),
        ("three.sh", &[], "", 1, "", "why"),
        ("slow.sh", &[], "", 6, "", "limits.timeout"),
        ("slow.sh", &["--timeout", "50ms"], "", 6, "", "within 50ms"),
        ("again.sh", &[], "", 0, "", ""),
        ("load.sh", &["-e", "B=line"], "", 0, "manual line", ""),
        ("load.sh", &["-e", "A=x", "-e", "B=y"], "", 0, "manual x y", ""),
        ("whole", &[], "", 0, "other x", ""),
        ("whole/function.toml", &[], "", 0, "other x", ""),
        ("trace.py", &[], "", 1, "", "no such thing"),
        ("bad.sh", &[], "", 8, "", "unknown key `timout`"),
        ("bad.toml", &[], "", 8, "", "bad.toml:2:1"),
        ("notes.txt", &[], "", 8, "", "no rule makes it a function"),
        ("missing.sh", &[], "", 2, "", "fndctl invoke F"),
        ("echo.sh", &["-e", "novalue"], "", 2, "", "NAME=VALUE"),
        ("echo.sh", &["-e", "1A=x"], "", 8, "", "1A"),
        ("echo.sh", &["--timeout", "soon"], "", 2, "", "soon"),
    ] {
        let run = ground.run(file, arguments, input).expect_code(code);
        assert_eq!(run.out().trim_end(), out, "{file} {arguments:?}: {run}");
        assert!(run.stderr.contains(errors), "{file} {arguments:?}: {run}");
        assert!(
            !run.stderr.contains("fnd-run-"),
            "{file}: a path of the copy is shown: {run}"
        );
    }
    let run = ground.run("trace.py", &[], "");
    let shown = format!("File \"{}\", line 2", ground.path("trace.py").display());
    assert!(run.stderr.contains(&shown), "{shown}: {run}");
}

#[test]
fn the_configuration_gives_defaults_sizes_and_runtimes() {
    let ground = Ground::new(&[
        ("hello.ts", "export default () => Deno.env.get('GREETING');\n"),
        ("sized.sh", "# /// fnd\n# size = \"tiny\"\n# ///\necho $GREETING\n"),
    ]);
    let mut config = "[defaults.env]\nGREETING = \"hi\"\n[sizes.tiny]\nmemory = \"128M\"\n".to_owned();
    let deno = deno();
    if let Some(deno) = &deno {
        config += &format!(
            "[runtimes.deno]\ninterpreters = {{ \"2\" = {:?} }}\n",
            deno.display().to_string()
        );
    }
    fs::write(ground.path("fnd.toml"), config).unwrap();
    let config = ground.path("fnd.toml").display().to_string();
    let run = ground.run("sized.sh", &["--config", &config], "").expect_code(0);
    assert_eq!(run.out(), "hi\n");
    if deno.is_some() {
        let run = ground.run("hello.ts", &["--config", &config], "").expect_code(0);
        assert_eq!(run.out(), "hi", "{run}");
    }
}

#[test]
fn it_runs_again_after_each_save_until_ctrl_c() {
    let ground = Ground::new(&[("one.sh", "echo first\n")]);
    let mut child = ground.start("one.sh", &["--watch"]);
    let mut shown = lines(&mut child);
    assert_eq!(shown.next().as_deref(), Some("first"));
    // An invalid version is reported, and the next one runs.
    fs::write(ground.path("one.toml"), "enabld = true\n").unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.contains("unknown key `enabld`")));
    fs::write(ground.path("one.toml"), "args = [\"second\"]\n").unwrap();
    fs::write(ground.path("one.sh"), "echo $1\n").unwrap();
    assert!(shown.any(|line| line == "second"));
    assert_eq!(interrupt(&mut child), Some(0));
    ground.is_clean();
}

#[test]
fn a_service_is_replaced_after_each_save() {
    let ground = Ground::new(&[("ticks.sh", "# /// fnd\n# [service]\n# ///\necho one\nexec sleep 1000\n")]);
    let mut child = ground.start("ticks.sh", &["--watch"]);
    let mut shown = lines(&mut child);
    assert!(shown.any(|line| line == "one"));
    fs::write(
        ground.path("ticks.sh"),
        "# /// fnd\n# [service]\n# ///\necho two\nexec sleep 1000\n",
    )
    .unwrap();
    assert!(shown.any(|line| line == "two"));
    assert_eq!(interrupt(&mut child), Some(0));
    ground.is_clean();
}

/// fnd refuses files that others can write to; those that `run` copies and writes are never so.
#[test]
fn a_umask_for_teams_does_no_harm() {
    let ground = Ground::new(&[("one.sh", "echo one $A\n")]);
    let path = ground.path("one.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    let line = format!(
        "umask 000; exec {} run {} -e A=x -d ''",
        program("fndctl").display(),
        path.display()
    );
    let output = Command::new("/bin/sh")
        .args(["-c", &line])
        .env("TMPDIR", ground.temporary.path())
        .env("FND_RUNTIMES", runtimes())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b"one x\n"[..]),
        "{errors}"
    );
    ground.is_clean();
}

/// Says whether the process is there that a function knows by this number. Without root, the number is that of a namespace, which
/// ends with all that is in it.
fn is_there(pid: u32) -> bool {
    is_root() && Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn ctrl_c_ends_a_run_with_everything_it_started() {
    // Without a sandbox, so that the number is the machine's.
    let code =
        "# /// fnd\n# [sandbox]\n# profile = \"off\"\n# ///\necho $$ >&2; echo ready >&2; sleep 1000 & sleep 1000\n";
    let ground = Ground::new(&[("sleeps.sh", code)]);
    let mut child = ground.start("sleeps.sh", &[]);
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let pid = errors.find_map(|line| line.parse::<u32>().ok()).unwrap();
    assert!(errors.any(|line| line == "ready"));
    assert_eq!(interrupt(&mut child), Some(1));
    assert!(!is_there(pid));
    ground.is_clean();
}

/// Without fndctl nobody stops its private fnd, so fnd ends by itself, with the function and its files.
#[test]
fn a_killed_fndctl_leaves_nothing_behind() {
    // Long enough for a busy machine; the second function needs all of it.
    let head = "# /// fnd\n# [limits]\n# grace = \"3s\"\n# [sandbox]\n# profile = \"off\"\n";
    let ends = format!("{head}# ///\ntrap 'echo ended >$1; exit' TERM\necho $$ >&2\nsleep 1000 & wait\n");
    let stays =
        format!("{head}# [service]\n# ///\ntrap 'echo ended >$1' TERM\necho $$\nwhile :; do sleep 1000 & wait; done\n");
    let ground = Ground::new(&[
        ("ends.sh", &ends),
        ("stays.sh", &stays),
        ("told/ends", ""),
        ("told/stays", ""),
    ]);
    for name in ["ends", "stays"] {
        let told = ground.path(&format!("told/{name}"));
        fs::set_permissions(&told, fs::Permissions::from_mode(0o666)).unwrap();
        let code = ground.path(&format!("{name}.sh"));
        let text = fs::read_to_string(&code).unwrap();
        fs::write(&code, text.replace("$1", &told.display().to_string())).unwrap();

        let mut child = ground.start(&format!("{name}.sh"), &[]);
        let mark = Mark {
            cgroup: format!("fnd-run-{}", child.id()),
            root: ground.temporary.path().to_owned(),
        };
        let printed: Box<dyn Read> = if name == "ends" {
            Box::new(child.stderr.take().unwrap())
        } else {
            Box::new(child.stdout.take().unwrap())
        };
        let mut printed = BufReader::new(printed).lines().map(Result::unwrap);
        let pid = printed.find_map(|line| line.parse::<u32>().ok()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("all processes to end", PATIENCE, || {
            let left = mark.find();
            (left.is_empty() && !is_there(pid)).then_some(())
        });
        assert_eq!(fs::read_to_string(&told).unwrap(), "ended\n", "{name} got SIGTERM");
        ground.is_clean();
    }
}

#[test]
fn the_last_lines_of_a_service_are_shown() {
    let code = "# /// fnd\n# [service]\n# ///\ntrap 'echo one; sleep 0.1; echo two; echo three; exit' TERM\necho ready\n\
                sleep 1000 & wait\n";
    let ground = Ground::new(&[("ends.sh", code)]);
    let mut child = ground.start("ends.sh", &[]);
    let mut shown = lines(&mut child);
    assert!(shown.any(|line| line == "ready"));
    assert_eq!(interrupt(&mut child), Some(0));
    assert_eq!(shown.collect::<Vec<_>>(), ["one", "two", "three"]);
    ground.is_clean();
}

#[test]
fn http_programs_and_services_run_until_ctrl_c() {
    let ground = Ground::new(&[
        (
            "web.py",
            "# /// fnd\n# [http_server]\n# ///\nimport http.server, os\nclass H(http.server.BaseHTTPRequestHandler):\n    \
             def do_GET(self):\n        self.send_response(200)\n        self.end_headers()\n        \
             self.wfile.write(b'from the web')\nhttp.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()\n",
        ),
        ("ticks.sh", "# /// fnd\n# [service]\n# ///\necho tick\nsleep 1000\n"),
        ("ends.sh", "# /// fnd\n# [service]\n# ///\necho oh >&2\nexit 4\n"),
    ]);
    let mut child = ground.start("web.py", &[]);
    let command = lines(&mut child).find(|line| line.contains("curl ")).unwrap();
    let answer = Command::new("sh")
        .args(["-c", &format!("{command} -s")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "from the web");
    assert_eq!(interrupt(&mut child), Some(0));
    ground.is_clean();

    let mut child = ground.start("ticks.sh", &[]);
    assert!(lines(&mut child).any(|line| line == "tick"));
    assert_eq!(interrupt(&mut child), Some(0));
    ground.is_clean();
    let mut child = ground.start("ends.sh", &[]);
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.contains("exit-4")));
    assert_eq!(interrupt(&mut child), Some(0));
    ground.is_clean();
    let _ = ground.run("ticks.sh", &["-d", "1"], "").expect_code(2);
}

#[test]
fn without_fnd_the_error_says_where_it_was_looked_for() {
    let ground = Ground::new(&[("one.sh", "echo\n"), ("bin/none", "")]);
    let alone = ground.path("bin/fndctl");
    fs::copy(program("fndctl"), &alone).unwrap();
    let output = Command::new(&alone)
        .arg("run")
        .arg(ground.path("one.sh"))
        .env_clear()
        .env("PATH", ground.path("bin"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !Path::new("/usr/sbin/fnd").exists() {
        assert_eq!(output.status.code(), Some(1));
        assert!(
            errors.contains(&format!("`{}`", ground.path("bin/fnd").display())),
            "{errors}"
        );
        assert!(
            errors.contains("`/usr/sbin/fnd`") && errors.contains("help: install"),
            "{errors}"
        );
    }
}
