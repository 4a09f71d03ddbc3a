//! Answers that come piece by piece: lines of output, changes of functions.

use super::limits::{FOLLOW_GAP, LINES_PER_CHUNK};
use super::response::{Answered, Body};
use hyper::Response;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use serde::Serialize;
use std::fmt::Debug;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tokio::time::Interval;

/// A body in pieces.
pub(super) trait Chunks: Debug {
    /// Returns the next piece; nothing after the last.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
    /// Says whether nothing follows.
    fn is_over(&self) -> bool;
}

/// How streamed lines are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// `{"lines": [...]}`.
    List,
    /// A JSON object a line, as they come; an empty line where nothing came for [`FOLLOW_GAP`].
    Lines,
}

/// Returns lines as they come.
pub(super) fn lines<T: Serialize + Debug + 'static>(lines: mpsc::Receiver<T>, framing: Framing) -> Answered {
    let (content_type, gap) = match framing {
        Framing::List => ("application/json", None),
        Framing::Lines => ("application/x-ndjson", Some(FOLLOW_GAP)),
    };
    let gap = gap.map(|gap| tokio::time::interval_at(tokio::time::Instant::now() + gap, gap));
    let stream = Stream {
        lines,
        framing,
        gap,
        sent: 0,
        over: false,
    };
    let mut response = Response::new(Body::stream(stream));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a file as it comes. Where it breaks off the body is shorter than it says, which the client sees.
pub(super) fn pieces(content_type: &'static str, size: u64, bytes: mpsc::Receiver<Vec<u8>>) -> Answered {
    let mut response = Response::new(Body::stream(File { bytes, over: false }));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, size.into());
    response
}

#[derive(Debug)]
struct File {
    bytes: mpsc::Receiver<Vec<u8>>,
    over: bool,
}

impl Chunks for File {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let piece = ready!(self.bytes.poll_recv(cx));
        self.over = piece.is_none();
        Poll::Ready(piece)
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

#[derive(Debug)]
struct Stream<T> {
    lines: mpsc::Receiver<T>,
    framing: Framing,
    gap: Option<Interval>,
    /// Lines sent so far.
    sent: usize,
    over: bool,
}

impl<T: Serialize + Debug> Chunks for Stream<T> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let mut ready = Vec::new();
        match self.lines.poll_recv_many(cx, &mut ready, LINES_PER_CHUNK) {
            Poll::Ready(0) => {
                self.over = true;
                Poll::Ready(Some(self.frame(&[])).filter(|chunk| !chunk.is_empty()))
            }
            Poll::Ready(_) => {
                if let Some(gap) = &mut self.gap {
                    gap.reset();
                }
                Poll::Ready(Some(self.frame(&ready)))
            }
            Poll::Pending => {
                if let Some(gap) = &mut self.gap {
                    ready!(gap.poll_tick(cx));
                    return Poll::Ready(Some(b"\n".to_vec()));
                }
                Poll::Pending
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

impl<T: Serialize> Stream<T> {
    /// Returns the bytes of lines; of none, those of the end.
    fn frame(&mut self, ready: &[T]) -> Vec<u8> {
        let mut chunk = Vec::new();
        if self.framing == Framing::List && self.sent == 0 {
            chunk.extend_from_slice(b"{\"lines\":[");
        }
        for line in ready {
            if self.framing == Framing::List && self.sent > 0 {
                chunk.push(b',');
            }
            // Texts and numbers: JSON can say it.
            chunk.extend_from_slice(&serde_json::to_vec(line).unwrap_or_default());
            if self.framing == Framing::Lines {
                chunk.push(b'\n');
            }
            self.sent += 1;
        }
        if self.over && self.framing == Framing::List {
            chunk.extend_from_slice(b"]}");
        }
        chunk
    }
}
