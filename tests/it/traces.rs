//! A caller's trace continues in each attempt, in the form in which the caller sent it.

use fnd_core::trace::Span;
use fnd_tests::Fnd;
use fnd_wire::ids::Attempt;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

const SCRIPT: &str = "# /// fnd\n# on_load = false\n# [retry]\n# retries = 1\n# interval = \"10ms\"\n# ///\n\
    echo \"$TRACEPARENT ${TRACESTATE-none} ${B3-none}\" >&2\n[ \"$FND_ATTEMPT\" = 2 ] || exit 75\n";

/// Returns what each attempt of a call of the script printed.
fn printed(fnd: &Fnd, headers: &[(&str, &str)]) -> (fnd_wire::ids::InvocationId, Vec<String>) {
    let answer = fnd
        .client()
        .call("POST", "/v1/functions/told/invocations", headers, b"");
    let id = answer.header("fnd-invocation").unwrap();
    let id = fnd_wire::ids::InvocationId::parse(id).unwrap();
    fnd.wait_end(id);
    let lines = fnd.logs(id).into_iter().filter(|line| line.stream.as_str() == "stderr");
    (id, lines.map(|line| line.text).collect())
}

/// Each of these has functions of its own.
#[test]
fn traces_of_scripts_and_handlers() {
    let fnd = Fnd::start();
    retries_are_spans_of_their_own_in_the_caller_s_trace(&fnd);
    a_handler_gets_its_own_span_wherever_its_caller_named_one(&fnd);
    fnd.finish();
}

fn retries_are_spans_of_their_own_in_the_caller_s_trace(fnd: &Fnd) {
    fnd.drop_file("told.sh", SCRIPT);
    fnd.wait_ready("told");
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let span = |id, attempt| Span::of(None, id, Attempt(attempt)).id;

    let (id, lines) = printed(fnd, &[("traceparent", &parent), ("tracestate", "rojo=1")]);
    let expected = [1, 2].map(|attempt| format!("00-{TRACE}-{}-01 rojo=1 none", span(id, attempt)));
    assert_eq!(lines, expected);

    let (id, lines) = printed(
        fnd,
        &[("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-sampled", "0")],
    );
    let expected = [1, 2].map(|attempt| {
        let span = span(id, attempt);
        format!("00-{TRACE}-{span}-00 none {TRACE}-{span}-0-{SPAN}")
    });
    assert_eq!(lines, expected);

    // Without a valid trace a new one begins, the same for all attempts of the invocation.
    for headers in [
        &[][..],
        &[("traceparent", "00-nonsense"), ("tracestate", "rojo=1"), ("b3", "0")],
    ] {
        let (id, lines) = printed(fnd, headers);
        let own = id.to_string().replace('-', "");
        let expected = [1, 2].map(|attempt| format!("00-{own}-{}-01 none none", span(id, attempt)));
        assert_eq!(lines, expected);
    }
}

fn a_handler_gets_its_own_span_wherever_its_caller_named_one(fnd: &Fnd) {
    fnd.drop_file(
        "handles.py",
        "# /// fnd\n# on_load = false\n# ///\ndef handler(event, context):\n    \
         headers = event[\"extensions\"][\"request\"].headers\n    \
         return [context.traceparent, headers[\"traceparent\"], headers[\"tracestate\"], headers[\"b3\"]]\n",
    );
    fnd.wait_ready("handles");
    let parent = format!("00-{TRACE}-{SPAN}-01");
    let b3 = format!("{TRACE}-{SPAN}-1");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "rojo=1"), ("b3", &b3)];
    let answer = fnd.client().call("POST", "/v1/functions/handles/invoke", &headers, b"");
    let id = fnd_wire::ids::InvocationId::parse(answer.header("fnd-invocation").unwrap()).unwrap();
    let span = Span::of(None, id, Attempt(1)).id;
    let own = format!("00-{TRACE}-{span}-01");
    let expected = [
        own.clone(),
        own,
        "rojo=1".to_owned(),
        format!("{TRACE}-{span}-1-{SPAN}"),
    ];
    assert_eq!(answer.json::<Vec<String>>(), expected, "{}", answer.text());
}
