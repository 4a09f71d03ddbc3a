//! `fndctl import` of crontabs, units and other files into a real fnd: what runs does what the original did.
//!
//! Files:
//! - `dagu`: DAGs of dagu
//! - `services`: apps of pm2, programs of supervisord, services of compose files
//! - `webhook`: hooks of webhook
//! - `wrong`: files that are refused

mod dagu;
mod services;
mod webhook;
mod wrong;

use fnd_tests::ctl::fndctl;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Run, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An fnd with the sandbox, and a directory beside it with the files of another program.
struct Ground {
    fnd: Fnd,
    files: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let mut fnd = Fnd::prepare(&fnd_tests::Setup::default().config("[sandbox]\n"));
        let configuration = fnd.path("fnd.toml");
        let before = fs::read_to_string(&configuration).unwrap();
        let listen = format!(
            "{before}\n[http]\nlisten = \"unix:{}\"\n",
            fnd.path("run/http.sock").display()
        );
        fs::write(&configuration, listen).unwrap();
        fnd.launch();
        let files = fnd.shared_directory("old");
        Self { fnd, files }
    }

    /// Writes a file of the other program; a script is executable. `DIR/` in it stands for the directory.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.files.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace("DIR/", &format!("{}/", self.files.display()))).unwrap();
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    }

    /// Imports into the functions directory, and waits until fnd has read it.
    fn import(&self, arguments: &[&str], code: i32) -> serde_json::Value {
        let functions = self.fnd.path("functions").display().to_string();
        let run = fndctl(
            &[&["import"], arguments, &["--out", &functions, "-o", "json"]].concat(),
            b"",
            &[],
        );
        let document = run.expect_code(code).json();
        // A secret that is missing yet is no failure here.
        let _ = self.fnd.ctl(&["reload", "--ignore-invalid"]);
        document
    }

    /// Waits until the output of a function has a text.
    #[track_caller]
    fn wait_output(&self, name: &str, text: &str) {
        wait_until(&format!("`{text}` in the output of `{name}`"), PATIENCE, || {
            let logs = self.fnd.ctl(&["logs", name]).out();
            logs.contains(text).then_some(())
        });
    }

    fn invoke(&self, name: &str, payload: &str) -> Run {
        self.fnd.wait_ready(name);
        self.fnd.ctl_with(&["invoke", name, "-d", "-"], payload.as_bytes())
    }
}

/// Returns what cron would have the command print: with its shell, environment and standard input.
fn as_cron(shell: &str, command: &str, environment: &[(&str, &str)], input: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), input).unwrap();
    let output = Command::new(shell)
        .args(["-c", command])
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("HOME", "/")])
        .envs(environment.iter().copied())
        .stdin(Stdio::from(fs::File::open(file.path()).unwrap()))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The count of schedules comes first.
#[test]
fn crontabs_timers_and_services() {
    let ground = Ground::new();
    the_lines_of_a_crontab_do_what_cron_did(&ground);
    a_timer_and_its_service_do_what_systemd_did(&ground);
    a_service_of_systemd_is_a_service(&ground);
    ground.fnd.finish();
}

