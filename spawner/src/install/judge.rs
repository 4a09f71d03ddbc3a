//! Talks to the judge: `fnd-helper --judge`, a child without user, files or network that reads files that people wrote.
//!
//! One judge process reads files of one owner only: a person whose file takes over the judge can't change the verdicts
//! on other people's files. A judge handles one request after the other; some are sent ahead, so that neither side waits
//! for the other between two of them. Nothing here blocks. If a judge dies or hangs, only the request that it was working
//! on is lost: a new judge gets the same settings and the requests that were sent ahead.

use super::*;
use crate::clock::now;
use crate::log::Failed as _;
use crate::poller::{Poller, Token};
use crate::process::clone::Child;
use crate::process::{closing, reap, unprivileged};
use crate::protocol::Channel;
use fnd_wire::frame::{FRAME_MAX, PROTOCOL_MAX};
use fnd_wire::plan::{ANSWER_MAX, JudgeReply};
use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};

/// Deadline for one answer; parsing a manifest takes microseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most requests without an answer, and most bytes of these, apart from the last one.
const AHEAD: (usize, usize) = (32, 1 << 20);

/// The judge and the request it is working on.
#[derive(Default)]
pub struct Judge {
    program: PathBuf,
    root: bool,
    /// The program's file as it was first opened. A later judge must have the wire form of this build, also after an
    /// upgrade.
    image: Option<OwnedFd>,
    running: Option<(Channel, Child)>,
    /// Uid of the owner whose files the judge has read.
    pub owner: Option<u32>,
    /// The message with the last settings that the judge accepted.
    pub settings: Option<Vec<u8>>,
    /// Whether the next answer is to settings that the judge got only because it was started again.
    repeated: bool,
    /// The messages without an answer: the first one is the current one.
    asked: std::collections::VecDeque<Vec<u8>>,
    /// The deadline for the answer to the current one.
    deadline: Duration,
}

impl Judge {
    /// Returns a judge whose process is started at the first request.
    pub fn new(program: PathBuf, root: bool) -> Self {
        Self { program, root, ..Self::default() }
    }

    /// Returns whether this is the judge's process.
    pub fn is(&self, pid: u32) -> bool {
        self.running.as_ref().is_some_and(|(_, child)| child.pid == pid)
    }

    /// Returns the deadline for the current answer; none if no request is open.
    pub fn deadline(&self) -> Option<Duration> {
        Some(self.deadline).filter(|_| !self.asked.is_empty())
    }

    /// Gives the judge this much more time: the spawner did not run meanwhile.
    pub fn wait_longer(&mut self, pause: Duration) {
        self.deadline += pause;
    }

    /// Returns whether a request about files of this owner may be sent now.
    pub fn has_room(&self, owner: u32) -> bool {
        let bytes = || self.asked.iter().map(Vec::len).sum::<usize>();
        self.asked.is_empty() || self.owner == Some(owner) && self.asked.len() < AHEAD.0 && bytes() < AHEAD.1
    }

    /// Sends a request about files of this owner; the answer comes from [`answer`](Self::answer). If the last files
    /// were another owner's, a new judge is started first.
    ///
    /// # Errors
    /// Why the request can't be sent, for people.
    pub fn ask(&mut self, request: &JudgeRequest, owner: u32, poller: &Poller) -> Result<(), String> {
        let message = request.to_wire();
        if message.len() > FRAME_MAX {
            return Err("the files are larger than the judge accepts".to_owned());
        }
        // `has_room` has made sure that no request about files of the other owner waits.
        if self.owner.replace(owner).is_some_and(|last| last != owner) {
            self.end();
        }
        self.send(&message, poller)?;
        if self.asked.is_empty() {
            self.deadline = now() + PATIENCE;
        }
        self.asked.push_back(message);
        Ok(())
    }

    /// Sends a message, to a new judge if none runs.
    fn send(&mut self, message: &[u8], poller: &Poller) -> Result<(), String> {
        if let Some((channel, _)) = &mut self.running {
            let _ = channel.send(message, Vec::new()); // an error here or below shows at the next receive
            return Ok(());
        }
        let program = self.program.display().to_string();
        let (mut channel, child) = self.start(poller).failed(&format!("start the judge `{program}`"))?;
        self.repeated = self.settings.is_some();
        for message in self.settings.as_deref().into_iter().chain([message]) {
            let _ = channel.send(message, Vec::new());
        }
        self.running = Some((channel, child));
        Ok(())
    }

    /// Sends and receives without blocking. Returns the answer to the current request if it came; `Some(None)` means
    /// that the judge ended and no answer will come.
    pub fn answer(&mut self, poller: &Poller) -> Option<Option<JudgeReply>> {
        let answer = match self.receive() {
            Ok(None) => return None,
            Ok(Some(reply)) => Some(reply),
            Err(error) => {
                if let Some(pid) = self.end() {
                    crate::log!("the judge (pid {pid}) ended: {error}; fnd-spawner starts a new one when needed");
                }
                None
            }
        };
        let message = self.asked.pop_front()?;
        // The judge begins with the next request only now.
        self.deadline = now() + PATIENCE;
        // Settings that were refused must not come into force with the next judge.
        if matches!(&answer, Some(JudgeReply::Settings(settings)) if settings.verdict.policy.is_some()) {
            self.settings = Some(message);
        }
        if answer.is_none() {
            let ahead = std::mem::take(&mut self.asked);
            // If no judge can be started, the next call finds none running.
            let _ = ahead.iter().try_for_each(|message| self.send(message, poller)).map_err(|why| crate::log!("{why}"));
            self.asked = ahead;
        }
        Some(answer)
    }

    fn end(&mut self) -> Option<u32> {
        let (channel, child) = self.running.take()?;
        channel.give_up();
        reap::end(&child);
        Some(child.pid)
    }

    fn receive(&mut self) -> io::Result<Option<JudgeReply>> {
        let Some((channel, _)) = &mut self.running else {
            return if self.asked.is_empty() { Ok(None) } else { Err(io::ErrorKind::NotConnected.into()) };
        };
        channel.flush()?;
        while let Some(frame) = channel.receive()? {
            closing::later(frame.descriptors); // the spawner wants none
            if frame.bytes.len() > ANSWER_MAX {
                return Err(io::Error::other("its answer is too large"));
            }
            let reply = JudgeReply::from_wire(&frame.bytes).map_err(io::Error::other)?;
            if !std::mem::take(&mut self.repeated) {
                return Ok(Some(reply));
            }
        }
        let late = self.deadline().is_some_and(|deadline| now() >= deadline);
        if late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(None) }
    }

    fn start(&mut self, poller: &Poller) -> Result<(Channel, Child), Box<dyn std::error::Error>> {
        let (channel, theirs) = Channel::pair()?;
        let image = self.image.take().map_or_else(|| unprivileged::image(&self.program), Ok)?;
        let image = self.image.insert(image);
        let protocol = CString::new(format!("--protocol={PROTOCOL_MAX}"))?;
        let arguments = vec![c"--judge".to_owned(), protocol];
        let child = unprivileged::start(image, arguments, self.root, (theirs.as_fd(), None))?;
        poller.add(&channel, (Token::Judge, 0))?;
        Ok((channel, child))
    }
}
