//! A running attempt of a script: reads its two pipes.

use super::Io;
use crate::clock;
use crate::output::capture::Capture;
use crate::output::log_store::Stream;
use crate::output::spool::Spool;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Most bytes read at the end. A pipe holds 1 MiB at most; more can only come from a process outside the leaf.
const LAST: usize = 2 << 20;

pub(super) struct RunningPoll {
    pub(super) capture: Capture,
    pub(super) spool: Spool,
    /// How many of its lines an earlier fnd has kept.
    pub(super) stored: u64,
    /// Of standard output and error.
    pub(super) pipes: [Option<Pipe>; 2],
}

pub(super) struct Pipe {
    pub(super) end: OwnedFd,
    /// Watched for its first bytes only; they are read with a delay.
    pub(super) first: bool,
}

impl RunningPoll {
    /// Reads until the pipe is empty, `most` bytes were read, or the pipe has ended. A pipe that has ended is closed.
    pub(super) fn read(&mut self, stream: Stream, most: usize, io: &mut Io) {
        let meta = self.capture.meta.clone();
        let mut read = 0;
        while read < most {
            io.spools.begin(&mut self.spool, &meta);
            let Some(pipe) = &self.pipes[stream.pipe()] else { return };
            match io.spools.take(&mut self.spool, stream, &pipe.end, &mut io.buffer) {
                Ok((0, _)) => self.close(stream, io),
                Ok((count, time_ms)) => {
                    read += count;
                    io.sinks.feed(&mut self.capture, (stream, time_ms), &io.buffer[..count]);
                    // After the bytes were fed: a snapshot replaces all chunks, so it must have these bytes too.
                    io.spools.bound(&mut self.spool, &mut self.capture);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(
                        "failed to read output of `{}` ({error}), the rest of it is lost",
                        meta.function
                    );
                    self.close(stream, io);
                }
            }
        }
    }

    /// Reads the rest of a pipe and leaves the bytes in it.
    pub(super) fn last(&mut self, stream: Stream, io: &mut Io) {
        let meta = self.capture.meta.clone();
        let Some(pipe) = &self.pipes[stream.pipe()] else { return };
        match io.tee.copy(&pipe.end) {
            Ok(mut left) => {
                let time_ms = clock::unix_ms();
                while left > 0 {
                    let count = match io.tee.read(&mut io.buffer) {
                        Ok(count) => count,
                        Err(error) => {
                            tracing::error!("failed to read the last output of `{}` ({error})", meta.function);
                            return;
                        }
                    };
                    left = left.saturating_sub(count);
                    io.sinks.feed(&mut self.capture, (stream, time_ms), &io.buffer[..count]);
                }
            }
            // The pipe holds more than can be copied: its bytes are taken out and spooled as before.
            Err(_) => self.read(stream, LAST, io),
        }
    }

    pub(super) fn close(&mut self, stream: Stream, io: &Io) {
        if let Some(pipe) = self.pipes[stream.pipe()].take() {
            io.end_watch(&pipe.end);
        }
    }
}

pub(super) fn stream(mark: u64) -> Stream {
    Stream::PIPES[usize::from(mark & 1 == 1)]
}
