//! The inputs of an attempt beside those that the spawner sets: variables, standard input, the previous result
//! (docs/writing-functions.md).

use fnd_core::data::Data;
use fnd_core::json;
use fnd_core::records::protocol::HttpRequest;
use fnd_core::records::{Payload, RunResult};
use fnd_core::run::{AttemptOrder, SpawnOrder};
use fnd_core::trace::Span;
use fnd_core::triggers::cgi;
use fnd_core::triggers::event::renewed;
use fnd_wire::form::Bytes;
use fnd_wire::frame::PROTOCOL_0_1;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Largest payload that is put into `DATA` too; a single variable may have 128 KiB (execve(2)).
const DATA_MAX: usize = 64 * 1024;

/// Returns the variables of an attempt; for a handler's worker those that are the same for all its calls. `protocol` is
/// the spawner's: that of fnd 0.1 refuses the variables of a request.
#[must_use]
pub fn variables(order: &SpawnOrder, protocol: u16) -> Vec<(String, Bytes)> {
    let runtime = &order.rules.runtime;
    let mut variables = vec![
        ("FND_FUNCTION", order.function.to_string()),
        ("FND_RUNTIME", runtime.clone()),
        ("RUNTIME", runtime.clone()),
    ];
    if let Some(attempt) = &order.attempt {
        of_attempt(attempt, &mut variables);
    }
    let owned = variables
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into_bytes()));
    let attempt = order.attempt.as_ref().filter(|_| protocol > PROTOCOL_0_1);
    let of_request = attempt.map(|attempt| of_request(&attempt.payload)).unwrap_or_default();
    owned
        .chain(of_request)
        .map(|(name, value)| (name, Bytes(value)))
        .collect()
}

/// Returns the same variables for the head of an Invoke; absent where there are none.
#[must_use]
pub fn for_worker(payload: &Payload) -> Option<serde_json::Map<String, serde_json::Value>> {
    // JSON holds text only, while the variable of a script may have any bytes.
    let variables = of_request(payload)
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into()));
    Some(variables.collect()).filter(|variables: &serde_json::Map<_, _>| !variables.is_empty())
}

/// Returns the variables of a request that came by a route, and of the trigger's cause.
fn of_request(payload: &Payload) -> Vec<(String, Vec<u8>)> {
    let length = payload.data.as_ref().map(Data::size);
    let variables = |request: &Arc<HttpRequest>| cgi::variables(request, payload.content_type.as_deref(), length);
    let of_request = payload.request.as_ref().map(variables).unwrap_or_default();
    let of_request = of_request.into_iter().map(|(name, value)| (name, value.into_bytes()));
    let of_cause = payload.cause.iter().flat_map(|cause| cause.variables());
    of_request
        .chain(of_cause.map(|(name, value)| (name.to_owned(), value)))
        .collect()
}

fn of_attempt(attempt: &AttemptOrder, variables: &mut Vec<(&str, String)>) {
    variables.extend([
        ("FND_INVOCATION", attempt.invocation.to_string()),
        ("FND_ATTEMPT", attempt.attempt.0.to_string()),
        ("FND_POLL", attempt.poll.to_string()),
        ("FND_TRIGGER", attempt.seen_trigger().as_str().to_owned()),
        ("TRACEPARENT", span(attempt).traceparent()),
    ]);
    if let Some(caller) = &attempt.payload.trace {
        variables.extend(caller.state.clone().map(|state| ("TRACESTATE", state)));
        variables.extend(caller.b3.then(|| ("B3", span(attempt).b3())));
    }
    if let Some(deadline) = attempt.deadline_ms {
        variables.push(("FND_DEADLINE", deadline.to_string()));
    }
    if let Some(data) = data(&attempt.payload) {
        variables.push(("DATA", data));
    }
    // execve(2) takes strings that end with a NUL byte, so a variable cannot contain one.
    let context = attempt.payload.context.as_deref();
    if let Some(context) = context.filter(|context| !context.contains('\0')) {
        variables.push(("KEPTN_CONTEXT", context.to_owned()));
        variables.push(("CONTEXT", context.to_owned()));
    }
}

