//! The thread that writes messages, and the channel to it: messages that wait are counted, and have a bound.

use super::entry::LogEntry;
use super::text;
use crate::clock;
use crate::lock::lock;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::Level;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Most messages waiting. A scan of 10,000 new functions fits as long as the thread keeps up.
const ENTRIES_MAX: usize = 8192;
/// Most bytes of messages waiting; lines of functions can be long. Messages beyond either bound are dropped and
/// counted.
const BYTES_MAX: usize = 16 << 20;
/// How long the end waits for a journal that does not answer.
const FLUSH: Duration = Duration::from_secs(1);
/// How long the thread waits for more messages after one that came alone: waking this thread costs the sender as much
/// as the message.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes of text written at once, at most one line more.
const TEXT_MAX: usize = 64 << 10;

/// The destination of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTarget {
    /// journald, with fields.
    Journal,
    /// Standard error, as text.
    Stderr {
        /// Whether the time is in front.
        time: bool,
        /// Whether colours are used.
        color: bool,
    },
}

/// Receives messages; may block.
trait Sink: Send {
    fn take(&mut self, entry: &LogEntry);

    /// Writes everything received so far: no more messages wait.
    fn flush(&mut self) {}
}

enum LogMessage {
    Entry(Box<LogEntry>),
    /// Check [`SharedSink::closing`].
    Wake,
}

/// Sends events to the thread.
pub(super) struct Forward {
    messages: Sender<LogMessage>,
    shared: Arc<SharedSink>,
}

#[derive(Default)]
struct SharedSink {
    /// Messages that wait.
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
    /// Receives a value when everything is written.
    closing: Mutex<Option<SyncSender<()>>>,
}

/// Waits when it is dropped until the last messages are written, for a second at most.
pub struct Guard {
    messages: Sender<LogMessage>,
    shared: Arc<SharedSink>,
}

impl SharedSink {
    /// Counts out a message of this size, which does not wait any more.
    fn leaves(&self, size: usize) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // With room for the answer: the thread never waits for a guard that has given up.
        let (done, flushed) = sync_channel(1);
        *lock(&self.shared.closing) = Some(done);
        let _ = self.messages.send(LogMessage::Wake); // an error: the thread has ended
        // After a timeout the sink is blocked and keeps its messages.
        let _ = flushed.recv_timeout(FLUSH);
    }
}

/// Starts the thread of a target.
pub(super) fn start(target: LogTarget) -> io::Result<(Forward, Guard)> {
    match target {
        LogTarget::Journal => start_with(journal()?),
        LogTarget::Stderr { time, color } => start_with(TextSink::new(io::stderr(), time, color)),
    }
}

fn start_with(sink: impl Sink + 'static) -> io::Result<(Forward, Guard)> {
    // `Forward` counts what waits. A channel of the standard library with a bound has all its places from the start: 128 KiB.
    let (messages, waiting) = channel();
    let shared = Arc::new(SharedSink::default());
    let guard = Guard {
        messages: messages.clone(),
        shared: Arc::clone(&shared),
    };
    let own = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("log".into())
        .spawn(move || run(&waiting, &own, sink))?;
    Ok((Forward { messages, shared }, guard))
}

#[expect(
    clippy::disallowed_methods,
    reason = "awake, it takes what has gathered; waiting on the channel, each sender would wake it"
)]
fn run(waiting: &Receiver<LogMessage>, shared: &SharedSink, mut sink: impl Sink) {
    for message in waiting {
        let mut next = Some(message);
        let mut closing = None;
        while let Some(message) = next {
            if let LogMessage::Entry(entry) = message {
                shared.leaves(entry.size());
                sink.take(&entry);
            }
            let dropped = shared.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                let mut entry = LogEntry::new(Level::WARN, clock::unix_ms());
                entry.message = format!("{dropped} messages were dropped: they came faster than they could be written");
                sink.take(&entry);
            }
            // Read before the channel is seen to be empty: then all messages sent before the request are written.
            closing = closing.or_else(|| lock(&shared.closing).take());
            next = waiting.try_recv().ok();
        }
        sink.flush();
        if let Some(done) = closing {
            // An error: the guard has given up waiting.
            let _ = done.try_send(());
        }
        std::thread::sleep(GATHER);
    }
}

