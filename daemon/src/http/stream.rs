//! Answers that come in pieces: lines of output, changes of functions.

use super::body::{Body, Chunks};
use super::limits::{FOLLOW_GAP, LINES_PER_CHUNK};
use super::response::{Answered, typed};
use fnd_core::api::stream::StreamEvent;
use fnd_core::api::{FunctionChange, LogLine};
use hyper::header::CONTENT_LENGTH;
use serde::Serialize;
use std::fmt::Debug;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tokio::time::Interval;

/// The format of streamed lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `{"lines": [...]}`.
    List,
    /// One JSON object per line, as they come; an empty line after [`FOLLOW_GAP`] without one.
    Lines,
    /// Server-sent events (WHATWG HTML, section 9.2); a comment after [`FOLLOW_GAP`] without one.
    Events,
}

/// A value that is sent as one piece.
pub(crate) trait Piece: Serialize + Debug {
    /// Returns its id and its kind as an event; nothing if it has none.
    fn as_event(&self) -> Option<(String, &'static str)> {
        None
    }
}

impl Piece for LogLine {}
impl Piece for FunctionChange {}

impl Piece for StreamEvent {
    fn as_event(&self) -> Option<(String, &'static str)> {
        Some((self.seq.to_string(), self.kind.as_str()))
    }
}

/// Returns an answer that sends lines as they come.
pub(crate) fn lines<T: Piece + 'static>(lines: mpsc::Receiver<T>, framing: Framing) -> Answered {
    let (content_type, gap) = match framing {
        Framing::List => ("application/json", None),
        Framing::Lines => ("application/x-ndjson", Some(FOLLOW_GAP)),
        Framing::Events => ("text/event-stream", Some(FOLLOW_GAP)),
    };
    // The first tick of a plain interval comes at once.
    let gap = gap.map(|gap| tokio::time::interval_at(tokio::time::Instant::now() + gap, gap));
    let stream = LineStream {
        lines,
        framing,
        gap,
        sent: 0,
        over: false,
    };
    typed(content_type, Body::stream(stream))
}

/// Returns an answer that sends a file as it comes. If reading it breaks off, the body is shorter than announced, which
/// the client notices.
pub(crate) fn pieces(content_type: &'static str, size: u64, bytes: mpsc::Receiver<Vec<u8>>) -> Answered {
    let mut answer = typed(content_type, Body::stream(bytes));
    answer.headers_mut().insert(CONTENT_LENGTH, size.into());
    answer
}

impl Chunks for mpsc::Receiver<Vec<u8>> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.poll_recv(cx)
    }
}

#[derive(Debug)]
struct LineStream<T> {
    lines: mpsc::Receiver<T>,
    framing: Framing,
    gap: Option<Interval>,
    /// Number of lines sent so far.
    sent: usize,
    over: bool,
}

impl<T: Piece> Chunks for LineStream<T> {
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
                    let nothing = if self.framing == Framing::Events { ":\n\n" } else { "\n" };
                    return Poll::Ready(Some(nothing.into()));
                }
                Poll::Pending
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn is_endless(&self) -> bool {
        self.gap.is_some()
    }
}

impl<T: Piece> LineStream<T> {
    /// Returns the bytes of some lines; for no lines the bytes of the end.
    fn frame(&mut self, ready: &[T]) -> Vec<u8> {
        let mut chunk = Vec::new();
        if self.framing == Framing::List && self.sent == 0 {
            chunk.extend_from_slice(b"{\"lines\":[");
        }
        for line in ready {
            if self.framing == Framing::List && self.sent > 0 {
                chunk.push(b',');
            }
            // A browser that reconnects sends the last `id` as `Last-Event-ID`, and the stream goes on after it.
            if let (Framing::Events, Some((id, kind))) = (self.framing, line.as_event()) {
                chunk.extend_from_slice(format!("id: {id}\nevent: {kind}\ndata: ").as_bytes());
            }
            // The values consist of texts and numbers, so this cannot fail, and gives one line.
            chunk.extend_from_slice(&serde_json::to_vec(line).unwrap_or_default());
            chunk.extend_from_slice(match self.framing {
                Framing::List => b"",
                Framing::Lines => b"\n",
                Framing::Events => b"\n\n",
            });
            self.sent += 1;
        }
        if self.over && self.framing == Framing::List {
            chunk.extend_from_slice(b"]}");
        }
        chunk
    }
}
