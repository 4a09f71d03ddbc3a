//! `POST /v1/events` and `POST /publish`: CloudEvents for the functions that subscribe to them. The second path is that of
//! Kyma's publisher proxy.
//!
//! An event of a caller that may not operate every function reaches only the functions that it may operate: sending it
//! an event runs a function, as invoking it does.

use crate::backend::{EventOrigin, EventSender};
use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal};
use crate::invoke::events::accept;

pub(super) async fn publish(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let limit = call.backend.event_bytes_max();
    let body = call.read_body(limit, "the largest limits.body of a subscriber").await?;
    let emitter = call.granted.as_ref().map(|granted| granted.emitter(&call));
    let origin = EventOrigin {
        reach: call.reach.clone(),
        sender: match &call.granted {
            Some(granted) => EventSender::Function(granted.function.clone()),
            None => EventSender::User(call.uid),
        },
    };
    accept(&*call.backend, origin, (&call.request, body), emitter.transpose()?).await
}
