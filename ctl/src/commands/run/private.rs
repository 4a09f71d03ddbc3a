//! An fnd for one function: started below a temporary directory, and removed with everything in it.

use super::subject::Subject;
use super::wait::Stop;
use super::{Wanted, copy};
use crate::client::Client;
use crate::commands::Context;
use crate::exit::{Exit, Failure};
use crate::local;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Mode;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A running fnd. Dropped without [`Private::stop`], fnd is killed; its spawner and the function end with it.
pub(super) struct Private {
    /// Asks this fnd, and prints as the person wants.
    pub(super) context: Context,
    child: Child,
    root: TempDir,
    /// Where fnd reports that it is ready, as to a service manager.
    reports: UnixDatagram,
    /// How long its functions may take to end.
    grace: Duration,
    /// The directory of the copy and the one of its installed versions, with the person's directory in their place.
    names: [(String, String); 2],
}

/// How often fnd is asked to end, and the time between: 10 s in all.
const ASKED_MAX: usize = 100;
const END_STEP: Duration = Duration::from_millis(100);

impl Private {
    /// Starts an fnd with a copy of the function.
    ///
    /// # Errors
    /// There is no fnd, or it cannot be started.
    pub(super) fn start(context: &Context, subject: &Subject, wanted: &Wanted) -> Result<Self, Failure> {
        let program = local::fnd()?;
        let failed = |error: io::Error| {
            Failure::new(
                Exit::FunctionFailed,
                format!("failed to start `{}`: {error}", program.display()),
            )
        };
        // Functions of an fnd of root have users of their own, and reach their code through this directory.
        let mode = fs::Permissions::from_mode(0o711);
        let root = tempfile::Builder::new()
            .prefix("fnd-run-")
            .permissions(mode)
            .tempdir()
            .map_err(failed)?;
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("functions")).map_err(failed)?;
        copy::function(subject, wanted, &at("functions"))?;
        fs::create_dir(at("config")).map_err(failed)?;
        copy::configuration(&subject.config, &at("config/fnd.toml"))?;
        for directory in ["functions", "config"] {
            copy::make_ready(&at(directory)).map_err(failed)?;
        }
        let reports = UnixDatagram::bind(at("reports")).map_err(failed)?;
        let log = File::create(at("log")).map_err(failed)?;
        let mut command = Command::new(&program);
        for (option, name) in [
            ("--config", "config/fnd.toml"),
            ("--functions", "functions"),
            ("--state", "state"),
            ("--run-dir", "run"),
        ] {
            command.arg(option).arg(at(name));
        }
        command.arg("--best-effort-limits");
        command.args(["--cgroup-root", &format!("fnd-run-{}", std::process::id())]);
        if context.user || !rustix::process::geteuid().is_root() {
            command.arg("--user");
        }
        let kept = ["PATH", "HOME", "TZ", "XDG_DATA_HOME", "FND_RUNTIMES", "FND_LOG"];
        command
            .env_clear()
            .envs(kept.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("NOTIFY_SOCKET", at("reports")).env("NO_COLOR", "1");
        let err = log.try_clone().map_err(failed)?;
        // A group of its own: Ctrl-C ends fndctl, which stops fnd in order.
        command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(err)
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(failed)?;
        let grace = match subject.mode() {
            Mode::Http | Mode::Service => subject.manifest.limits.grace,
            Mode::Script | Mode::Handler => Duration::ZERO,
        };
        let beside = subject.beside().display().to_string();
        let person = if beside == "." {
            String::new()
        } else {
            format!("{beside}/")
        };
        let inside = if subject.is_directory() {
            format!("{}/", subject.code.display())
        } else {
            person.clone()
        };
        Ok(Self {
            context: Context {
                client: Client::new(at("run/control.sock"), context.user),
                out: context.out.unpaged(),
                user: context.user,
            },
            child,
            names: [
                (format!("{}/", at("functions").display()), person.clone()),
                (
                    format!("{}/", at("state/versions").join(subject.name()).display()),
                    inside,
                ),
            ],
            reports,
            grace,
            root,
        })
    }

