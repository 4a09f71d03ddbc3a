//! The process of a private fnd: started below a temporary directory, and removed with everything in it.

use super::wait::WaitStop;
use crate::context::Context;
use crate::exit::CommandFailure;
use crate::local;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::UnixDatagram;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// A running fnd. Dropped without [`PrivateProcess::stop`], fnd is killed; its spawner and the function end with it.
pub(super) struct PrivateProcess {
    child: Child,
    root: TempDir,
    /// Where fnd reports that it is ready, as to a service manager.
    reports: UnixDatagram,
    /// How long its functions may take to end.
    grace: Duration,
    /// fnd's standard input. It closes when this process ends, even by SIGKILL, and then fnd ends all by itself.
    _input: Option<ChildStdin>,
}

/// How often fnd is asked to end, and the time between: 10 s in all.
const ASKED_MAX: usize = 100;
const END_STEP: Duration = Duration::from_millis(100);

impl PrivateProcess {
    /// Starts an fnd whose functions and configuration are in a directory.
    ///
    /// # Errors
    /// There is no fnd, or it cannot be started.
    pub(super) fn start(context: &Context, root: TempDir, grace: Duration) -> Result<Self, CommandFailure> {
        let program = local::fnd()?;
        let started = Self::start_program(&program, context, root, grace);
        started.map_err(|error| CommandFailure::failed(format!("failed to start `{}`: {error}", program.display())))
    }

    fn start_program(program: &Path, context: &Context, root: TempDir, grace: Duration) -> io::Result<Self> {
        let at = |name: &str| root.path().join(name);
        // The socket is there before fnd starts, so no report is lost.
        let reports = UnixDatagram::bind(at("reports"))?;
        let log = File::create(at("log"))?;
        let mut command = Command::new(program);
        for (option, name) in [
            ("--config", "config/fnd.toml"),
            ("--functions", "functions"),
            ("--state", "state"),
            ("--run-dir", "run"),
        ] {
            command.arg(option).arg(at(name));
        }
        command.arg("--private").arg(root.path()).arg("--best-effort-limits");
        // Two private fnds at the same time have different cgroups.
        command.args(["--cgroup-root", &format!("fnd-run-{}", std::process::id())]);
        if context.user || !rustix::process::geteuid().is_root() {
            command.arg("--user");
        }
        // An installed fnd has few variables. With those of the person, functions could behave otherwise than there.
        let kept = ["PATH", "HOME", "TZ", "XDG_DATA_HOME", "FND_RUNTIMES", "FND_LOG"];
        let kept = kept.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.env_clear().envs(kept);
        // If fnd fails at its start, its log becomes the text of a message: no colours.
        command.env("NOTIFY_SOCKET", at("reports")).env("NO_COLOR", "1");
        command.stdin(Stdio::piped()).stderr(log.try_clone()?).stdout(log);
        // fnd gets a process group of its own. So Ctrl-C reaches only fndctl, which then stops fnd in order.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take(); // `wait` would close it
        Ok(Self {
            child,
            root,
            reports,
            grace,
            _input: input,
        })
    }

    /// Waits until fnd serves.
    ///
    /// # Errors
    /// It ends before; the message is its last line.
    pub(super) async fn ready(&mut self) -> Result<(), CommandFailure> {
        let mut report = [0; 4096];
        loop {
            tokio::select! {
                // Cancel-safe: a datagram is read whole or not at all.
                read = self.reports.recv(&mut report) => {
                    let text = report.get(..read.unwrap_or(0)).unwrap_or_default();
                    // One message may have several assignments, each on a line of its own (sd_notify(3)).
                    if text.split(|byte| *byte == b'\n').any(|line| line == b"READY=1") {
                        return Ok(());
                    }
                }
                // Cancel-safe: it can be waited for again.
                ended = self.child.wait() => {
                    let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                    let log = fs::read_to_string(self.root.path().join("log")).unwrap_or_default();
                    let message = format!("the private fnd ended at its start ({how})");
                    return Err(CommandFailure::failed(message).help(log.trim_end().to_owned()));
                }
            }
        }
    }

    /// Ends everything: first as a stop of fnd does, after the grace of the function, or at another Ctrl-C, by force.
    pub(super) async fn stop(&mut self, stop: &mut WaitStop) {
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
}
