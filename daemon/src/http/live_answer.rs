//! A result that comes as a stream, on its way to the caller that waits for it.
//!
//! The worker's bytes come in at [`LiveWriter`], and the caller's connection takes them out as [`LiveBody`]. A caller that reads
//! slowly does not hold up the worker: the bytes wait here, at most `limits.result` of them, and count against the memory budget.
//! When the result is complete, the bytes that the caller has not taken are taken from it, like those of any other answer.

use super::held_body::{BodyProgress, HeldBody};
use crate::buffers::{Buffers, Permit, UNCOUNTED};
use bytes::{Bytes, BytesMut};
use fnd_core::records::{Response, RunResult};
use fnd_wire::ids::Attempt;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::JoinSet;

/// Most bytes of a piece: a caller that does not read holds only a few of them that nothing counts.
const PIECE: usize = 16 << 10;

/// The stream of one run, between its worker and its caller.
#[derive(Debug)]
pub(crate) struct LiveAnswer {
    state: RefCell<LiveState>,
    buffers: Arc<Buffers>,
}

#[derive(Debug, Default)]
struct LiveState {
    phase: LivePhase,
    /// The attempt that sends it.
    attempt: Option<Attempt>,
    /// Media type, status and headers of the result.
    stated: Response,
    /// Bytes that the caller has not taken.
    pending: BytesMut,
    /// Counts them.
    counted: Option<Permit>,
    /// Whether the caller has the head: then no other attempt can answer it.
    is_headed: bool,
    /// Bytes of the result that the caller has, its head included.
    taken: usize,
    /// The bytes of the complete result that the caller has not taken.
    rest: Option<io::Result<HeldBody>>,
    /// Counts what HTTP/2 takes of the rest.
    progress: Option<BodyProgress>,
    waker: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LivePhase {
    /// No attempt sends a stream.
    #[default]
    Waiting,
    Running,
    /// The result has all bytes.
    Complete,
    /// The attempt failed after the caller got the head, or the caller has left.
    Broken,
}

impl LiveState {
    fn turn_to(&mut self, phase: LivePhase) {
        self.phase = phase;
        self.clear();
        self.wake();
    }

    fn clear(&mut self) {
        self.pending = BytesMut::new();
        self.counted = None;
    }

