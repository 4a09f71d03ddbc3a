//! `POST /v1/events` and `POST /publish`: CloudEvents for the functions that subscribe to them. The second path is that of
//! Kyma's publisher proxy.
//!
//! An event of a caller that may not operate every function reaches only the functions that it may operate: sending it
//! an event runs a function, as invoking it does.

use crate::backend::{EventBackend, EventOrigin, EventSender};
use crate::control::call::ControlCall;
use crate::http::headers::joined;
use crate::http::response::{Answered, Refusal};
use crate::invoke::events::accept;
use fnd_core::trace::Trace;

pub(super) async fn publish(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let limit = call.backend.event_bytes_max();
    let body = call.read_body(limit, "the largest limits.body of a subscriber").await?;
    let backend: &dyn EventBackend = &*call.backend;
    let trace = Trace::of(|name| joined(&call.request.parts.headers, name));
    let emitter = call
        .granted
        .as_ref()
        .map(|granted| granted.emitter(&call, trace.as_ref()));
    let origin = EventOrigin {
        reach: call.reach.clone(),
        sender: match &call.granted {
            Some(granted) => EventSender::Function(granted.function.clone()),
            None => EventSender::User(call.uid),
        },
    };
    let sender = (trace, emitter.transpose()?);
    accept(backend, &call.backend.buffers(), origin, (&call.request, body), sender).await
}
