//! Any headers as a caller's trace: the trace read from them can be stored, and is passed on as the specifications say.
#![no_main]

use fnd_core::trace::{Span, Trace};
use fnd_wire::ids::{Attempt, InvocationId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let headers: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let value = |name: &str| {
        let values: Vec<&str> = headers
            .iter()
            .filter(|(other, _)| *other == name)
            .map(|(_, value)| *value)
            .collect();
        (!values.is_empty()).then(|| values.join(","))
    };
    let Some(trace) = Trace::of(value) else { return };
    assert_ne!((trace.id.0, trace.parent.0), (0, 0));
    assert_eq!(Trace::parse(&trace.to_string()).as_ref(), Some(&trace));
    let span = Span::of(Some(&trace), InvocationId(7), Attempt(1));
    for (name, text) in [("traceparent", span.traceparent()), ("b3", span.b3())] {
        assert!(!text.contains(['\0', '\n']), "{text}");
        let passed = Trace::of(|other| (other == name).then(|| text.clone())).expect("what is passed on is valid");
        assert_eq!((passed.id, passed.parent), (trace.id, span.id), "{text}");
    }
});
