//! Talking to the judge: `fnd --judge`, a child without user, files or network that reads what people wrote.
//!
//! Requests are answered in order; up to [`IN_FLIGHT_MAX`] wait at once, and nothing here blocks. A judge that dies or hangs
//! costs the request in hand only: it is started again with the settings it had.

use crate::clone::{self, Child, Exec, Place};
use crate::poller::{Poller, Token};
use crate::sandbox::identity::Identity;
use crate::sandbox::rlimits::Rlimit;
use fnd_core::plan::{JudgeReply, JudgeRequest};
use fnd_core::wire::Wire as _;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// Requests waiting for an answer.
pub const IN_FLIGHT_MAX: usize = 32;
/// Largest message.
const MESSAGE_MAX: usize = 16 << 20;
/// How long one answer may take; parsing a manifest takes microseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The judge's user and group: no function's (the range begins above it), nobody's.
const JUDGE_ID: u32 = 69_999;

/// What an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ticket {
    /// Settings.
    Settings,
    /// The install of this number.
    Function(u64),
}

/// The judge and what is asked of it.
#[derive(Debug)]
pub struct Judge {
    program: PathBuf,
    root: bool,
    running: Option<Running>,
    settings: Option<Vec<u8>>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    since: Duration,
    message: Vec<u8>,
}

#[derive(Debug)]
struct Running {
    socket: OwnedFd,
    child: Child,
    unsent: Vec<u8>,
    received: Vec<u8>,
    /// Whether its next answer is to settings it was given only because it was started again.
    repeated: bool,
}

/// Answers that came, and those that never will.
pub type Answers = Vec<(Ticket, Option<JudgeReply>)>;

impl Judge {
    /// Returns a judge that is started when it is first asked.
    pub fn new(program: PathBuf, root: bool) -> Self {
        Self { program, root, running: None, settings: None, waiting: VecDeque::new() }
    }

    /// Returns how many requests are unanswered.
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Returns when the answer in hand is overdue.
    pub fn deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|first| first.since + PATIENCE)
    }

    /// Asks; the answer comes from [`work`](Self::work).
    ///
    /// # Errors
    /// Why the judge can't be asked, for people.
    pub fn ask(
        &mut self,
        ticket: Ticket,
        request: &JudgeRequest,
        now: Duration,
        poller: &Poller,
    ) -> Result<(), String> {
        let body = request.to_wire();
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MESSAGE_MAX);
        let length = length.ok_or("the files are larger than the judge takes")?;
        let message = [&length.to_le_bytes()[..], &body].concat();
        self.start(poller)?;
        if ticket == Ticket::Settings {
            self.settings = Some(message.clone());
        }
        let running = self.running.as_mut().ok_or("the judge is not running")?;
        running.unsent.extend_from_slice(&message);
        self.waiting.push_back(Waiting { ticket, since: now, message });
        Ok(())
    }

    /// Writes and reads what is possible, and returns the answers.
    pub fn work(&mut self, now: Duration, poller: &Poller) -> Answers {
        let mut answers = Vec::new();
        let overdue = self.deadline().is_some_and(|deadline| now >= deadline);
        let fine = match &mut self.running {
            Some(_) if overdue => Err(io::ErrorKind::TimedOut.into()),
            Some(running) => running.work(&mut self.waiting, &mut answers),
            None => return answers,
        };
        // The next answer's patience begins when it is its turn.
        if let (false, Some(front)) = (answers.is_empty(), self.waiting.front_mut()) {
            front.since = now;
        }
        if let Err(error) = fine {
            self.end(&error, now, poller, &mut answers);
        }
        answers
    }

    /// Ends a judge that failed: the request in hand is lost with it, the others are asked again.
    fn end(&mut self, error: &io::Error, now: Duration, poller: &Poller, answers: &mut Answers) {
        let Some(running) = self.running.take() else { return };
        crate::log!("the judge (pid {}) ended: {error}; it is started again when needed", running.child.pid);
        running.child.signal(rustix::process::Signal::KILL);
        let _ = crate::reap::wait(&running.child);
        if let Some(lost) = self.waiting.pop_front() {
            if lost.ticket == Ticket::Settings {
                self.settings = None; // or it would kill every judge after it
            }
            answers.push((lost.ticket, None));
        }
        if self.waiting.is_empty() {
            return;
        }
        if let Err(why) = self.start(poller) {
            crate::log!("{why}");
            answers.extend(self.waiting.drain(..).map(|lost| (lost.ticket, None)));
            return;
        }
        for again in &mut self.waiting {
            again.since = now;
            if let Some(running) = &mut self.running {
                running.unsent.extend_from_slice(&again.message);
            }
        }
    }

    fn start(&mut self, poller: &Poller) -> Result<(), String> {
        if self.running.is_none() {
            let program = self.program.display();
            let running =
                self.run(poller).map_err(|error| format!("failed to start the judge `{program}`: {error}"))?;
            self.running = Some(running);
        }
        Ok(())
    }

    fn run(&self, poller: &Poller) -> Result<Running, Box<dyn std::error::Error>> {
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let image = rustix::fs::open(&self.program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut limits = vec![(libc::RLIMIT_FSIZE, 0), (libc::RLIMIT_CORE, 0), (libc::RLIMIT_AS, 1 << 30)];
        // Counted over all processes of the user, so only where it is the judge's own.
        limits.extend(self.root.then_some((libc::RLIMIT_NPROC, 64)));
        let exec = Exec {
            argv: vec![c"fnd".to_owned(), c"--judge".to_owned()],
            directory: c"/".to_owned(),
            identity: self.root.then(|| Identity { uid: JUDGE_ID, gid: JUDGE_ID, groups: Vec::new() }),
            rlimits: limits.into_iter().map(|(resource, value)| Rlimit::new(resource, value)).collect(),
            // By descriptor: the judge's user may be unable to reach a program in somebody's home.
            image: Some(image),
            ..Exec::default()
        };
        let place = Place { cgroup: None, parent: false, stdio: [theirs.as_fd(), null.as_fd(), null.as_fd()] };
        let child = clone::start(&exec, place).inspect_err(|error| {
            let _ = error.child.as_ref().map(crate::reap::wait);
        })?;
        poller.add(&socket, Token::Judge)?;
        let unsent = self.settings.clone().unwrap_or_default();
        Ok(Running { socket, child, unsent, received: Vec::new(), repeated: self.settings.is_some() })
    }
}

impl Running {
    fn work(&mut self, waiting: &mut VecDeque<Waiting>, answers: &mut Answers) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match rustix::io::read(&self.socket, &mut buffer[..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.received.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while let Some(reply) = self.next_reply()? {
                if std::mem::take(&mut self.repeated) {
                    continue;
                }
                let ticket =
                    waiting.pop_front().ok_or_else(|| io::Error::other("it answered what was not asked"))?.ticket;
                let fits = matches!(
                    (ticket, &reply),
                    (Ticket::Settings, JudgeReply::Settings(_)) | (Ticket::Function(_), JudgeReply::Function(_))
                );
                answers.push((ticket, fits.then_some(reply)));
            }
        }
    }

    fn next_reply(&mut self) -> io::Result<Option<JudgeReply>> {
        let Some((length, rest)) = self.received.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MESSAGE_MAX {
            return Err(io::Error::other("its answer is too large"));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let reply = JudgeReply::from_wire(body).map_err(io::Error::other)?;
        self.received.drain(..4 + length);
        Ok(Some(reply))
    }
}
