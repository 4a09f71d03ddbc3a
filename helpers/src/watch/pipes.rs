//! The messages to and from fnd on standard input and output, neither of which may block.

use fnd_core::triggers::file::message::{FromWatcher, Messages, ToWatcher, put};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that wait for fnd. Above this the watcher looks for no more files until fnd has read them.
const OUTPUT_MAX: usize = 1 << 20;

pub(super) struct Pipes<'a> {
    pub(super) input: BorrowedFd<'a>,
    pub(super) output: BorrowedFd<'a>,
    messages: Messages,
    buffer: Vec<u8>,
    written: usize,
}

impl<'a> Pipes<'a> {
    pub(super) fn new(input: BorrowedFd<'a>, output: BorrowedFd<'a>) -> io::Result<Self> {
        for pipe in [input.as_fd(), output.as_fd()] {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(Self {
            input,
            output,
            messages: Messages::default(),
            buffer: Vec::new(),
            written: 0,
        })
    }

    /// Reads the messages that are there now, at most a piece. Nothing: fnd has ended, or the function has no entries any more.
    pub(super) fn receive(&mut self) -> io::Result<Option<Vec<ToWatcher>>> {
        // A pipe holds no more by default (pipe(7)).
        let mut buffer = [0; 64 << 10];
        match rustix::io::read(self.input, &mut buffer) {
            Ok(0) => return Ok(None),
            Ok(count) => self.messages.add(buffer.get(..count).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut messages = Vec::new();
        while let Some(message) = self.messages.take().map_err(io::Error::other)? {
            messages.push(message);
        }
        Ok(Some(messages))
    }

    pub(super) fn say(&mut self, message: &FromWatcher) {
        put(message, &mut self.buffer);
    }

    pub(super) fn is_full(&self) -> bool {
        self.buffer.len() - self.written > OUTPUT_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Writes as much as fnd takes now.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while let Some(rest) = self.buffer.get(self.written..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(self.output, rest) {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.written = 0;
        self.buffer.clear();
        // The memory of a large burst is freed, since it counts against the limit of the function.
        self.buffer.shrink_to(OUTPUT_MAX / 16);
        Ok(())
    }
}
