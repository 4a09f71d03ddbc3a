//! Stands between a person and a program in a sandbox. The program never has a terminal of the person: its user could read the person's
//! keys from there. It gets a pseudo terminal, or pipes, and the bytes are passed on.

use super::enter::Entry;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag::register;
use std::ffi::CString;
use std::io::{Error, Result, stderr, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs a program until it ends. `is_shell`: a person types, even if the output goes elsewhere.
///
/// # Errors
/// The terminal cannot be used, or no child can be made.
pub(super) fn run(entry: Entry, is_shell: bool) -> Result<ExitStatus> {
    if isatty(stdin()) && (is_shell || isatty(stdout())) {
        run_in_terminal(entry)
    } else {
        run_in_pipes(entry)
    }
}

fn run_in_terminal(mut entry: Entry) -> Result<ExitStatus> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    let modes = tcgetattr(stdin())?;
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    tcsetwinsize(&theirs, tcgetwinsize(stdin())?)?;
    if entry.process.variable("TERM").is_none() {
        let term = std::env::var("TERM").ok();
        let line = term.and_then(|term| CString::new(format!("TERM={term}")).ok());
        entry.process.environment.extend(line);
    }
    let stdio = [theirs.try_clone()?, theirs.try_clone()?, theirs].map(Stdio::from);
    let child = entry.start(stdio, true)?;
    let input = Flow::new(&stdin(), &ours)?;
    let output = Flow::new(&ours, &stdout())?;
    relay(child, (Some(input), vec![output]), Some((&ours, modes)))
}

fn run_in_pipes(entry: Entry) -> Result<ExitStatus> {
    // The command of `fndctl shell F -- COMMAND | less` must not take the keys that are meant for less. Of a file it gets the bytes, and
    // no descriptor that root has opened.
    let input = if isatty(stdin()) { Stdio::null() } else { Stdio::piped() };
    let mut child = entry.start([input, Stdio::piped(), Stdio::piped()], false)?;
    let input = child.stdin.take().map(|pipe| Flow::new(&stdin(), &pipe));
    let output = child.stdout.take().map(|pipe| Flow::new(&pipe, &stdout()));
    let errors = child.stderr.take().map(|pipe| Flow::new(&pipe, &stderr()));
    let outputs = output.into_iter().chain(errors).collect::<Result<Vec<_>>>()?;
    relay(child, (input.transpose()?, outputs), None)
}

/// The person's terminal while each key is passed on; gets its modes back when this is dropped.
struct RawTerminal(Termios);

impl RawTerminal {
    fn enter(modes: Termios) -> Result<Self> {
        let mut raw = modes.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self(modes))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Keys that were typed for the program, or sent by the terminal to answer it, are not for the person's own shell. An error: the
        // terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.0);
    }
}

/// The most bytes that are read after the child has ended: no pipe of a user holds more by default (pipe(7)). Other processes of the function
/// can have its pipes or its terminal, too, and could write for ever.
const MOST_LEFT: usize = 1 << 20;

/// Bytes in one direction.
struct Flow {
    from: OwnedFd,
    to: OwnedFd,
    /// Bytes that were read and are not written yet.
    waiting: Vec<u8>,
    is_over: bool,
}

impl Flow {
    fn new(from: &impl AsFd, to: &impl AsFd) -> Result<Self> {
        Ok(Self {
            from: from.as_fd().try_clone_to_owned()?,
            to: to.as_fd().try_clone_to_owned()?,
            waiting: Vec::new(),
            is_over: false,
        })
    }

    fn poll_fd(&self) -> PollFd<'_> {
        match self.waiting.is_empty() {
            true => PollFd::new(&self.from, PollFlags::IN),
            false => PollFd::new(&self.to, PollFlags::OUT),
        }
    }

    /// Reads or writes once; returns how many bytes it has read.
    fn step(&mut self) -> usize {
        let mut buffer = [0; 4096];
        let done = if self.waiting.is_empty() {
            retry_on_intr(|| read(&self.from, &mut buffer)).inspect(|length| {
                self.is_over = *length == 0;
                self.waiting.extend(buffer.iter().take(*length));
            })
        } else {
            retry_on_intr(|| write(&self.to, &self.waiting)).map(|length| {
                drop(self.waiting.drain(..length));
                0
            })
        };
        // EIO: no process has the pseudo terminal open any more. EPIPE: the reader has left.
        self.is_over |= done.is_err_and(|error| error != Errno::AGAIN);
        done.unwrap_or(0)
    }
}