impl<S: tracing::Subscriber> Layer<S> for Forward {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let entry = Box::new(LogEntry::of(event, clock::unix_ms()));
        let size = entry.size();
        // Added before the comparison: two threads that log at the same moment cannot pass a bound together.
        let waiting = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let bytes = self.shared.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        let has_room = waiting < ENTRIES_MAX && bytes + size <= BYTES_MAX;
        let is_sent = has_room && self.messages.send(LogMessage::Entry(entry)).is_ok();
        if !is_sent {
            self.shared.leaves(size);
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes text, once for each pause in the messages: under load each line would be a write otherwise.
struct TextSink<W> {
    out: W,
    time: bool,
    color: bool,
    waiting: String,
}

impl<W> TextSink<W> {
    fn new(out: W, time: bool, color: bool) -> Self {
        Self {
            out,
            time,
            color,
            waiting: String::new(),
        }
    }
}

impl<W: Write + Send> Sink for TextSink<W> {
    fn take(&mut self, entry: &LogEntry) {
        self.waiting += &text::line(entry, self.time, self.color);
        if self.waiting.len() >= TEXT_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        // A closed standard error is no reason to stop, and there is no place to report it.
        let _ = self.out.write_all(self.waiting.as_bytes());
        self.waiting.clear();
    }
}

/// Returns a sink for journald: tracing-journald, whose socket blocks, used on this thread only.
///
/// Entries become events again, with all fields that an entry may have; absent ones are not sent.
fn journal() -> io::Result<Journal> {
    // By default `info` becomes Notice, which journalctl highlights. Notice is for changes, so routine messages are
    // Informational.
    let priorities = PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        ..PriorityMappings::new()
    };
    let layer = tracing_journald::layer()?
        // The default prefix would make `F_FND_FUNCTION` of `FND_FUNCTION`.
        .with_field_prefix(None)
        .with_syslog_identifier("fnd".to_owned())
        .with_priority_mappings(priorities);
    Ok(Journal(tracing::Dispatch::new(
        tracing_subscriber::registry().with(layer),
    )))
}

/// Writes to journald, one datagram for each message.
struct Journal(tracing::Dispatch);

impl Sink for Journal {
    fn take(&mut self, entry: &LogEntry) {
        // By a dispatcher of its own: the global one would send the entry to this thread again.
        tracing::dispatcher::with_default(&self.0, || say(entry));
    }
}

fn say(entry: &LogEntry) {
    macro_rules! say {
        ($level:ident) => {
            tracing::event!(
                target: "fnd",
                Level::$level,
                fnd_event = entry.get("fnd_event"),
                fnd_function = entry.get("fnd_function"),
                fnd_invocation = entry.get("fnd_invocation"),
                fnd_attempt = entry.get("fnd_attempt"),
                fnd_reason = entry.get("fnd_reason"),
                fnd_trace_id = entry.get("fnd_trace_id"),
                fnd_span_id = entry.get("fnd_span_id"),
                fnd_parent_span_id = entry.get("fnd_parent_span_id"),
                fnd_duration_us = entry.get("fnd_duration_us"),
                fnd_stream = entry.get("fnd_stream"),
                fnd_audit = entry.get("fnd_audit"),
                fnd_verb = entry.get("fnd_verb"),
                fnd_uid = entry.get("fnd_uid"),
                fnd_user = entry.get("fnd_user"),
                fnd_pid = entry.get("fnd_pid"),
                fnd_status = entry.get("fnd_status"),
                "{}",
                entry.message
            )
        };
    }
    match entry.level {
        Level::ERROR => say!(ERROR),
        Level::WARN => say!(WARN),
        Level::INFO => say!(INFO),
        Level::DEBUG => say!(DEBUG),
        Level::TRACE => say!(TRACE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Drops the guard and returns the messages that were written: all of them are there then. Only if the guard gave
    /// up, because the machine is busy, the rest is waited for, until the thread ends.
    fn end<T>(guard: Guard, out: Receiver<T>) -> impl Iterator<Item = T> {
        let begun = clock::monotonic();
        drop(guard);
        let patience = if begun.elapsed() < FLUSH { Duration::ZERO } else { LIMIT };
        std::iter::from_fn(move || out.recv_timeout(patience).ok())
    }

    struct Written(Sender<Vec<u8>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn messages_come_out_in_order_with_their_fields() {
        let (sender, written) = channel();
        let (layer, guard) = start_with(TextSink::new(Written(sender), false, false)).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(fnd_function = "hello", fnd_attempt = 1_u64, size = 3, "said {}", "this");
            tracing::error!("bad\x1b");
        });
        let text = String::from_utf8(end(guard, written).flatten().collect()).unwrap();
        assert_eq!(text, "said this size=3\nerror: bad\\x1b\n");
    }

    /// Blocks at its first message until it is released.
    struct Blocked {
        first: bool,
        released: Receiver<()>,
        messages: Sender<String>,
    }

    impl Sink for Blocked {
        fn take(&mut self, entry: &LogEntry) {
            if std::mem::take(&mut self.first) {
                self.released.recv().unwrap();
            }
            self.messages.send(entry.message.clone()).unwrap();
        }
    }

    #[test]
    fn a_blocked_sink_stops_nobody_and_drops_are_reported() {
        let (release, released) = channel::<()>();
        let (messages, heard) = channel();
        let sink = Blocked {
            first: true,
            released,
            messages,
        };
        let (layer, guard) = start_with(sink).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            for _ in 0..ENTRIES_MAX + 1000 {
                tracing::info!("x");
            }
        });
        let dropped = guard.shared.dropped.load(Ordering::Relaxed);
        assert!((998..=1000).contains(&dropped), "{dropped}");
        release.send(()).unwrap();
        let expected = format!("{dropped} messages were dropped");
        assert!(end(guard, heard).any(|message| message.starts_with(&expected)));
    }