    /// Takes so many of the pending bytes.
    fn take(&mut self, size: usize) -> Bytes {
        // A copy: the bytes must not keep the memory of all.
        let taken = Bytes::copy_from_slice(&self.pending.split_to(size));
        self.taken += size;
        if self.pending.is_empty() {
            self.clear();
        } else if let Some(counted) = &mut self.counted {
            counted.give_back(size as u64);
        }
        taken
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl LiveAnswer {
    pub(crate) fn new(buffers: Arc<Buffers>) -> Rc<Self> {
        let state = RefCell::default();
        Rc::new(Self { state, buffers })
    }

    /// Waits for the head of a stream. `read` gets what the result states besides its bytes, and the first bytes. It returns the
    /// head with its size once the bytes have it. A result that is complete has no head here: the end of its run has the whole answer.
    pub(crate) async fn head<T>(&self, read: impl Fn(&Response, &[u8]) -> Option<(T, usize)>) -> T {
        std::future::poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if state.phase == LivePhase::Running
                && let Some((head, size)) = read(&state.stated, &state.pending)
            {
                drop(state.take(size));
                state.is_headed = true;
                return Poll::Ready(head);
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits for the end of the run, with the attempt that has made its result. Then the bytes that the caller has not taken get their
    /// place in memory or on the disk, whether the caller reads or not.
    async fn settle(self: Rc<Self>, end: impl Future<Output = Option<(Attempt, RunResult)>>) {
        let ended = end.await;
        let (phase, attempt, taken) = {
            let state = self.state.borrow();
            (state.phase, state.attempt, state.taken)
        };
        // The end can come without the end of the stream: after a timeout, for example. Then the stream may be complete too late, and
        // the result be that of another attempt.
        let ended = ended.filter(|(by, _)| phase == LivePhase::Complete && Some(*by) == attempt);
        let Some((_, result)) = ended else {
            return self.state.borrow_mut().turn_to(LivePhase::Broken);
        };
        // Nothing is taken meanwhile: a complete stream has no pending bytes.
        let mut rest = counted(result, taken, &self.buffers).await;
        if let Err(error) = &rest {
            tracing::warn!("no room for the rest of a streamed answer: {error}, its connection is closed");
        }
        let mut state = self.state.borrow_mut();
        if let (Ok(rest), Some(progress)) = (&mut rest, &state.progress) {
            rest.count_taken(progress);
        }
        state.rest = Some(rest);
        state.wake();
    }
}

/// The side of a stream at which the bytes of one attempt come. Dropped before the result is complete, it breaks the answer off.
#[derive(Debug)]
pub(crate) struct LiveWriter(Rc<LiveAnswer>);

impl LiveWriter {
    /// Returns the writer of an attempt; nothing if the caller has the head of another attempt's stream.
    pub(crate) fn new(answer: Rc<LiveAnswer>, attempt: Attempt, stated: Response) -> Option<Self> {
        let mut state = answer.state.borrow_mut();
        if state.is_headed {
            return None;
        }
        state.turn_to(LivePhase::Running);
        state.attempt = Some(attempt);
        state.stated = stated;
        drop(state);
        Some(Self(answer))
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut state = self.0.state.borrow_mut();
        // Without the caller, nobody takes them.
        if Rc::strong_count(&self.0) == 1 {
            state.clear();
        } else if state.phase == LivePhase::Running {
            let more = self.0.buffers.take_anyway(bytes.len() as u64);
            match &mut state.counted {
                Some(counted) => counted.join(more),
                None => state.counted = Some(more),
            }
            state.pending.extend_from_slice(bytes);
            state.wake();
        }
    }

    /// Says that the result has all bytes.
    pub(crate) fn complete(self) {
        let mut state = self.0.state.borrow_mut();
        if state.phase == LivePhase::Running {
            state.turn_to(LivePhase::Complete);
        }
    }
}

impl Drop for LiveWriter {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if state.phase == LivePhase::Running {
            let is_headed = state.is_headed;
            // A caller without a head can still get the answer of another attempt.
            state.turn_to(if is_headed {
                LivePhase::Broken
            } else {
                LivePhase::Waiting
            });
        }
    }
}

/// The body of an answer whose bytes come from a stream, and its last ones from the result.
pub(crate) struct LiveBody {
    answer: Rc<LiveAnswer>,
    is_broken: bool,
    /// Waits for the end of the run. Dropping it reports that the caller has left.
    _settling: JoinSet<()>,
}

impl std::fmt::Debug for LiveBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveBody")
            .field("is_broken", &self.is_broken)
            .finish_non_exhaustive()
    }
}

impl LiveBody {
    /// Returns the body after the head. `end` is the end of the run: of one that succeeded, the last attempt and its result.
    pub(crate) fn new(
        answer: Rc<LiveAnswer>,
        end: impl Future<Output = Option<(Attempt, RunResult)>> + 'static,
    ) -> Self {
        // A task of its own: hyper does not poll the body of a caller that does not read, and the whole result would stay in memory.
        let mut settling = JoinSet::new();
        settling.spawn_local(Rc::clone(&answer).settle(end));
        Self {
            answer,
            is_broken: false,
            _settling: settling,
        }
    }

    /// Counts into `taken` how much HTTP/2 takes of the rest, as soon as fnd holds it.
    pub(super) fn count_taken(&self, taken: &BodyProgress) {
        self.answer.state.borrow_mut().progress = Some(Rc::clone(taken));
    }

    /// Returns the next bytes; an error breaks the connection off, so that its reader does not take the answer for complete.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.is_broken {
            return Poll::Ready(None);
        }
        let mut state = self.answer.state.borrow_mut();
        // Also where there is a piece: HTTP/2 may not ask for the next one, and has to begin to count once the rest is there.
        state.waker = Some(cx.waker().clone());
        let size = state.pending.len().min(PIECE);
        if size > 0 {
            return Poll::Ready(Some(Ok(state.take(size))));
        }
        let error = match state.rest.take() {
            Some(Ok(mut rest)) => {
                let piece = rest.poll_piece(cx);
                state.rest = Some(Ok(rest));
                return piece;
            }
            Some(Err(error)) => error,
            None if state.phase == LivePhase::Broken => {
                io::Error::other("the function failed in the middle of its answer")
            }
            None => return Poll::Pending,
        };
        self.is_broken = true;
        Poll::Ready(Some(Err(error)))
    }
}