    /// Waits until fnd serves.
    ///
    /// # Errors
    /// It ends before; the message is its last line.
    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        let mut report = [0; 4096];
        loop {
            tokio::select! {
                // Cancel-safe: a datagram is read whole or not at all.
                read = self.reports.recv(&mut report) => {
                    let text = report.get(..read.unwrap_or(0)).unwrap_or_default();
                    if text.split(|byte| *byte == b'\n').any(|line| line == b"READY=1") {
                        return Ok(());
                    }
                }
                // Cancel-safe: it can be waited for again.
                ended = self.child.wait() => {
                    let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                    let log = fs::read_to_string(self.root.path().join("log")).unwrap_or_default();
                    let message = format!("the private fnd ended at its start ({how})");
                    return Err(Failure::new(Exit::FunctionFailed, message).help(log.trim_end().to_owned()));
                }
            }
        }
    }

    /// Returns the control socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.root.path().join("run/control.sock")
    }

    /// Ends everything: first as a stop of fnd does, after the grace of the function, or at another Ctrl-C, by force.
    pub(super) async fn stop(&mut self, stop: &mut Stop) {
        self.signal(Signal::TERM);
        if !self.grace.is_zero() {
            tokio::select! {
                // Cancel-safe: it can be waited for again.
                _ = timeout(self.grace + Duration::from_secs(1), self.child.wait()) => {}
                // Cancel-safe: a signal is taken or not.
                () = stop.asked() => {}
            }
        }
        // The second signal kills what still runs. One that follows closely is one with the first, so it is repeated.
        for _ in 0..ASKED_MAX {
            self.signal(Signal::TERM);
            if timeout(END_STEP, self.child.wait()).await.is_ok() {
                return;
            }
        }
        let _ = self.child.kill().await; // an error: it has ended
    }

    fn signal(&self, signal: Signal) {
        // Without an id it has ended.
        if let Some(pid) = self.child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, signal); // an error: it has ended
        }
    }

    /// Returns a text in which the function's files have the person's paths.
    pub(super) fn text_of_the_person(&self, text: &str) -> String {
        with_names(text, &self.names)
    }

    /// Returns a diagnostic about the person's file.
    pub(super) fn of_the_person(&self, diagnostic: Diagnostic) -> Diagnostic {
        let text = |text: String| self.text_of_the_person(&text);
        Diagnostic {
            file: diagnostic.file.map(text),
            message: text(diagnostic.message),
            help: diagnostic.help.map(text),
            ..diagnostic
        }
    }

    /// Returns a failure with the person's paths, without advice to ask an fnd that is gone.
    pub(super) fn in_words_of_the_person(&self, failure: Failure) -> Failure {
        Failure {
            message: self.text_of_the_person(&failure.message),
            help: failure.help.filter(|help| !help.starts_with("fndctl ")),
            unknown: None,
            ..failure
        }
    }
}

/// Returns a text with the person's paths: `names` are those of the copy and of its installed versions, each with the
/// person's in its place.
fn with_names(text: &str, names: &[(String, String); 2]) -> String {
    let [(copy, beside), (versions, inside)] = names;
    let mut rest = text.replace(copy, beside);
    // `VERSIONS/F/HASH/code` is the directory of the code.
    while let Some((before, after)) = rest.split_once(versions.as_str()) {
        let path = after.split_once('/').and_then(|(_, path)| path.strip_prefix("code"));
        let directory = Some(inside.trim_end_matches('/')).filter(|directory| !directory.is_empty());
        rest = match path.map(|path| path.strip_prefix('/').ok_or(path)) {
            Some(Ok(file)) => format!("{before}{inside}{file}"),
            Some(Err(after)) => format!("{before}{}{after}", directory.unwrap_or(".")),
            None => format!("{before}{inside}{after}"),
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_becomes_the_persons_and_nothing_between_is_lost() {
        for (inside, directory) in [("", "."), ("web/", "web")] {
            let names = [
                ("/run/x/functions/".to_owned(), "web/".to_owned()),
                ("/run/x/versions/f/".to_owned(), inside.to_owned()),
            ];
            for (text, expected) in [
                ("/run/x/functions/f.py: no", "web/f.py: no".to_owned()),
                ("at /run/x/versions/f/0ab/code/f.py:3", format!("at {inside}f.py:3")),
                (
                    "/run/x/versions/f/0ab/code 7 /run/x/versions/f/0ab/code/f.py",
                    format!("{directory} 7 {inside}f.py"),
                ),
                ("/run/x/versions/f/0ab/code", directory.to_owned()),
                ("/run/x/versions/f/0ab/plan", format!("{inside}0ab/plan")),
                ("/usr/lib/code/x", "/usr/lib/code/x".to_owned()),
            ] {
                assert_eq!(with_names(text, &names), expected, "{text}");
            }
        }
    }
}
