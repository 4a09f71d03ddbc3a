//! Its output and events.

use super::{ENDED, Fake, id, later, name};
use fnd_core::api::stream::{Kind, Seq, StreamEvent};
use fnd_core::api::{LogLine, LogStream};
use fnd_daemon::backend::{Failure, LogLines, LogQuery, Pending, StreamBackend};
use fnd_daemon::stream::StreamQuery;
use tokio::sync::mpsc;

fn log_line(text: &str, stream: LogStream) -> LogLine {
    LogLine {
        time: "2026-11-21T08:00:00.123Z".to_owned(),
        function: name("hello"),
        invocation: id(ENDED),
        attempt: 1,
        stream,
        text: text.to_owned(),
    }
}

impl StreamBackend for Fake {
    fn logs(&self, query: LogQuery) -> Pending<Result<LogLines, Failure>> {
        let (sender, receiver) = mpsc::channel(8);
        for (text, stream) in [("first", LogStream::Stdout), ("second \u{1b}[31m", LogStream::Stderr)] {
            let line = log_line(text, stream);
            if query.reach.views(&line.function) {
                sender.try_send(line).unwrap();
            }
        }
        if query.follow && query.invocation.is_none() {
            self.following.borrow_mut().push(sender);
        }
        self.seen.lock().unwrap().logs = Some(query);
        later(Ok(receiver))
    }

    fn stream(&self, query: StreamQuery) -> mpsc::Receiver<StreamEvent> {
        let (sender, receiver) = mpsc::channel(4);
        let seq = |number| Seq { epoch: 7, number };
        let event = StreamEvent {
            function: query.function.clone(),
            ..StreamEvent::new(seq(3), 1_795_248_000_123, Kind::Loaded)
        };
        if query.reach.views_any(event.function.as_ref()) {
            sender.try_send(event).unwrap();
        }
        if query.follow {
            sender
                .try_send(StreamEvent::new(seq(4), 1_795_248_000_124, Kind::Removed))
                .unwrap();
        }
        self.seen.lock().unwrap().stream = Some(query);
        receiver
    }
}
