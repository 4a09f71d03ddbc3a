//! Performs the chosen actions. After each action everything is as before, except for the clock.

use super::Storm;
use super::actions::{Absence, Action, Edit, End, Move, Whom};
use super::callers;
use crate::crash::functions::files;
use fnd_core::api::Queued;
use fnd_tests::wait::PATIENCE;
use fnd_tests::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, prlimit};
use std::fs;
use std::time::Duration;

impl Storm {
    /// Performs an action.
    ///
    /// # Panics
    /// If fnd or its spawner ended by itself.
    pub(super) fn perform(&mut self, action: &Action) {
        self.shortage |= matches!(action, Action::Descriptors(..) | Action::Inodes(_) | Action::Disk(_));
        match *action {
            Action::Edit(name, edit, after) => self.edit(name, edit, after),
            Action::Move(what, time) => self.move_about(what, time),
            Action::Away(absence, time) => self.away(absence, time),
            Action::Reload(times) => (0..times).for_each(|_| self.ask("/v1/reload")),
            Action::Disable(time) => {
                self.ask("/v1/functions/moves/disable");
                pass(time);
                self.ask("/v1/functions/moves/enable");
            }
            Action::Cancel(count) => self.cancel(count),
            Action::Callers(count, how, time) => callers::break_off(&self.fnd.socket(), count, how, || pass(time)),
            Action::Clock(ms, time) => {
                self.ground.step(ms);
                self.clock_min_ms = self.clock_min_ms.min(ms);
                self.clock_max_ms = self.clock_max_ms.max(ms);
                pass(time);
            }
            Action::Descriptors(whom, more, time) => {
                let limits: Vec<(u32, Rlimit)> =
                    self.pids(whom).into_iter().map(|pid| (pid, limit(pid, more))).collect();
                pass(time);
                for (pid, before) in limits {
                    set(pid, before);
                }
            }
            Action::Inodes(time) => {
                let taken = self.ground.take_inodes();
                pass(time);
                drop(taken);
            }
            Action::Disk(time) => {
                let filled = self.ground.fill();
                pass(time);
                drop(filled);
            }
            Action::Stop(whom, time) => {
                let pids = self.pids(whom);
                pids.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
                pass(time);
                pids.iter().for_each(|pid| signal(*pid, Signal::SIGCONT));
            }
            Action::End(end, after) => {
                pass(after);
                self.end(end);
            }
            Action::Backup => self.backup(),
        }
        let ended = (self.fnd.ended(), self.fnd.spawner_ended());
        assert!(
            ended == (None, None),
            "fnd and its spawner ended ({ended:?}) at {action:?}"
        );
    }

    /// Waits for fnd to answer, after the last action.
    pub(super) fn calm(&mut self) {
        self.ground.step(0);
        self.drop("moves");
        self.ask("/v1/functions/moves/enable");
        let ended = self.fnd.wait_launched(PATIENCE);
        assert!(ended.is_none(), "fnd ended: {ended:?}");
    }

    fn edit(&mut self, name: &'static str, edit: Edit, after: Duration) {
        let (file, _) = files()
            .into_iter()
            .find(|(file, _)| file.starts_with(name))
            .expect("a function");
        let path = self.fnd.function_path(file);
        match edit {
            Edit::Renamed => {}
            Edit::InPlace => {
                let text = fs::read_to_string(&path).expect("it is there");
                let (first, second) = text.split_at(text.len() / 2);
                let mut open = fs::OpenOptions::new()
                    .write(true)
                    .truncate(true)
                    .open(&path)
                    .expect("it is ours");
                std::io::Write::write_all(&mut open, first.as_bytes()).expect("it is written");
                pass(after / 10);
                std::io::Write::write_all(&mut open, second.as_bytes()).expect("it is written");
            }
            Edit::Broken => {
                let text = fs::read_to_string(&path).expect("it is there");
                self.fnd.drop_file(file, &text.replace("# [history]", "# [histery]"));
            }
        }
        pass(after);
        self.drop(name);
    }

