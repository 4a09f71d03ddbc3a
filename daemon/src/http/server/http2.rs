//! One connection of HTTP/2: its requests are answered side by side, within limits, until the server is stopped.
//!
//! hyper bounds the rest: a client that opens and resets streams faster than they are accepted is cut off
//! (`max_pending_accept_reset_streams`).

use super::{HttpService, Life, RequestPhase, reached, time_is_up};
use crate::http::body::Body;
use crate::http::connection_io::{ConnectionSocket, Io};
use crate::http::connections::HttpConnection;
use crate::http::held_body::BodyProgress;
use crate::http::limits::{LAST_WORDS, READ_MAX, WRITE_MIN, WRITE_TIME};
use crate::http::response::Answered;
use hyper::StatusCode;
use hyper::body::{Body as _, Bytes};
use hyper::header::CONTENT_LENGTH;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Most requests of a connection at the same time.
const STREAMS_MAX: u32 = 100;
/// Bytes of a request's body, and of all bodies of a connection, that a client may send before they are read.
const WINDOWS: (u32, u32) = (64 << 10, 1 << 20);
/// How often a client that sends nothing is asked whether it is there, and how long its answer may take.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

tokio::task_local! {
    /// The bytes that were taken of the answer that the task sends.
    static TAKEN: BodyProgress;
}

/// Counts what is taken of an answer's body, within the task of its request.
pub(super) fn count_taken(body: &mut Body) {
    // An error: it is no task of `Streams`.
    let _ = TAKEN.try_with(|taken| body.count_taken(taken));
}

/// Leaves out the body of an answer that must not have one (RFC 9110, section 6.4.1). hyper does this for HTTP/1.1 only, and clients
/// reset such a stream.
pub(super) fn leave_out_body(answer: &mut Answered, is_head: bool) {
    let has_none = matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if !is_head && !has_none {
        return;
    }
    if let Some(size) = answer.body().size_hint().exact().filter(|_| !has_none) {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert(size.into());
    }
    *answer.body_mut() = Body::whole(Bytes::new());
}

/// The requests of a connection, each a task. They end with the connection.
#[derive(Clone)]
struct Streams {
    tasks: Rc<RefCell<JoinSet<()>>>,
    place: Rc<HttpConnection>,
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut tasks = self.tasks.borrow_mut();
        // Nobody waits for this set, so requests that ended are taken out when the next one comes.
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!("a request of HTTP/2 ended in a panic: {error}");
            }
        }
        let place = Rc::clone(&self.place);
        tasks.spawn_local(async move {
            let taken = BodyProgress::default();
            tokio::select! {
                biased;
                () = TAKEN.scope(Rc::clone(&taken), stream) => {}
                // The stream is reset; the others of the connection go on.
                () = stays_unread(&taken, &place) => {}
            }
        });
    }
}

/// Parts of [`WRITE_TIME`]: other answers of the connection may begin and end meanwhile.
const STEPS: u32 = 30;

/// Resolves when the caller takes too little of an answer that fnd holds for it. All answers of a connection together have to
/// take [`WRITE_MIN`] in [`WRITE_TIME`], each an equal part. A client that opens no window for an answer blocks no socket, so
/// only the stream shows that.
async fn stays_unread(taken: &BodyProgress, place: &HttpConnection) {
    // Needs no waker: it is polled after the stream, in the same task.
    poll_fn(|_| taken.get().map_or(Poll::Pending, Poll::Ready)).await;
    let (mut before, mut owed) = (0, 0);
    loop {
        // The largest number counts, so that an answer is not judged as if it had been alone.
        let mut answers = 1;
        for _ in 0..STEPS {
            tokio::time::sleep(WRITE_TIME / STEPS).await;
            answers = answers.max(place.answers.get());
        }
        let now = taken.get().unwrap_or_default();
        owed = (owed + WRITE_MIN / answers).saturating_sub(now - before);
        // Answers come in pieces: of a hundred answers, one may get its next piece only after this time.
        if owed > READ_MAX {
            return;
        }
        before = now;
    }
}

/// Ends the requests of a connection. hyper's streams hold the set that holds them, so it never ends by itself.
struct EndStreams(Streams);

impl Drop for EndStreams {
    fn drop(&mut self) {
        self.0.tasks.borrow_mut().abort_all();
    }
}

/// Serves one connection until it ends.
pub(super) async fn serve<S: HttpService>(
    line: Rc<ConnectionSocket>,
    life: Rc<Life<S>>,
    mut phase: watch::Receiver<RequestPhase>,
) {
    line.is_opaque();
    // All answers share one socket, so `ConnectionSocket` cannot know which of them waits: the time for whole answers
    // holds for each of them.
    line.is_held.set(true);
    let streams = Streams {
        tasks: Rc::default(),
        place: Rc::clone(&life.place),
    };
    let _end = EndStreams(streams.clone());
    let answers = {
        let (life, line) = (Rc::clone(&life), Rc::clone(&line));
        service_fn(move |request| {
            let (life, line) = (Rc::clone(&life), Rc::clone(&line));
            async move { life.answer(&line, request).await }
        })
    };
    let connection = http2::Builder::new(streams)
        .timer(TokioTimer::new())
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(S::LIMITS.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_send_buf_size(READ_MAX)
        .serve_connection(TokioIo::new(Io(Rc::clone(&line))), answers);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        // No answer is lost: the connection is idle or only follows.
        () = life.place.evicted() => return,
        ended = connection.as_mut() => ended,
        // Only waits, and then checks.
        () = time_is_up::<S>(&line, &life.place) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST_WORDS, connection).await; // it has nothing to say any more
            return;
        }
        // Can be dropped: it only reads a value.
        () = reached(&mut phase, RequestPhase::Stopping) => {
            // Requests that come from now on are refused in a way that lets the client send them again.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        life.service.ended(&life.caller, &error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::response::{whole, with_status};

    #[test]
    fn an_answer_has_a_body_where_http_allows_one() {
        for (is_head, status, expected) in [
            (false, StatusCode::OK, (2, None)),
            (true, StatusCode::OK, (0, Some("2"))),
            (false, StatusCode::NO_CONTENT, (0, None)),
            (true, StatusCode::NOT_MODIFIED, (0, None)),
        ] {
            let mut answer = with_status(whole("text/plain", "ok"), status);
            leave_out_body(&mut answer, is_head);
            let size = answer.body().size_hint().exact().unwrap();
            let length = answer.headers().get(CONTENT_LENGTH);
            let length = length.map(|length| length.to_str().unwrap());
            assert_eq!((size, length), expected, "{is_head} {status}");
        }
    }
}
