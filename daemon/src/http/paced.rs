//! A caller's body on its way to a program: it must come at a pace. Only the time counts in which fnd waits for the
//! caller: a program that reads slowly makes no caller slow.

use super::limits::{BODY_GAP, Pace};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The body. Without a pace it may take any time.
#[derive(Debug)]
pub struct Paced<B = Incoming> {
    from: B,
    pace: Option<Pace>,
    /// Bytes that have come.
    bytes: u64,
    /// How long fnd has waited for them.
    waited: Duration,
    waiting: Option<WriteWait>,
}

/// The present wait for the caller.
#[derive(Debug)]
struct WriteWait {
    since: Instant,
    ends: Pin<Box<Sleep>>,
}

/// Why there is no more of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The caller has gone.
    Left,
    /// It came too slowly.
    Slow,
}

impl<B> Paced<B> {
    /// Returns a body that must come at a pace.
    #[must_use]
    pub fn new(from: B, pace: Option<Pace>) -> Self {
        Self {
            from,
            pace,
            bytes: 0,
            waited: Duration::ZERO,
            waiting: None,
        }
    }

    /// Waits for the caller; ready if that takes too long.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(pace) = self.pace else {
            return Poll::Pending;
        };
        // Whichever ends first: the time for all bytes so far, or the longest pause.
        let left = pace.time(self.bytes).saturating_sub(self.waited).min(BODY_GAP);
        let waiting = self.waiting.get_or_insert_with(|| WriteWait {
            since: Instant::now(),
            ends: Box::pin(sleep(left)),
        });
        waiting.ends.as_mut().poll(cx)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Paced<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let paced = self.get_mut();
        let Poll::Ready(frame) = Pin::new(&mut paced.from).poll_frame(cx) else {
            ready!(paced.poll_slow(cx));
            return Poll::Ready(Some(Err(BodyError::Slow)));
        };
        if let Some(waiting) = paced.waiting.take() {
            paced.waited += waiting.since.elapsed();
        }
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(|_| BodyError::Left)?;
            paced.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.from.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.from.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use std::convert::Infallible;
    use tokio::sync::mpsc;

    /// A body whose pieces a test sends.
    struct Sent(mpsc::Receiver<Bytes>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0
                .poll_recv(cx)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    /// Sends pieces of this size, one each so often, to a reader that pauses after each; returns the number of those
    /// that were read and how it ended.
    async fn pieces(count: usize, size: usize, every: Duration, pause: Duration) -> (usize, Option<BodyError>) {
        let (to, from) = mpsc::channel(1);
        let sends = async move {
            for _ in 0..count {
                sleep(every).await;
                if to.send(Bytes::from(vec![0; size])).await.is_err() {
                    return;
                }
            }
        };
        let reads = async {
            let mut body = Paced::new(Sent(from), Some(Pace::REMOTE));
            let mut read = 0;
            while let Some(frame) = body.frame().await {
                match frame {
                    Ok(_) => read += 1,
                    Err(error) => return (read, Some(error)),
                }
                sleep(pause).await;
            }
            (read, None)
        };
        tokio::join!(sends, reads).1
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_at_its_pace_may_take_any_time() {
        assert_eq!(pieces(600, 8 << 10, SECOND, Duration::ZERO).await, (600, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slower_one_is_given_up() {
        let (read, error) = pieces(600, 100, SECOND, Duration::ZERO).await;
        assert_eq!(error, Some(BodyError::Slow));
        assert!((9..=11).contains(&read), "{read}");
        let (read, error) = pieces(10, 1 << 20, 11 * SECOND, Duration::ZERO).await;
        assert_eq!((read, error), (0, Some(BodyError::Slow)), "a pause");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_program_makes_no_caller_slow() {
        assert_eq!(pieces(30, 100, Duration::ZERO, 20 * SECOND).await, (30, None));
    }
}
