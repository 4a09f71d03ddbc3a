//! Routes about NATS: the connection and its entries; to end a claim, and to publish a message.

use super::{ControlRoute, OPERATOR, VIEWER};
use crate::control::call::ControlCall;
use crate::http::request::bytes_of;
use crate::http::response::{Answered, Refusal, json, refuse, refuse_for_now};
use crate::triggers::nats::request::OutgoingMessage;
use crate::triggers::nats::{PublishFailed, ReleaseFailed};
use bytes::Bytes;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::cause::DEPTH_HEADER;
use fnd_manifest::function::nats::is_target;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::{print_duration, print_size};
use hyper::header::{CONTENT_TYPE, HeaderName};

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(GET "/v1/nats" List VIEWER "nats", nats, Some(&["function"])),
    // A message may run functions on other nodes, too, for which this one knows no roles.
    route!(POST "/v1/nats/publish" Node OPERATOR "emit", publish, Some(&["subject", "id"])),
    route!(POST "/v1/functions/{function}/nats/release" Function OPERATOR "release-claim", release, Some(&["sequence"])),
];

/// Most bytes of a message that is published. The server has a limit of its own, by default 1 MiB.
const PUBLISHED_MAX: u64 = 8 << 20;
/// Longest id of a message.
const ID_MAX: usize = 255;

/// `GET /v1/nats[?function=F]`: the connection, and the entries of functions that the caller may view.
pub(super) async fn nats(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.query.function("function")?;
    let view = call.backend.daemon.state.borrow().look().nats.view();
    let mut view = view.ok_or_else(not_configured)?;
    let is_asked = |name: &FunctionName| function.as_ref().is_none_or(|function| function == name);
    view.triggers
        .retain(|trigger| call.reach.views(&trigger.function) && is_asked(&trigger.function));
    // Addresses and their problems belong to the node, as its places and problems in `GET /v1/status` do.
    if call.reach.node().is_none() {
        (view.server, view.error) = (None, None);
    }
    json(&view)
}

/// `POST /v1/functions/F/nats/release?sequence=N`: ends the claim of a node that does not come back.
pub(super) async fn release(call: ControlCall) -> Result<Answered, Refusal> {
    let from_one = |text: &str| text.parse::<u64>().ok().filter(|sequence| *sequence > 0);
    let sequence = call.query.required(("sequence", "7"), "a number from 1 on", from_one)?;
    let function = call.function()?;
    let released = call.backend.release_claim(&function, sequence).await;
    json(&released.map_err(|failed| not_released(&failed, &function, sequence))?)
}

fn not_released(failed: &ReleaseFailed, function: &FunctionName, sequence: u64) -> Refusal {
    let (code, detail) = match failed {
        ReleaseFailed::NotConfigured => return not_configured(),
        ReleaseFailed::Unknown => (
            Code::NotFound,
            format!(
                "there is no claim on message {sequence} of `{function}` that could be ended: no stream of the function has the \
                 message, nobody has begun it, or it has ended"
            ),
        ),
        ReleaseFailed::Here => (
            Code::Conflict,
            format!("this node has message {sequence} of `{function}` itself: `fndctl cancel` ends its run"),
        ),
        ReleaseFailed::EndsItself(node, silence) => (
            Code::Conflict,
            format!(
                "nobody has to end the claim on message {sequence} of `{function}`: another machine goes on once {node} was silent \
                 for {}",
                print_duration(*silence)
            ),
        ),
        ReleaseFailed::Changed => (
            Code::Conflict,
            format!(
                "the claim on message {sequence} of `{function}` has changed: its node is there. Nothing was changed"
            ),
        ),
        ReleaseFailed::Failed(why) => {
            let detail = format!("whether the claim was ended is not known: {why}");
            return refuse_for_now(Code::Unavailable, detail);
        }
    };
    Problem::new(code, detail).of(function).into()
}

/// `POST /v1/nats/publish?subject=S[&id=ID]`: publishes the body, and answers when a stream has stored it.
pub(super) async fn publish(call: ControlCall) -> Result<Answered, Refusal> {
    let query = &call.query;
    let form = "a subject without wildcards, such as `orders.new`";
    let target = |text: &str| is_target(text).then(|| text.to_owned());
    let subject = query.required(("subject", "orders.new"), form, target)?;
    let mut headers = Vec::new();
    if let Some(granted) = &call.granted {
        granted.check_subject(&call.backend, &subject)?;
        headers.push((DEPTH_HEADER.to_owned(), granted.emitter(&call)?.depth.to_string()));
    }
    // A line end would begin another header.
    let is_id = |text: &str| (1..=ID_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    let id = query.get("id", "1 to 255 characters", |text| is_id(text).then(|| text.to_owned()))?;
    headers.extend(id.map(|id| ("Nats-Msg-Id".to_owned(), id)));
    for (name, shown) in [
        (CONTENT_TYPE, "Content-Type"),
        (HeaderName::from_static("traceparent"), "traceparent"),
    ] {
        let value = call.request.header(&name)?;
        headers.extend(value.map(|value| (shown.to_owned(), value.to_owned())));
    }
    let body = call.read_body(PUBLISHED_MAX, "the limit of this route").await?;
    let message = OutgoingMessage {
        subject: subject.as_str().into(),
        headers,
        payload: Bytes::copy_from_slice(&bytes_of(&body)?),
    };
    let published = call.backend.publish_message(message).await;
    json(&published.map_err(|failed| not_published(&failed, &subject))?)
}

fn not_published(failed: &PublishFailed, subject: &str) -> Refusal {
    match failed {
        PublishFailed::NotConfigured => not_configured(),
        PublishFailed::TooLarge(size, most) => {
            let [size, most] = [size, most].map(|size| print_size(*size as u64));
            refuse(
                Code::TooLarge,
                format!("the message has {size}, and the server takes at most {most} (`max_payload`)"),
            )
        }
        // The id makes a repeated message one message.
        PublishFailed::Failed(why) => refuse_for_now(
            Code::Unavailable,
            format!("no stream has confirmed the message to `{subject}`: {why}; send it again, with the same id"),
        ),
    }
}

fn not_configured() -> Refusal {
    let detail = "fnd is connected to no NATS: fnd.toml has no `[events.nats]`";
    refuse(Code::NotConfigured, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_failure_has_its_code() {
        let function = FunctionName::new("orders").unwrap();
        for (failed, code) in [
            (ReleaseFailed::NotConfigured, "not-configured"),
            (ReleaseFailed::Unknown, "not-found"),
            (ReleaseFailed::Here, "conflict"),
            (
                ReleaseFailed::EndsItself("vm2".to_owned(), Duration::from_secs(30)),
                "conflict",
            ),
            (ReleaseFailed::Changed, "conflict"),
            (ReleaseFailed::Failed("timeout".to_owned()), "unavailable"),
        ] {
            let refusal = not_released(&failed, &function, 7);
            assert_eq!(refusal.problem.code, code, "{failed:?}");
            assert_eq!(refusal.retry_after.is_some(), code == "unavailable");
        }
        for (failed, code) in [
            (PublishFailed::NotConfigured, "not-configured"),
            (PublishFailed::TooLarge(2 << 20, 1 << 20), "too-large"),
            (PublishFailed::Failed("timeout".to_owned()), "unavailable"),
        ] {
            assert_eq!(not_published(&failed, "orders.new").problem.code, code, "{failed:?}");
        }
    }
}