    fn move_about(&mut self, what: Move, time: Duration) {
        let path = self.fnd.function_path("moves.sh");
        match what {
            Move::Deleted => {
                fs::remove_file(&path).expect("it is there");
                pass(time);
                self.drop("moves");
            }
            Move::Renamed => {
                let other = self.fnd.function_path("moved.sh");
                fs::rename(&path, &other).expect("it is there");
                pass(time);
                fs::rename(&other, &path).expect("it is there");
            }
        }
    }

    fn away(&mut self, absence: Absence, time: Duration) {
        let functions = self.fnd.path("functions");
        match absence {
            Absence::Renamed => {
                let away = self.fnd.path("functions.away");
                fs::rename(&functions, &away).expect("it is there");
                pass(time);
                fs::rename(&away, &functions).expect("it is there");
            }
            Absence::Mounted => {
                self.ground.mount(&functions, "size=1m,mode=0755");
                pass(time);
                self.ground.unmount();
            }
        }
    }

    fn cancel(&self, count: u32) {
        let client = self.fnd.client();
        for _ in 0..count {
            let headers = [("content-type", "application/json")];
            let body = b"{\"tag\":\"cancelled\"}";
            let answer = client.try_call("POST", "/v1/functions/moves/invocations", &headers, body);
            // The function may be disabled or away, its queue full.
            if let Ok(answer) = answer
                && answer.status == 202
            {
                self.ask(&format!("/v1/invocations/{}/cancel", answer.json::<Queued>().id));
            }
        }
    }

    fn backup(&self) {
        let to = self.fnd.path("backup.tar");
        let run = self.fnd.ctl(&["backup", &to.display().to_string()]);
        let _ = run.expect_code(0);
        fs::remove_file(to).expect("a backup is a file");
    }

    fn end(&mut self, end: End) {
        match end {
            End::Planned => self.fnd.leave(Signal::SIGTERM),
            End::Killed(Whom::Fnd) => drop(self.fnd.kill()),
            End::Killed(Whom::Spawner) => {
                self.spawner_killed = true;
                self.fnd.kill_spawner();
            }
            End::Killed(Whom::Both) => {
                self.spawner_killed = true;
                // Both at once, so that neither process sees the other one end.
                signal(self.fnd.pid(), Signal::SIGSTOP);
                self.fnd.signal_spawner(Signal::SIGKILL);
                self.fnd.kill();
                self.fnd.kill_spawner();
            }
        }
        self.fnd.launch();
    }

    fn pids(&self, whom: Whom) -> Vec<u32> {
        match whom {
            Whom::Fnd => vec![self.fnd.pid()],
            Whom::Spawner => vec![self.fnd.spawner_pid()],
            Whom::Both => vec![self.fnd.pid(), self.fnd.spawner_pid()],
        }
    }

    /// Sends a request without a body. It may fail, depending on the other actions.
    fn ask(&self, path: &str) {
        wait_until(path, PATIENCE, || {
            self.fnd.client().try_call("POST", path, &[], b"").ok()
        });
    }
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).expect("an own child can be signalled");
}

/// Lets a process open only this many more files. Returns its old limit.
fn limit(pid: u32, more: u64) -> Rlimit {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64;
    let before = set(
        pid,
        Rlimit {
            current: Some(open + more),
            maximum: hard(pid),
        },
    );
    Rlimit {
        current: before.current,
        maximum: before.maximum,
    }
}

fn set(pid: u32, limit: Rlimit) -> Rlimit {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed());
    prlimit(pid, Resource::Nofile, limit).expect("root sets limits")
}

fn hard(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .expect("proc_pid_limits(5)");
    line.split_whitespace().nth(4).and_then(|number| number.parse().ok())
}

/// Waits for a chosen time.
fn pass(time: Duration) {
    let begun = fnd_tests::now();
    while begun.elapsed() < time {
        fnd_tests::wait::pause_briefly();
    }
}