/// Passes bytes on until the child has ended, and what it has written is read. `terminal`: the pseudo terminal, which has the size of the
/// person's, and the person's modes.
fn relay(
    mut child: Child,
    (mut input, mut outputs): (Option<Flow>, Vec<Flow>),
    terminal: Option<(&OwnedFd, Termios)>,
) -> Result<ExitStatus> {
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        register(signal, Arc::clone(&stop))?;
    }
    // After the signals, which would end fndctl with the terminal's modes changed.
    let raw = terminal.map(|(pty, modes)| {
        // The handler only interrupts `poll`.
        register(SIGWINCH, Arc::<AtomicBool>::default())?;
        // A write to a pseudo terminal that nobody reads must not hold up the output.
        fcntl_setfl(pty, fcntl_getfl(pty)? | OFlags::NONBLOCK)?;
        Ok::<_, Error>((pty, RawTerminal::enter(modes)?))
    });
    let raw = raw.transpose()?;
    let mut has_ended = false;
    let mut left = MOST_LEFT;
    loop {
        if stop.load(Ordering::Relaxed) {
            if has_ended {
                break;
            }
            child.kill()?;
        }
        if let Some((pty, _)) = &raw {
            // Of the same size the kernel reports nothing. An error: the person's terminal is gone.
            let _ = tcgetwinsize(stdin()).and_then(|size| tcsetwinsize(pty, size));
        }
        // After the end, only what was written before it is still read.
        let is_written = has_ended && outputs.iter().all(|flow| flow.waiting.is_empty());
        // A signal between the check above and `poll` is noticed a second later.
        let patience = Timespec {
            tv_sec: i64::from(!is_written),
            tv_nsec: 0,
        };
        let mut wanted: Vec<PollFd<'_>> = outputs.iter().chain(&input).map(Flow::poll_fd).collect();
        if !has_ended {
            wanted.push(PollFd::new(&pidfd, PollFlags::IN));
        }
        match poll(&mut wanted, Some(&patience)) {
            Ok(ready) if is_written && (ready == 0 || left == 0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready: Vec<bool> = wanted.iter().map(|one| !one.revents().is_empty()).collect();
        if !has_ended && ready.pop() == Some(true) {
            (has_ended, input) = (true, None);
        }
        let flows = outputs.iter_mut().chain(&mut input).zip(ready);
        let read: usize = flows
            .filter(|(_, is_ready)| *is_ready)
            .map(|(flow, _)| flow.step())
            .sum();
        if has_ended {
            left = left.saturating_sub(read);
        }
        // One end of a pipe of the program is closed with these: it learns that its reader has left, or that no more input comes.
        outputs.retain(|flow| !flow.is_over);
        input = input.filter(|flow| !flow.is_over);
    }
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::process::Command;

    /// Returns the exit code and the output of a script with this input.
    fn relayed(script: &str, input: &[u8]) -> (Option<i32>, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| directory.path().join(name));
        fs::write(&from, input).unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = Flow::new(&File::open(&from).unwrap(), &child.stdin.take().unwrap()).unwrap();
        let output = Flow::new(&child.stdout.take().unwrap(), &File::create(&to).unwrap()).unwrap();
        let ended = relay(child, (Some(input), vec![output]), None).unwrap();
        (ended.code(), fs::read(&to).unwrap())
    }

    #[test]
    fn all_bytes_are_passed_on() {
        let long = vec![b'x'; 100_000];
        assert_eq!(relayed("cat; exit 3", &long), (Some(3), long.clone()));
        assert_eq!(relayed("exec <&-; echo on", &long), (Some(0), b"on\n".to_vec()));
    }

    #[test]
    fn a_process_that_writes_for_ever_does_not_hold_up_the_end() {
        assert_eq!(relayed("yes & exit 4", b"").0, Some(4));
    }
}
