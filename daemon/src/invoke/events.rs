//! Events in HTTP: a request that brings them, and the answer. The control API and the public listener share it.

use super::payload::trace;
use super::refusal::rejected;
use crate::backend::{Backend, EventOrigin, NewEvent, NotPublished};
use crate::http::query::short;
use crate::http::request::{IncomingRequest, bytes_of};
use crate::http::response::{Answered, Refusal, internal, json, refuse, refuse_for_now, with_status};
use crate::metrics::EventOutcome;
use crate::triggers::nats::PublishFailed;
use fnd_core::api::problem::Code;
use fnd_core::api::{BatchAccepted, EventAccepted};
use fnd_core::data::Data;
use fnd_core::run::Rejection;
use fnd_core::trace::Trace;
use fnd_core::triggers::event::{self, CloudEvent, EventContent, Events};
use fnd_core::triggers::nats::event::TYPE_MAX;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::print_size;
use hyper::StatusCode;
use std::sync::Arc;

/// Most subscribers that a refusal names.
const NAMED_MAX: usize = 5;

/// A function that sends events.
pub(crate) struct Emitter {
    pub(crate) function: FunctionName,
    /// Its manifest, which says what it may send.
    pub(crate) manifest: Arc<Manifest>,
    /// The number of calls in the chain, with the one that an event makes.
    pub(crate) depth: u8,
}

impl Emitter {
    fn check(&self, kind: &str) -> Result<(), Refusal> {
        if self.manifest.access.may_emit(kind) {
            return Ok(());
        }
        let (function, kind) = (&self.function, short(kind));
        let why =
            format!("`{function}` may not send `{kind}`: write `emit = [\"{kind}\"]` into `[access]` of its manifest");
        Err(refuse(Code::NotAllowed, why))
    }
}

/// Accepts the events of a request whose body is read, for the functions that the sender may operate, and returns the
/// answer: 202.
///
/// # Errors
/// The request is malformed, no subscriber takes an event, or fnd cannot store it.
pub(crate) async fn accept(
    backend: &Backend,
    origin: EventOrigin,
    (request, body): (&IncomingRequest, Data),
    emitter: Option<Emitter>,
) -> Result<Answered, Refusal> {
    let headers = &request.parts.headers;
    let events = {
        let bytes = bytes_of(&body)?;
        let id = backend.next_id().to_string();
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        event::read(&event::EventRequest {
            headers: &headers,
            body: &bytes,
            id: &id,
        })
    };
    let events = events.map_err(|problem| {
        backend.count_events(EventOutcome::Malformed, 1);
        refuse(Code::BadRequest, problem.to_string())
    })?;
    let (events, is_batch) = match events {
        Events::One(event) => (vec![*event], false),
        Events::Batch(events) => (events, true),
    };
    // All events are checked before the first is accepted: a request is accepted or refused as a whole.
    if let Some(emitter) = &emitter {
        events
            .iter()
            .try_for_each(|event| emitter.check(&event.attributes.kind))?;
    }
    let depth = emitter.map_or(0, |emitter| emitter.depth);
    let ids: Vec<String> = events.iter().map(|event| event.attributes.id.clone()).collect();
    let (trace, buffers) = (trace(request), backend.buffers());
    let held = |data: Vec<u8>| buffers.hold(&data.into());
    let new = events.into_iter().map(|event| NewEvent {
        depth,
        ..new_event(event, trace.as_ref(), (&body, held))
    });
    let published = backend.publish(new.collect(), origin).await;
    let published = published.map_err(|problem| not_published(problem, is_batch))?;
    let accepted = ids.into_iter().zip(published);
    let accepted: Vec<_> = accepted
        .map(|(id, delivered)| EventAccepted { id, delivered })
        .collect();
    let answer = match accepted.as_slice() {
        [one] if !is_batch => json(one)?,
        _ => json(&BatchAccepted { events: accepted })?,
    };
    Ok(with_status(answer, StatusCode::ACCEPTED))
}

fn new_event(event: CloudEvent, trace: Option<&Trace>, (body, held): (&Data, impl Fn(Vec<u8>) -> Data)) -> NewEvent {
    let CloudEvent { attributes, data } = event;
    let stated = attributes.datacontenttype.clone();
    let (data, content_type) = match data {
        EventContent::None => (None, stated),
        EventContent::Body => (Some(body.clone()), stated),
        // In an event's JSON, data without a media type is JSON.
        EventContent::Part(data) => (Some(held(data)), stated.or_else(|| Some("application/json".to_owned()))),
    };
    // The extension for traces counts where no header names one.
    let of_extension = || Trace::of(|name| attributes.extensions.get(name).cloned());
    NewEvent {
        trace: trace.cloned().or_else(of_extension),
        attributes,
        data,
        content_type,
        depth: 0,
    }
}

