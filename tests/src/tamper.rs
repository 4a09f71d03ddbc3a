//! Tampering with the system calls of a real fnd, by strace: a kill at a named call of a named file, or an error in its place.
//!
//! fnd itself has no code for it. strace starts fnd and stays its child (`-D`), or attaches to a running fnd for the
//! duration of a fault. Each thread counts its own calls.

use crate::Fnd;
use crate::wait::{PATIENCE, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The event that replaces a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// SIGKILL before it does anything.
    Kill,
    /// This error, without doing anything: `ENOSPC`.
    Error(&'static str),
    /// It begins this much later.
    Delay(Duration),
}

/// The calls that are replaced, and by what.
#[derive(Debug, Clone)]
pub struct Tampering {
    /// System calls, separated by commas.
    pub calls: String,
    /// Files of these calls, by descriptor or name; empty: all files.
    pub paths: Vec<PathBuf>,
    /// The event that replaces each of these calls.
    pub fate: Fate,
    /// Number of the first call of a thread that is replaced.
    pub from: u32,
}

impl Tampering {
    /// Returns the command line that starts an fnd with these faults.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        // Without `--seccomp-bpf`: with it strace 6.1 sends no signal.
        let mut words: Vec<String> = ["strace", "-D"].map(str::to_owned).into();
        words.extend(self.options());
        words
    }

    fn options(&self) -> Vec<String> {
        let fate = match self.fate {
            Fate::Kill => "signal=KILL".to_owned(),
            Fate::Error(error) => format!("error={error}"),
            Fate::Delay(time) => format!("delay_enter={}", time.as_micros()),
        };
        let mut words: Vec<String> = ["-f", "-qqq", "-o", "/dev/null"].map(str::to_owned).into();
        for path in &self.paths {
            words.extend(["-P".to_owned(), path.display().to_string()]);
        }
        let Self { calls, from, .. } = self;
        words.extend(["-e".to_owned(), format!("trace={calls}")]);
        words.extend(["-e".to_owned(), format!("inject={calls}:{fate}:when={from}+")]);
        words
    }

    /// Tampers with an fnd that runs until the result is dropped.
    ///
    /// # Panics
    /// When strace cannot.
    #[track_caller]
    #[must_use]
    pub fn attach(&self, fnd: &Fnd) -> Attached {
        attach(fnd, &self.options())
    }
}

/// Writes the calls of an fnd that runs to a file, each with its thread and the paths of its descriptors, until the result is
/// dropped.
///
/// # Panics
/// When strace cannot.
#[track_caller]
#[must_use]
pub fn record(fnd: &Fnd, calls: &str, file: &Path) -> Attached {
    let file = file.display().to_string();
    let words = ["-f", "-qqq", "-y", "-e", &format!("trace={calls}"), "-o", &file];
    attach(fnd, &words.map(str::to_owned))
}

#[track_caller]
fn attach(fnd: &Fnd, options: &[String]) -> Attached {
    let pid = fnd.pid();
    let mut strace = Command::new(strace().expect("`require!(strace)` comes first"));
    strace.args(options).args(["-p", &pid.to_string()]);
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut strace = strace.spawn().expect("strace starts");
    wait_until("strace to hold every thread", PATIENCE, || {
        let ended = strace.try_wait().expect("an own child can be asked");
        assert!(ended.is_none(), "strace did not attach: {ended:?}");
        all_traced(pid).then_some(())
    });
    Attached { strace }
}

/// A fault or a record that lasts until this is dropped.
#[derive(Debug)]
pub struct Attached {
    strace: Child,
}

impl Drop for Attached {
    fn drop(&mut self) {
        // SIGTERM lets strace detach from the threads; killed, it might leave one stopped.
        let asked = kill(Pid::from_raw(self.strace.id().cast_signed()), Signal::SIGTERM);
        if asked.is_err() {
            let _ = self.strace.kill(); // it ended by itself
        }
        let _ = self.strace.wait();
    }
}

fn all_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    })
}

/// Returns Debian's strace, if it may trace here.
#[must_use]
pub fn strace() -> Option<&'static Path> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let path = Path::new("/usr/bin/strace");
    let works = FOUND.get_or_init(|| {
        let mut traced = Command::new(path);
        traced
            .args(["-D", "-f", "-o", "/dev/null", "true"])
            .stderr(Stdio::null());
        traced
            .env("PATH", "/usr/bin:/bin")
            .status()
            .is_ok_and(|status| status.success())
    });
    works.then_some(path)
}
