//! The end of the page after a time in which nobody used it. An open stream is use: a page that is hidden closes its stream.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Whether the page is used.
#[derive(Debug, Default)]
pub(crate) struct Idle(Rc<PageUse>);

#[derive(Debug, Default)]
struct PageUse {
    used: Notify,
    streams: Cell<usize>,
}

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct OpenStream(Rc<PageUse>);

impl Idle {
    /// Reports a request of a session.
    pub(crate) fn used(&self) {
        self.0.used.notify_one();
    }

    /// Reports a stream, which is use until it is dropped.
    pub(crate) fn stream(&self) -> OpenStream {
        self.0.streams.set(self.0.streams.get() + 1);
        OpenStream(Rc::clone(&self.0))
    }

    /// Waits until nothing was used for a time.
    pub(crate) async fn ended(&self, after: Duration) {
        while timeout(after, self.0.used.notified()).await.is_ok() || self.0.streams.get() > 0 {}
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        self.0.used.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    const LIMIT: Duration = Duration::from_secs(900);

    #[tokio::test(start_paused = true)]
    async fn a_request_puts_off_the_end() {
        let (idle, start) = (Idle::default(), Instant::now());
        let uses = async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            idle.used();
        };
        tokio::join!(idle.ended(LIMIT), uses);
        assert_eq!(start.elapsed().as_secs(), 1500);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_stream_is_use() {
        let (idle, start) = (Idle::default(), Instant::now());
        let stream = idle.stream();
        let seen = async {
            tokio::time::sleep(Duration::from_secs(2000)).await;
            drop(stream);
        };
        tokio::join!(idle.ended(LIMIT), seen);
        assert_eq!(start.elapsed().as_secs(), 2900);
    }
}