    /// Reports what it takes and that it flushes, if a receiver is there, and then blocks until it is released.
    struct Pauses {
        released: Receiver<()>,
        messages: Sender<String>,
    }

    impl Sink for Pauses {
        fn take(&mut self, entry: &LogEntry) {
            drop(self.messages.send(entry.message.clone()));
        }

        fn flush(&mut self) {
            drop(self.messages.send("flush".to_owned()));
            // Released for good when the other end is gone.
            let _ = self.released.recv();
        }
    }

    #[test]
    fn what_is_logged_during_a_flush_is_written_at_the_end() {
        let (release, released) = channel();
        let (messages, heard) = channel();
        let (layer, guard) = start_with(Pauses { released, messages }).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("one");
            assert_eq!(heard.recv_timeout(LIMIT).unwrap(), "one");
            assert_eq!(heard.recv_timeout(LIMIT).unwrap(), "flush");
            tracing::info!("two");
        });
        let shared = Arc::clone(&guard.shared);
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| end(guard, heard).collect::<Vec<_>>());
            while shared.closing.lock().unwrap().is_none() {
                std::thread::yield_now();
            }
            drop::<Sender<()>>(release);
            let all = ended.join().unwrap();
            assert!(all.contains(&"two".to_owned()), "{all:?}");
        });
    }

    /// Runs inside the mount namespace that the test below makes.
    #[test]
    #[ignore = "needs a /run of its own: run by `the_journal_gets_the_fields`"]
    fn inside_a_run_directory_of_its_own() {
        std::fs::create_dir_all("/run/systemd/journal").unwrap();
        let journald = std::os::unix::net::UnixDatagram::bind(super::super::JOURNAL_SOCKET).unwrap();
        let (layer, guard) = start(LogTarget::Journal).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::warn!(
                fnd_function = "hello",
                fnd_attempt = 2_u64,
                fnd_trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                fnd_span_id = "00f067aa0ba902b7",
                fnd_parent_span_id = None::<&str>,
                fnd_duration_us = 1500_u64,
                "one\nFND_FUNCTION=forged"
            );
        });
        drop(guard);
        let mut datagram = [0; 4096];
        let size = loop {
            match journald.recv(&mut datagram).unwrap() {
                0 => {} // tracing-journald checks whether a process listens
                size => break size,
            }
        };
        let text = String::from_utf8_lossy(&datagram[..size]).into_owned();
        for field in [
            "PRIORITY",
            "SYSLOG_IDENTIFIER",
            "FND_FUNCTION",
            "FND_ATTEMPT",
            "FND_TRACE_ID",
            "FND_SPAN_ID",
            "FND_DURATION_US",
            "MESSAGE",
        ] {
            assert!(text.lines().any(|line| line == field), "{field} in {text:?}");
        }
        assert!(!text.contains("FND_STREAM") && !text.contains("FND_PARENT"), "{text:?}");
        assert!(
            text.contains("one\nFND_FUNCTION=forged"),
            "behind its length, so that it is no field: {text:?}"
        );
    }

    #[test]
    fn the_journal_gets_the_fields() {
        let name = "telemetry::sink::tests::inside_a_run_directory_of_its_own";
        let command = format!("mount -t tmpfs tmpfs /run && exec \"$0\" --exact {name} --ignored --nocapture");
        let program = std::env::current_exe().unwrap();
        let unshare = std::process::Command::new("unshare")
            .args(["--mount", "sh", "-c", &command])
            .arg(program)
            .output();
        match unshare {
            Ok(output) if output.status.success() => {}
            Ok(output) if rustix::process::geteuid().is_root() => {
                panic!(
                    "{}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            Ok(_) | Err(_) => println!("skipped: a mount namespace needs root and unshare(1)"),
        }
    }
}