/// Returns `DATA`: JSON is compacted, with sorted keys and numbers as they are written; other text is unchanged. Absent
/// without payload, where it is too large, and where it cannot be a variable.
fn data(payload: &Payload) -> Option<String> {
    // The size is checked before the bytes are asked for: large data may lie on the disk.
    let data = payload.data.as_ref().filter(|data| data.size() <= DATA_MAX as u64)?;
    let bytes = data.bytes().ok()?;
    let text = match json::compact(&bytes) {
        Some(text) => text,
        None => str::from_utf8(&bytes).ok()?.to_owned(),
    };
    (text.len() <= DATA_MAX && !text.contains('\0')).then_some(text)
}

/// Returns the attempt's span, in the caller's trace or in one of the invocation's own. Spans of the function belong
/// below it.
#[must_use]
pub fn span(attempt: &AttemptOrder) -> Span {
    Span::of(attempt.payload.trace.as_ref(), attempt.invocation, attempt.attempt)
}

/// Returns the request for a handler: headers that name the caller's span name the attempt's instead. An event is the
/// request that brings it in its binary form, so that a handler finds its attributes where a caller's would be. A CloudEvent
/// of version 0.1 has the headers of version 1.0 as well.
#[must_use]
pub fn request(attempt: &AttemptOrder) -> Option<Cow<'_, HttpRequest>> {
    let Some(request) = attempt.payload.request.as_deref() else {
        return of_cause(attempt).map(Cow::Owned);
    };
    // Most requests are no events of version 0.1 and have no trace. These are lent and not copied.
    let renewed = renewed(&request.headers);
    if attempt.payload.trace.is_none() && renewed.is_empty() {
        return Some(Cow::Borrowed(request));
    }
    let mut request = request.clone();
    request.headers.extend(renewed);
    if attempt.payload.trace.is_some() {
        let span = span(attempt);
        for (name, value) in &mut request.headers {
            match name.as_str() {
                "traceparent" => *value = span.traceparent(),
                "b3" => *value = span.b3(),
                "x-b3-spanid" => *value = span.id.to_string(),
                "x-b3-parentspanid" => *value = span.parent.map(|parent| parent.to_string()).unwrap_or_default(),
                _ => {}
            }
        }
    }
    Some(Cow::Owned(request))
}

fn of_cause(attempt: &AttemptOrder) -> Option<HttpRequest> {
    let payload = &attempt.payload;
    let mut headers = payload.cause.as_deref()?.headers();
    if headers.is_empty() {
        return None;
    }
    let kind = payload.content_type.as_deref();
    headers.extend(kind.map(|kind| ("content-type".to_owned(), kind.to_owned())));
    if payload.trace.is_some() {
        headers.push(("traceparent".to_owned(), span(attempt).traceparent()));
    }
    Some(HttpRequest {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers,
        ..HttpRequest::default()
    })
}

/// An attempt's documents: descriptors in the order of [`fnd_wire::frame::Spawn`].
pub struct PassedVariables {
    pub environment: Vec<(String, Bytes)>,
    /// Whether standard input is among the descriptors.
    pub input: bool,
    /// Whether the previous result is among the descriptors.
    pub previous: bool,
    pub descriptors: Vec<OwnedFd>,
}

/// Puts the inputs of an attempt into variables and memory files.
///
/// # Errors
/// The system is out of memory or descriptors.
pub fn pass(order: &SpawnOrder, protocol: u16) -> Result<PassedVariables, std::io::Error> {
    let mut descriptors = Vec::new();
    let input = order.attempt.as_ref().and_then(|attempt| attempt.payload.data.as_ref());
    let previous = order.attempt.as_ref().and_then(|attempt| attempt.previous.as_ref());
    if let Some(data) = input {
        descriptors.push(sealed("fnd-input", &data.bytes()?)?);
    }
    if let Some(RunResult { data, .. }) = previous {
        descriptors.push(sealed("fnd-previous", data)?);
    }
    Ok(PassedVariables {
        environment: variables(order, protocol),
        input: input.is_some(),
        previous: previous.is_some(),
        descriptors,
    })
}

