//! A program that publishes without an end, whatever happens to the server.

use crate::wait::PATIENCE;
use async_nats::client::Request;
use async_nats::{Client, HeaderMap};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long one answer is waited for. Then the same message is sent again: nobody knows whether a stream has it.
const ANSWER: Duration = Duration::from_secs(1);

/// A thread that publishes the numbers from 0 on, each until a stream has confirmed it. The number is the payload and the
/// `Nats-Msg-Id`.
#[derive(Debug)]
pub struct Publisher {
    ends: Arc<AtomicBool>,
    confirmed: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl Publisher {
    /// Begins, with a pause after each number.
    #[must_use]
    pub fn begin(url: &str, subject: &str, pause: Duration) -> Self {
        let (ends, confirmed) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let of_thread = (Arc::clone(&ends), Arc::clone(&confirmed));
        let (url, subject) = (url.to_owned(), subject.to_owned());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let (ends, confirmed) = of_thread;
            runtime.block_on(async {
                let client = async_nats::connect(url.as_str()).await.expect("the server runs");
                while !ends.load(Ordering::Relaxed) {
                    if publish(&client, &subject, confirmed.load(Ordering::Relaxed)).await {
                        confirmed.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(pause).await;
                }
            });
        });
        Self {
            ends,
            confirmed,
            thread,
        }
    }

    /// Returns how many numbers are confirmed.
    #[must_use]
    pub fn confirmed(&self) -> u32 {
        self.confirmed.load(Ordering::Relaxed)
    }

    /// Ends, and returns how many numbers are confirmed. The one after them may be stored as well.
    ///
    /// # Panics
    /// When the thread has.
    pub fn end(self) -> u32 {
        self.ends.store(true, Ordering::Relaxed);
        crate::wait::wait_until("the publisher to end", PATIENCE, || {
            self.thread.is_finished().then_some(())
        });
        self.thread.join().expect("the publisher does not panic");
        self.confirmed.load(Ordering::Relaxed)
    }
}

/// Publishes a number; returns whether a stream has confirmed it.
async fn publish(client: &Client, subject: &str, number: u32) -> bool {
    let number = number.to_string();
    let mut headers = HeaderMap::new();
    headers.append("Nats-Msg-Id", number.as_str());
    let request = Request::new()
        .headers(headers)
        .payload(number.into())
        .timeout(Some(ANSWER));
    let Ok(answer) = client.send_request(subject.to_owned(), request).await else {
        return false;
    };
    serde_json::from_slice::<Value>(&answer.payload).is_ok_and(|answer| answer["seq"].is_u64())
}