fn the_lines_of_a_crontab_do_what_cron_did(ground: &Ground) {
    let script = ground.file("report.sh", "#!/bin/sh\necho \"$MODE $1 $2\"; cat\n");
    let crontab = ground.file(
        "cron.d/shop",
        "MAILTO=ada\nMODE=\"full report\"\n# Reports\n0 7 * * mon root DIR/report.sh a b%one%two\\%\n\
         MODE=short\nSHELL=/bin/bash\n*/5 * * * * root echo \"$MODE\" ${SHELL##*/} {1..3} && cat%in\n61 * * * * root true\n",
    );
    let document = ground.import(&["crontab", &crontab, "--own-user"], 8);
    assert_eq!(document["functions"], serde_json::json!(["report", "echo"]));
    let refused: Vec<_> = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["verdict"] == "refused")
        .collect();
    assert_eq!(
        (refused.len(), &refused[0]["line"], &refused[0]["column"]),
        (1, &8.into(), &1.into())
    );
    let run = ground.invoke("report", "").expect_code(0);
    assert_eq!(
        run.out(),
        as_cron(
            "/bin/sh",
            &format!("{script} a b"),
            &[("MODE", "full report")],
            "one\ntwo%\n"
        )
    );
    let run = ground.invoke("echo", "").expect_code(0);
    let environment = [("MODE", "short"), ("SHELL", "/bin/bash")];
    let command = "echo \"$MODE\" ${SHELL##*/} {1..3} && cat";
    assert_eq!(run.out(), as_cron("/bin/bash", command, &environment, "in\n"));
    let schedules = ground.fnd.ctl(&["schedules", "-o", "json"]).expect_code(0).json();
    let lines: Vec<_> = schedules["schedules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["schedule"].clone())
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
}

fn a_timer_and_its_service_do_what_systemd_did(ground: &Ground) {
    ground.file("backup.sh", "#!/bin/sh\necho \"$TARGET $LEVEL $# $1 $PWD\"; umask\n");
    ground.file("backup.env", "LEVEL=\"9\"\n");
    ground.file(
        "backup@.service",
        "[Unit]\nDescription=Backup of %i\n[Service]\nType=oneshot\nEnvironment=TARGET=%i \"WORDS=a b\"\nEnvironmentFile=DIR/backup.env\n\
         ExecStartPre=-/bin/false\nExecStart=/bin/echo $WORDS \"${WORDS}!\" 100%%\nExecStart=DIR/backup.sh ${WORDS}\nUMask=0027\nMemoryMax=64M\n",
    );
    let timer = ground.file(
        "backup@.timer",
        "[Timer]\nOnCalendar=Mon *-*-1..7 02:30 Europe/Berlin\nPersistent=true\n[Install]\nWantedBy=timers.target\n",
    );
    let timer = timer.replace("backup@", "backup@db");
    let document = ground.import(&["systemd", &timer, "--own-user"], 0);
    assert_eq!(document["functions"], serde_json::json!(["backup-db"]), "{document}");
    let run = ground.invoke("backup-db", "").expect_code(0);
    assert_eq!(run.out(), "a b a b! 100%\ndb 9 1 a b /\n0027\n");
    let manifest = fs::read_to_string(ground.fnd.path("functions/backup-db/function.toml")).unwrap();
    assert!(
        manifest.contains("description = \"Backup of db\"  # Description="),
        "{manifest}"
    );
    let schedules = ground.fnd.ctl(&["schedules", "-o", "json"]).expect_code(0).json();
    assert_eq!(schedules["schedules"][0]["timezone"], "Europe/Berlin", "{schedules}");
}

fn a_service_of_systemd_is_a_service(ground: &Ground) {
    let unit = ground.file(
        "count.service",
        "[Service]\nEnvironment=STEP=2\nExecStart=/bin/sh -c 'echo \"started ${STEP}\"; exec sleep 1000'\nRestart=always\nRestartSec=1\n",
    );
    ground.file("count.service.d/10-step.conf", "[Service]\nEnvironment=STEP=3\n");
    // systemd runs a unit without `User=` as root.
    let refused = ground.import(&["systemd", &unit], 8);
    assert_eq!(rows(&refused, "User=")[0]["verdict"], "refused", "{refused}");
    let _ = ground.import(&["systemd", &unit, "--own-user"], 0);
    let _ = ground
        .fnd
        .wait_function("count", "to run", |function| function.running == 1);
    ground.wait_output("count", "started 3");
}

/// Returns the rows of a report about a field.
fn rows<'a>(document: &'a serde_json::Value, field: &str) -> Vec<&'a serde_json::Value> {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().filter(|row| row["field"] == field).collect()
}