/// Returns a sealed memory file, positioned at its start. A function can read it as standard input and open it again as
/// `/dev/stdin`, and fnd need not feed a pipe.
fn sealed(name: &str, bytes: &[u8]) -> Result<OwnedFd, std::io::Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Without the right to execute, where the kernel knows the flag (6.3).
    let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    };
    let mut file = File::from(made?);
    file.write_all(bytes)?;
    file.rewind()?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(file.into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use fnd_core::records::Attributes;
    use fnd_core::records::cause::{Cause, EventCause};
    use fnd_core::records::outcome::Trigger;
    use fnd_core::trace::{SpanId, Trace, TraceId};
    use fnd_wire::frame::PROTOCOL_MAX;
    use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
    use std::io::Read;

    pub(crate) fn order(data: Option<&[u8]>) -> SpawnOrder {
        let payload = Payload {
            data: data.map(Into::into),
            ..Payload::default()
        };
        let attempt = AttemptOrder {
            invocation: InvocationId(9),
            attempt: Attempt(2),
            poll: 1,
            trigger: Trigger::Manual,
            payload,
            previous: None,
            deadline_ms: None,
        };
        let manifest = r#"{"enabled":true,"run_on_load":false,"timeout":null,"grace":{"secs":5,"nanos":0},"deadline":null,
            "memory":1,"cpu_milli":null,"memory_text":"","max_running":1,"retry":{"retries":0,"backoff":{"interval":
            {"secs":1,"nanos":0},"factor":2.0,"max_interval":{"secs":1,"nanos":0},"jitter":"None"},"on":[],"not_on_exit":[]},
            "poll":null,"queue":{"max":1,"overlap":"Queue","rate":null},"result_max":1,"pids":1,"runtime":"bash"}"#;
        SpawnOrder {
            worker: WorkerId(7),
            function: FunctionName::new("ops/hello").unwrap(),
            id: FunctionId(1),
            version: Version([0; 32]),
            rules: Arc::new(serde_json::from_str(manifest).unwrap()),
            attempt: Some(attempt),
            lasts: None,
        }
    }

    fn attempt(order: &mut SpawnOrder) -> &mut AttemptOrder {
        order.attempt.as_mut().unwrap()
    }

    fn value(order: &SpawnOrder, name: &str) -> Option<String> {
        let found = variables(order, PROTOCOL_MAX).into_iter().find(|(n, _)| n == name);
        found.map(|(_, value)| String::from_utf8(value.0).unwrap())
    }

    #[test]
    fn an_event_is_one_also_where_a_message_has_brought_it() {
        let mut order = order(None);
        attempt(&mut order).trigger = Trigger::Nats;
        assert_eq!(value(&order, "FND_TRIGGER").as_deref(), Some("nats"));
        let event = EventCause {
            attributes: Attributes::default(),
            order_key: None,
            depth: 0,
        };
        attempt(&mut order).payload.cause = Some(Cause::Event(event).into());
        assert_eq!(value(&order, "FND_TRIGGER").as_deref(), Some("event"));
    }

    #[test]
    fn data_is_compact_json_with_sorted_keys_or_the_text_or_absent() {
        let check = |data: Option<&[u8]>, expected: Option<&str>| {
            assert_eq!(value(&order(data), "DATA").as_deref(), expected);
        };
        check(
            Some(br#"{ "b": 1, "a": [1, 2.5, "x"] }"#),
            Some(r#"{"a":[1,2.5,"x"],"b":1}"#),
        );
        check(
            Some(b"{\"n\": 18446744073709551617, \"f\": 0.10000000000000000001}"),
            Some("{\"f\":0.10000000000000000001,\"n\":18446744073709551617}"),
        );
        check(Some(b"plain text"), Some("plain text"));
        check(Some(b""), Some(""));
        check(None, None);
        check(Some(b"nul \0 inside"), None);
        check(Some(&[0xff, 0xfe]), None);
        check(Some(&vec![b'x'; DATA_MAX + 1]), None);
    }

    #[test]
    fn an_attempt_knows_who_it_is() {
        let mut order = order(None);
        assert_eq!(value(&order, "FND_FUNCTION").as_deref(), Some("ops/hello"));
        assert_eq!(value(&order, "FND_ATTEMPT").as_deref(), Some("2"));
        assert_eq!(value(&order, "FND_POLL").as_deref(), Some("1"));
        assert_eq!(value(&order, "KEPTN_CONTEXT"), None);
        assert_eq!(value(&order, "FND_DEADLINE"), None);
        attempt(&mut order).payload.context = Some("{}".into());
        assert_eq!(value(&order, "CONTEXT").as_deref(), Some("{}"));
        assert_eq!(value(&order, "TRACEPARENT").unwrap().len(), 55);
    }

    #[test]
    fn a_caller_s_trace_goes_on_in_each_attempt() {
        let mut order = order(None);
        assert_eq!((value(&order, "TRACESTATE"), value(&order, "B3")), (None, None));
        let caller = Trace {
            id: TraceId(0xabc),
            parent: SpanId(0xdef),
            flags: 1,
            state: Some("rojo=1".to_owned()),
            b3: true,
        };
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let payload = &mut attempt(&mut order).payload;
        payload.trace = Some(caller);
        payload.request = Some(Arc::new(HttpRequest {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            query: String::new(),
            headers: vec![
                header("traceparent", "the caller's"),
                header("tracestate", "rojo=1"),
                header("b3", "x"),
            ],
            ..HttpRequest::default()
        }));
        let own = span(order.attempt.as_ref().unwrap());
        assert_eq!((own.trace, own.parent), (TraceId(0xabc), Some(SpanId(0xdef))));
        assert_eq!(value(&order, "TRACEPARENT"), Some(own.traceparent()));
        assert_eq!(value(&order, "TRACESTATE").as_deref(), Some("rojo=1"));
        assert_eq!(value(&order, "B3"), Some(own.b3()));
        let request = request(order.attempt.as_ref().unwrap()).unwrap();
        let expected = [
            header("traceparent", &own.traceparent()),
            header("tracestate", "rojo=1"),
            header("b3", &own.b3()),
        ];
        assert_eq!(request.headers, expected);
        attempt(&mut order).attempt = Attempt(3);
        assert_ne!(span(order.attempt.as_ref().unwrap()).id, own.id);
    }

    #[test]
    fn a_request_by_a_route_is_in_the_variables_where_the_spawner_takes_them() {
        let mut order = order(Some(b"body"));
        let mut request = HttpRequest {
            method: "PUT".to_owned(),
            path: "/users/7".to_owned(),
            headers: vec![("x-name".to_owned(), "value".to_owned())],
            ..HttpRequest::default()
        };
        attempt(&mut order).payload.request = Some(Arc::new(request.clone()));
        assert_eq!(
            (value(&order, "REQUEST_METHOD"), value(&order, "HTTP_X_NAME")),
            (None, None)
        );
        request.route = "/users/{id}".to_owned();
        request.params = vec![("id".to_owned(), "7".to_owned())];
        attempt(&mut order).payload.request = Some(Arc::new(request));
        for (name, expected) in [
            ("REQUEST_METHOD", "PUT"),
            ("SCRIPT_NAME", "/users"),
            ("PATH_INFO", "/7"),
            ("FND_PARAM_ID", "7"),
            ("HTTP_X_NAME", "value"),
            ("CONTENT_LENGTH", "4"),
        ] {
            assert_eq!(value(&order, name).as_deref(), Some(expected), "{name}");
        }
        let earlier = variables(&order, PROTOCOL_0_1);
        assert!(
            earlier
                .iter()
                .all(|(name, _)| name != "REQUEST_METHOD" && !name.starts_with("HTTP_"))
        );
    }

    #[test]
    fn large_things_are_passed_as_files_nobody_can_change() {
        let data = vec![b'x'; DATA_MAX];
        let passed = pass(&order(Some(&data)), PROTOCOL_MAX).unwrap();
        assert!(passed.input && !passed.previous);
        let mut input = File::from(passed.descriptors.into_iter().next().unwrap());
        let mut read = Vec::new();
        input.read_to_end(&mut read).unwrap();
        assert_eq!(read, data);
        assert!(input.write_all(b"y").is_err());
    }
}
