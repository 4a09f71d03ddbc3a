//! Answers that follow: fnd's events, and the output of a run, as server-sent events (WHATWG HTML, section 9.2).

use crate::api::{Api, Failure};
use crate::http::Request;
use crate::idle::OpenStream;
use crate::pages::{self, LINES_MAX};
use fnd_client::client::{BodyPieces, encode};
use fnd_core::api::stream::LogLine;
use futures_util::stream::unfold;
use http_body_util::{Full, StreamBody};
use hyper::body::{Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;

/// The body of an answer.
pub(crate) type Body = Pin<Box<dyn hyper::body::Body<Data = Bytes, Error = Infallible>>>;

/// Returns a body that is there at once.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Box::pin(Full::new(bytes.into()))
}

/// Returns fnd's events as they come. `last` is the id of the last event that the browser has.
///
/// # Errors
/// fnd refuses or does not answer.
pub(crate) async fn events(
    api: &Api,
    request: &Request,
    last: Option<&str>,
    open: OpenStream,
) -> Result<Body, Failure> {
    let mut headers = vec![("accept".to_owned(), "text/event-stream".to_owned())];
    headers.extend(last.map(|last| ("last-event-id".to_owned(), last.to_owned())));
    let path = format!("/v1/stream?follow=1{}", passed(request, &["since", "function", "kind"]));
    let pieces = api.stream(&path, &headers).await?;
    let next = |(mut pieces, open): (BodyPieces, OpenStream)| async move {
        // A stream that broke off ends: the browser asks again, with the id of the last event.
        let bytes = pieces.piece().await.ok().flatten()?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), (pieces, open)))
    };
    Ok(Box::pin(StreamBody::new(unfold((pieces, open), next))))
}

/// Returns the output of a run, each line as a fragment, until the run has ended.
///
/// # Errors
/// fnd refuses or does not answer.
pub(crate) async fn output(
    api: &Api,
    request: &Request,
    id: &str,
    last: Option<&str>,
    open: OpenStream,
) -> Result<Body, Failure> {
    let place = last.and_then(LinePlace::parse);
    let since = match &place {
        // All lines since then: the number of a line counts from the first of its instant.
        Some(place) => format!("&since={}&limit={LINES_MAX}", encode(&place.time)),
        None => passed(request, &["since"]),
    };
    let path = format!("/v1/invocations/{}/logs?follow=1{since}", encode(id));
    let lines = [("accept".to_owned(), "application/x-ndjson".to_owned())];
    let pieces = api.stream(&path, &lines).await?;
    let follow = Follow {
        pieces,
        lines: LineEvents::after(place),
        is_over: false,
        _open: open,
    };
    let next = |mut follow: Follow| async move {
        let event = follow.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(event))), follow))
    };
    Ok(Box::pin(StreamBody::new(unfold(follow, next))))
}

/// Returns the parameters of a query that fnd knows, each with `&` before it.
fn passed(request: &Request, names: &[&str]) -> String {
    let pair = |name: &&str| Some(format!("&{name}={}", encode(request.query(name)?)));
    names.iter().filter_map(pair).collect()
}

/// Output that is followed.
struct Follow {
    pieces: BodyPieces,
    lines: LineEvents,
    is_over: bool,
    _open: OpenStream,
}

impl Follow {
    async fn next(&mut self) -> Option<String> {
        while !self.is_over {
            let event = match self.pieces.line().await {
                Ok(Some(line)) => self.line(&line),
                Ok(None) => Some(self.over("end", "end")),
                Err(_) => Some(self.over("failed", "the connection to fnd broke off")),
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn line(&mut self, line: &[u8]) -> Option<String> {
        match serde_json::from_slice(line) {
            Ok(line) => self.lines.event(&line),
            Err(error) => Some(self.over("failed", &format!("fnd sent a line that is none: {error}"))),
        }
    }

    fn over(&mut self, kind: &str, data: &str) -> String {
        self.is_over = true;
        format!("event: {kind}\n{}\n", data_lines(data))
    }
}

/// The place of a line in the output of a run: its instant, and its number among the lines of this instant.
#[derive(Debug, PartialEq, Eq)]
struct LinePlace {
    time: String,
    number: u64,
}

impl LinePlace {
    /// Reads the id of an event.
    fn parse(id: &str) -> Option<Self> {
        let (time, number) = id.split_once('/')?;
        Some(Self {
            time: time.to_owned(),
            number: number.parse().ok()?,
        })
    }
}

/// Makes events of lines. `since` of fnd includes its instant, so a browser that comes back would get lines twice.
#[derive(Debug)]
struct LineEvents {
    /// The last line that the browser had.
    had: Option<LinePlace>,
    now: LinePlace,
}

impl LineEvents {
    fn after(had: Option<LinePlace>) -> Self {
        let now = LinePlace {
            time: String::new(),
            number: 0,
        };
        Self { had, now }
    }

    /// Returns the event of the next line; nothing if the browser has it.
    fn event(&mut self, line: &LogLine) -> Option<String> {
        if self.now.time != line.time {
            self.now.time.clone_from(&line.time);
            self.now.number = 0;
        }
        self.now.number += 1;
        let had = self.had.as_ref();
        if had.is_some_and(|had| had.time == self.now.time && self.now.number <= had.number) {
            return None;
        }
        let LinePlace { time, number } = &self.now;
        let markup = pages::line(line).into_string();
        Some(format!("id: {time}/{number}\n{}\n", data_lines(&markup)))
    }
}

/// Returns a text as lines of an event; a line end of any kind would end the line.
fn data_lines(text: &str) -> String {
    text.split(['\n', '\r']).map(|line| format!("data: {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;

    fn line(time: &str, text: &str) -> LogLine {
        let line = serde_json::json!({
            "time": time, "function": "hello", "invocation": "01934567-89ab-7def-8123-456789abcdef", "attempt": 1,
            "stream": "stdout", "text": text,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn a_line_is_one_event_whatever_it_has() {
        let mut events = LineEvents::after(None);
        let event = events.event(&line("2026-01-01T00:00:00Z", "a\r<b>")).unwrap();
        assert!(event.starts_with("id: 2026-01-01T00:00:00Z/1\ndata: "), "{event}");
        assert!(
            event.ends_with("\n\n") && !event.contains('\r') && !event.contains("<b>"),
            "{event}"
        );
        assert_eq!(data_lines("a\nid: 7"), "data: a\ndata: id: 7\n");
    }

    #[test]
    fn a_browser_that_comes_back_gets_no_line_twice() {
        let lines = [("1", "a"), ("2", "b"), ("2", "c"), ("2", "d"), ("3", "e")].map(|(time, text)| line(time, text));
        let mut events = LineEvents::after(LinePlace::parse("2/2"));
        let ids = lines[1..].iter().filter_map(|line| events.event(line));
        let ids: Vec<String> = ids.filter_map(|event| Some(event.lines().next()?.to_owned())).collect();
        assert_eq!(ids, ["id: 2/3", "id: 3/1"]);
        for wrong in ["", "2", "2/", "2/-1"] {
            assert_eq!(LinePlace::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_known_parameters_are_passed_on() {
        let request = Request::new(Method::Get, "/stream", "since=now&x=1&kind=a%26b", b"");
        assert_eq!(
            passed(&request, &["since", "function", "kind"]),
            "&since=now&kind=a%26b"
        );
    }
}