/// Returns the refusal of a request of which nothing was accepted.
fn not_published(problem: NotPublished, is_batch: bool) -> Refusal {
    let named = |event: usize| match is_batch {
        true => format!("event {} of the batch: ", event + 1),
        false => String::new(),
    };
    match problem {
        NotPublished::Refused {
            event,
            subscribers,
            too_large,
        } => {
            let code = if too_large { Code::TooLarge } else { Code::Unprocessable };
            let why: Vec<String> = subscribers
                .iter()
                .take(NAMED_MAX)
                .map(|refused| format!("`{}`: {}", refused.function, refused.why))
                .collect();
            let detail = format!("{}no subscriber takes it: {}", named(event), why.join("; "));
            refuse(code, detail)
        }
        NotPublished::Rejected {
            event,
            function,
            rejection,
        } => {
            let mut refusal = rejected(&rejection, &function);
            let why = match rejection {
                Rejection::Input(_) => "no subscriber takes it",
                _ => "no subscriber has room for it",
            };
            let detail = &mut refusal.problem.detail;
            *detail = format!("{}{why}: {detail}", named(event));
            refusal
        }
        NotPublished::TooMuch { shares, bytes } => {
            let size = print_size(bytes);
            let detail = format!(
                "the events of this request would start {shares} invocations with {size} of data together: send fewer in a request"
            );
            refuse(Code::TooLarge, detail)
        }
        NotPublished::NotStreamed { event, failed } => {
            let place = named(event);
            match failed {
                PublishFailed::TooLarge(size, most) => {
                    let [size, most] = [size, most].map(|size| print_size(size as u64));
                    let detail = format!(
                        "{place}it has {size} with its attributes, and the server of NATS takes {most} (`max_payload`)"
                    );
                    refuse(Code::TooLarge, detail)
                }
                PublishFailed::NotConfigured => refuse_for_now(
                    Code::Unavailable,
                    format!("{place}fnd is connected to no NATS; send it again with the same id"),
                ),
                PublishFailed::Failed(why) => refuse_for_now(
                    Code::Unavailable,
                    format!(
                        "{place}the stream of `events.nats.stream` has not confirmed it: {why}; send it again with the same id"
                    ),
                ),
            }
        }
        NotPublished::TypeTooLong { event } => {
            let detail = format!(
                "{}the attribute `type` has more than {TYPE_MAX} bytes, which is too long for a subject of NATS",
                named(event)
            );
            refuse(Code::BadRequest, detail)
        }
        NotPublished::StoreFailed => {
            let detail = "the event could not be stored durably, so it was not accepted; see fnd's journal";
            refuse(Code::Unavailable, detail)
        }
        NotPublished::Stopping => refuse_for_now(
            Code::Unavailable,
            "fnd is stopping; send the event again with the same id",
        ),
        NotPublished::Unreadable(error) => internal("read data from the disk", &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::records::outcome::Skip;
    use fnd_core::run::NotTaken;

    #[test]
    fn an_event_that_no_stream_has_confirmed_comes_again() {
        let of = |failed| not_published(NotPublished::NotStreamed { event: 1, failed }, true);
        let failed = of(PublishFailed::Failed("there is no connection to the server".to_owned()));
        assert_eq!((failed.problem.status, failed.retry_after), (503, Some(1)));
        assert!(
            failed.problem.detail.starts_with("event 2 of the batch: the stream"),
            "{failed:?}"
        );
        assert_eq!(of(PublishFailed::TooLarge(2 << 20, 1 << 20)).problem.status, 413);
        assert_eq!(
            not_published(NotPublished::TypeTooLong { event: 0 }, false)
                .problem
                .status,
            400
        );
    }

    #[test]
    fn events_that_nobody_takes_are_refused_with_the_reason() {
        let function = FunctionName::new("hello").unwrap();
        let why = "the data does not match `order.json`: `/id`: value is not of type \"integer\"".to_owned();
        let refused = |too_large| NotPublished::Refused {
            event: 0,
            subscribers: vec![NotTaken {
                function: function.clone(),
                why: why.clone(),
            }],
            too_large,
        };
        let problem = not_published(refused(false), false).problem;
        assert_eq!(problem.status, 422);
        assert_eq!(problem.detail, format!("no subscriber takes it: `hello`: {why}"));
        assert_eq!(not_published(refused(true), false).problem.status, 413);
        let full = NotPublished::Rejected {
            event: 1,
            function: function.clone(),
            rejection: Rejection::Skipped {
                skip: Skip::QueueFull,
                retry_after: None,
            },
        };
        let refusal = not_published(full, true);
        assert_eq!((refusal.problem.status, refusal.retry_after), (429, Some(1)));
        assert_eq!(
            refusal.problem.detail,
            "event 2 of the batch: no subscriber has room for it: the queue of `hello` is full (queue.max)"
        );
    }
}
