//! Stops fnd and its spawner, and checks that nothing remains.

use super::Fnd;
use crate::leftovers::Mark;
use crate::wait::{PATIENCE, wait_until};
use fnd_core::api::{NodeState, NodeStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitStatus;

impl Fnd {
    /// Returns how fnd ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().expect("an own child can be asked")
    }

    /// Sends fnd a signal.
    ///
    /// # Panics
    /// When it is not running.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a pid is a positive i32");
        kill(Pid::from_raw(pid), signal).expect("an own child can be signalled");
    }

    /// Waits for fnd's end, checks that no process and no cgroup remains, and returns the exit code.
    ///
    /// # Panics
    /// When it does not end in time, or leaves a process or a cgroup.
    #[track_caller]
    pub fn wait_stopped(&mut self) -> Option<i32> {
        self.wait_end_without(Mark::find)
    }

    /// As above for an end after which no spawner can clean up: no process may remain, but empty cgroups may.
    ///
    /// # Panics
    /// When it does not end in time, or leaves a process.
    #[track_caller]
    pub fn wait_died(&mut self) -> Option<i32> {
        self.wait_end_without(Mark::processes)
    }

    #[track_caller]
    fn wait_end_without(&mut self, leftovers: impl Fn(&Mark) -> Vec<String>) -> Option<i32> {
        let status = wait_until("fnd to end", PATIENCE, || self.ended());
        self.child = None;
        let start = crate::now();
        loop {
            let left = leftovers(&self.mark);
            if left.is_empty() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "fnd left {left:#?}");
            crate::wait::pause();
        }
    }

    /// Stops or kills fnd but not its detached spawner, and starts the next one.
    ///
    /// # Panics
    /// When it does not end in time, or well after SIGTERM, or the next does not answer.
    #[track_caller]
    pub fn replace(&mut self, signal: Signal) {
        self.leave(signal);
        self.launch();
    }

    /// Stops or kills fnd but not its detached spawner.
    ///
    /// # Panics
    /// When it does not end within 2 s of SIGTERM (times five, for busy machines), or not well.
    #[track_caller]
    pub fn leave(&mut self, signal: Signal) {
        assert!(self.spawner.is_some(), "only a detached spawner outlives fnd");
        self.signal(signal);
        let status = wait_until("fnd to end", PATIENCE / 2, || self.ended());
        self.child = None;
        if signal == Signal::SIGTERM {
            assert_eq!(status.code(), Some(0), "{}", self.log());
        }
    }

    /// Kills fnd, if it is still there, but not its detached spawner. Says whether it was.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn kill(&mut self) -> bool {
        let there = self.child.is_some() && self.ended().is_none();
        if there {
            self.signal(Signal::SIGKILL);
            wait_until("fnd to end", PATIENCE / 2, || self.ended());
        }
        self.child = None;
        there
    }

    /// Sends the detached spawner a signal.
    ///
    /// # Panics
    /// When there is none.
    pub fn signal_spawner(&self, signal: Signal) {
        let spawner = self.spawner.as_ref().expect("a detached spawner");
        let pid = i32::try_from(spawner.id()).expect("a pid is a positive i32");
        kill(Pid::from_raw(pid), signal).expect("an own child can be signalled");
    }

    /// Returns the process id of the detached spawner.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn spawner_pid(&self) -> u32 {
        self.spawner.as_ref().expect("a detached spawner").id()
    }

    /// Returns how the detached spawner ended, if it did.
    pub fn spawner_ended(&mut self) -> Option<ExitStatus> {
        self.spawner.as_mut()?.try_wait().expect("an own child can be asked")
    }

    /// Kills the detached spawner: all processes that it started end with it, and fnd ends by itself.
    ///
    /// # Panics
    /// When there is none, or a process stays.
    #[track_caller]
    pub fn kill_spawner(&mut self) {
        self.signal_spawner(Signal::SIGKILL);
        let mut spawner = self.spawner.take().expect("a detached spawner");
        spawner.wait().expect("an own child can be waited for");
        wait_until("fnd to end without its spawner", PATIENCE, || {
            (self.child.is_none() || self.ended().is_some()).then_some(())
        });
        self.child = None;
        let start = crate::now();
        while !self.mark.processes().is_empty() {
            let left = || self.mark.processes();
            assert!(
                start.elapsed() < PATIENCE,
                "a killed spawner left {:#?}\n{}",
                left(),
                self.log()
            );
            crate::wait::pause();
        }
    }

    /// Stops the detached spawner with SIGTERM; it ends running workers.
    ///
    /// # Panics
    /// When it does not end well, or leaves something.
    #[track_caller]
    pub fn stop_spawner(&mut self) {
        self.signal_spawner(Signal::SIGTERM);
        let mut spawner = self.spawner.take().expect("a detached spawner");
        let status = wait_until("fnd-spawner to end", PATIENCE, || {
            spawner.try_wait().expect("an own child can be asked")
        });
        assert!(status.success(), "{status}\n{}", self.log());
        wait_until("nothing to be left", PATIENCE, || {
            self.mark.find().is_empty().then_some(())
        });
    }

    /// Stops fnd as Ctrl-C does: running work is finished first.
    ///
    /// # Panics
    /// When it does not end well, or leaves something.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.wait_stopped(), Some(0), "{}", self.log());
    }

    /// Stops fnd at once: running work is killed.
    ///
    /// # Panics
    /// When it does not end, or leaves something.
    #[track_caller]
    pub fn stop_now(&mut self) {
        self.signal(Signal::SIGTERM);
        // Signals are not queued: two at once count as one.
        wait_until("fnd to have seen the first signal", PATIENCE, || {
            if self.ended().is_some() {
                return Some(());
            }
            let answer = self.client().try_call("GET", "/v1/status", &[], b"").ok()?;
            (answer.json::<NodeStatus>().state != NodeState::Running).then_some(())
        });
        if self.ended().is_none() {
            self.signal(Signal::SIGTERM);
        }
        self.wait_stopped();
    }

    /// Kills fnd with SIGKILL, like a crash, and returns when no process of it remains.
    ///
    /// # Panics
    /// When something is.
    #[track_caller]
    pub fn crash(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait_stopped();
    }

    /// Ends the test: stops fnd and checks that nothing remains.
    ///
    /// # Panics
    /// As [`stop`](Self::stop).
    #[track_caller]
    pub fn finish(mut self) {
        if self.spawner.is_some() {
            self.leave(Signal::SIGTERM);
            self.stop_spawner();
        } else {
            self.stop();
        }
    }
}

impl Drop for Fnd {
    #[expect(clippy::print_stderr, reason = "a failed test shows what the daemon saw")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of fnd\n{}--- end of the log", self.log());
        }
        for mut child in self.child.take().into_iter().chain(self.spawner.take()) {
            // The test failed, and its own assertion says why; this only cleans up the machine.
            let _ = child.kill();
            let _ = child.wait();
            let start = crate::now();
            while !self.mark.processes().is_empty() && start.elapsed() < PATIENCE / 4 {
                crate::wait::pause();
            }
        }
        self.mark.sweep();
        remove_read_only(self.root.path());
    }
}

/// Makes directories below writable, so that the temporary directory can be removed: versions are installed read-only.
fn remove_read_only(directory: &Path) {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    // An error shows when the directory is removed.
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_read_only(&entry.path());
        }
    }
}