impl Drop for LiveBody {
    fn drop(&mut self) {
        let mut state = self.answer.state.borrow_mut();
        state.turn_to(LivePhase::Broken);
        // Others hold the stream too, and nobody reads the rest any more.
        state.rest = None;
    }
}

/// Returns the bytes of a result that the caller has not taken, counted against the budget.
async fn counted(result: RunResult, taken: usize, buffers: &Arc<Buffers>) -> io::Result<HeldBody> {
    let mut rest = result.data.slice(taken.min(result.data.len())..);
    if rest.len() <= UNCOUNTED {
        // A view of a few bytes would keep the memory of the whole result.
        rest = Bytes::copy_from_slice(&rest);
    }
    let mut body = HeldBody::new(rest, result.kept.is_some());
    body.count(buffers).await?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::Body;
    use futures_util::FutureExt as _;
    use http_body_util::BodyExt as _;
    use std::future::{pending, ready};
    use std::time::Duration;
    use tokio::task::{LocalSet, yield_now};

    const FIRST: Attempt = Attempt(1);

    fn buffers() -> Arc<Buffers> {
        Buffers::new(1 << 20, "/nonexistent".into())
    }

    fn result(data: impl Into<Bytes>) -> (Attempt, RunResult) {
        let result = RunResult {
            json: false,
            data: data.into(),
            response: None,
            kept: None,
        };
        (FIRST, result)
    }

    /// A head that ends with `;`.
    fn head(_: &Response, bytes: &[u8]) -> Option<((), usize)> {
        let end = bytes.iter().position(|byte| *byte == b';')?;
        Some(((), end + 1))
    }

    /// Returns a stream whose caller has its head.
    fn begin(buffers: Arc<Buffers>) -> (Rc<LiveAnswer>, LiveWriter) {
        let answer = LiveAnswer::new(buffers);
        let writer = LiveWriter::new(Rc::clone(&answer), FIRST, Response::default()).unwrap();
        writer.push(b";");
        assert!(answer.head(head).now_or_never().is_some());
        (answer, writer)
    }

    fn body(answer: &Rc<LiveAnswer>, end: impl Future<Output = Option<(Attempt, RunResult)>> + 'static) -> Body {
        Body::live(LiveBody::new(Rc::clone(answer), end))
    }

    /// Returns what comes now: bytes, `None` at the end, or an error.
    async fn now(body: &mut Body) -> Option<Option<Result<Vec<u8>, String>>> {
        // The task that waits for the end of the run has its turn.
        for _ in 0..4 {
            yield_now().await;
        }
        let frame = body.frame().now_or_never()?;
        Some(frame.map(|frame| match frame {
            Ok(frame) => Ok(frame.into_data().unwrap().to_vec()),
            Err(error) => Err(error.to_string()),
        }))
    }

    fn bytes(text: &[u8]) -> Option<Option<Result<Vec<u8>, String>>> {
        Some(Some(Ok(text.to_vec())))
    }

    #[tokio::test]
    async fn bytes_pass_as_they_come_and_the_last_ones_are_those_of_the_result() {
        let test = async {
            let answer = LiveAnswer::new(buffers());
            let writer = LiveWriter::new(Rc::clone(&answer), FIRST, Response::default()).unwrap();
            writer.push(b"he");
            assert!(answer.head(head).now_or_never().is_none());
            writer.push(b"ad;a");
            assert!(answer.head(head).now_or_never().is_some());
            let (ended, end) = tokio::sync::oneshot::channel();
            let mut body = body(&answer, async { end.await.ok() });
            assert_eq!(now(&mut body).await, bytes(b"a"));
            writer.push(b"b");
            assert_eq!(now(&mut body).await, bytes(b"b"));
            writer.push(b"c");
            assert_eq!(answer.buffers.held(), (1, 0));
            writer.complete();
            assert_eq!(answer.buffers.held(), (0, 0));
            assert_eq!(now(&mut body).await, None);
            ended.send(result(&b"head;abcd"[..])).unwrap();
            assert_eq!(now(&mut body).await, bytes(b"cd"));
            assert_eq!(now(&mut body).await, Some(None));
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_caller_that_does_not_read_holds_a_piece_and_no_result() {
        let test = async {
            let directory = tempfile::tempdir().unwrap();
            let buffers = Buffers::new(50_000, directory.path().to_owned());
            let (answer, writer) = begin(Arc::clone(&buffers));
            let (ended, end) = tokio::sync::oneshot::channel();
            let mut body = body(&answer, async { end.await.ok() });
            let progress = BodyProgress::default();
            body.count_taken(&progress);
            writer.push(&[7; 40_000]);
            assert_eq!(now(&mut body).await, bytes(&[7; PIECE]));
            assert_eq!(buffers.held(), (40_000 - PIECE as u64, 0));
            writer.push(&[7; 60_000]);
            writer.complete();
            assert_eq!((buffers.held(), progress.get()), ((0, 0), None));
            let whole = [b";".to_vec(), vec![7; 100_000]].concat();
            ended.send(result(whole)).unwrap();
            // The budget has no room for so many bytes.
            let settled = async {
                while progress.get().is_none() {
                    yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), settled).await.unwrap();
            assert_eq!(buffers.held().1, 100_000 - PIECE as u64);
            let rest = body.collect().await.unwrap().to_bytes();
            assert_eq!((rest.len(), progress.get()), (100_000 - PIECE, Some(rest.len())));
            assert_eq!(buffers.held(), (0, 0));
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_caller_that_leaves_frees_what_waited_for_it() {
        let test = async {
            let (answer, writer) = begin(buffers());
            let mut body = body(&answer, pending());
            writer.push(b"ab");
            assert_eq!(now(&mut body).await, bytes(b"ab"));
            writer.push(b"c");
            assert_eq!(answer.buffers.held(), (1, 0));
            drop(body);
            assert_eq!(answer.buffers.held(), (0, 0));
            writer.push(b"d");
            assert_eq!(answer.buffers.held(), (0, 0));
            writer.complete();
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_breaks_the_answer_off() {
        let test = async {
            let broken = Some(Some(Err("the function failed in the middle of its answer".to_owned())));
            // Its attempt fails, and another one follows.
            let (answer, writer) = begin(buffers());
            let mut first = body(&answer, pending());
            assert_eq!(now(&mut first).await, None);
            drop(writer);
            assert_eq!(now(&mut first).await, broken);
            assert_eq!(now(&mut first).await, Some(None));
            assert!(LiveWriter::new(answer, FIRST, Response::default()).is_none());
            // Its run ends while the worker still sends.
            let (answer, writer) = begin(buffers());
            let mut second = body(&answer, ready(None));
            assert_eq!(now(&mut second).await, broken);
            writer.push(b"late");
            assert_eq!(answer.buffers.held(), (0, 0));
            assert_eq!(now(&mut second).await, Some(None));
            // It ends after its time, and the result is that of a retry.
            let (answer, writer) = begin(buffers());
            writer.complete();
            let (_, retried) = result(&b";other"[..]);
            let mut third = body(&answer, ready(Some((Attempt(2), retried))));
            assert_eq!(now(&mut third).await, broken);
        };
        LocalSet::new().run_until(test).await;
    }

    #[test]
    fn an_attempt_that_fails_before_its_head_leaves_room_for_the_next() {
        let answer = LiveAnswer::new(buffers());
        drop(LiveWriter::new(Rc::clone(&answer), FIRST, Response::default()).unwrap());
        let writer = LiveWriter::new(Rc::clone(&answer), FIRST, Response::default()).unwrap();
        writer.push(b";");
        assert!(answer.head(head).now_or_never().is_some());
        // A whole result has no head here.
        let whole = LiveAnswer::new(buffers());
        let writer = LiveWriter::new(Rc::clone(&whole), FIRST, Response::default()).unwrap();
        writer.push(b";");
        writer.complete();
        assert!(whole.head(head).now_or_never().is_none());
    }
}
