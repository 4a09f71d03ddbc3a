//! Handlers in Java: Kubeless's form, what they return, and what fnd compiles.

use crate::forms::{request, runtime, serve, written};
use crate::runtimes;
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::{FailureKind, WorkerMessage};
use serde_json::json;
use std::fs;
use std::process::Command;

#[test]
fn a_kubeless_handler_with_its_names_and_types() {
    let java = runtime!("java");
    let code = r#"
package io.kubeless;

import io.kubeless.Event;
import io.kubeless.Context;

public class Foo {
    public String foo(io.kubeless.Event event, io.kubeless.Context context) {
        return String.join("|", event.Data, event.EventID, event.EventType, event.EventTime, event.EventNamespace,
            context.functionName, context.timeout, context.runtime, context.memoryLimit, Beside.text());
    }
}
"#;
    let function = written("Foo.java", code);
    let beside = "package io.kubeless;\nclass Beside { static String text() { return \"beside\"; } }\n";
    fs::write(function.file.with_file_name("Beside.java"), beside).unwrap();
    // No file names it, so it is not compiled.
    fs::write(
        function.file.with_file_name("Draft.java"),
        "package io.kubeless;\nclass {",
    )
    .unwrap();
    for handler in ["foo", ""] {
        let (mut worker, _) = Worker::serve_with(&java, &function.file, handler);
        let mut call = Call::json("{\"a\": 1}");
        call.request = request(&[("event-id", "7"), ("event-namespace", "shop")]);
        let expected = "{\"a\": 1}|7|application/json|2026-11-21T08:00:00.123Z|shop|foo|180|java|268435456|beside";
        assert_eq!(worker.call(&call).text(), expected);
    }
}

#[test]
fn results_keep_their_kind() {
    let java = runtime!("java");
    let code = r#"
import io.kubeless.*;
import java.util.*;

class Values {
    enum Colour { RED }
    record Point(int x, Object y) { }

    static Object handler(Event event, Context context) {
        List<Object> own = new ArrayList<>();
        own.add(own);
        return switch (event.Data) {
            case "text" -> "x";
            case "bytes" -> new byte[] {'x'};
            case "number" -> 1.5;
            case "list" -> List.of(true, Colour.RED, new int[] {1, 2});
            case "record" -> new Point(1, Optional.empty().orElse(null));
            case "response" -> Map.of("status", 404, "body", "no", "headers", Map.of("X-A", "b"));
            case "data" -> new TreeMap<>(Map.of("status", "ok", "body", 1));
            case "nan" -> Double.NaN;
            case "date" -> new Date();
            case "surrogate" -> "\ud800";
            case "own" -> own;
            case "inside" -> List.of(new byte[1]);
            default -> null;
        };
    }
}
"#;
    let (mut worker, _function) = serve(&java, "values.java", code, "");
    for (value, status, content_type, body) in [
        ("text", None, Some("text/plain; charset=utf-8"), Some("x")),
        ("bytes", None, Some("application/octet-stream"), Some("x")),
        ("none", None, None, None),
        ("number", None, Some("application/json"), Some("1.5")),
        ("list", None, Some("application/json"), Some(r#"[true,"RED",[1,2]]"#)),
        ("record", None, Some("application/json"), Some(r#"{"x":1,"y":null}"#)),
        ("response", Some(404), Some("text/plain; charset=utf-8"), Some("no")),
        (
            "data",
            None,
            Some("application/json"),
            Some(r#"{"body":1,"status":"ok"}"#),
        ),
    ] {
        let Answer::Result(head, found) = worker.call(&Call::text(value)) else {
            panic!("{value} failed");
        };
        assert_eq!(
            (head.status, head.content_type.as_deref()),
            (status, content_type),
            "{value}"
        );
        assert_eq!(found.as_deref(), body.map(str::as_bytes), "{value}");
    }
    for value in ["nan", "date", "surrogate", "own", "inside"] {
        let (kind, message) = worker.call(&Call::text(value)).error();
        assert_eq!(kind, FailureKind::BadAnswer, "{value}: {message}");
    }
}

#[test]
fn json_keeps_every_digit_and_the_order_of_its_keys() {
    let java = runtime!("java");
    let code = "
import io.kubeless.*;
class Digits {
    Object handler(Event event, Context context) { return event.data(); }
}
";
    let (mut worker, _function) = serve(&java, "digits.java", code, "");
    for same in [
        r#"{"z":1,"a":{"c":[],"b":{}},"m":"\"\\/"}"#,
        "[0,-1,9223372036854775807,-9223372036854775808,9223372036854775808,123456789012345678901234567890]",
        "[1.5,-0.0,0.1,3.14159265358979323846264338327950288,123456789.123456789,1E+400]",
    ] {
        assert_eq!(worker.call(&Call::json(same)).text(), same);
    }
    for wrong in [
        "[01]",
        "[1.]",
        "[.5]",
        "[1e]",
        "[+1]",
        "[NaN]",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "\"\n\"",
        "\"\\x\"",
        "[1] 2",
        "tru",
    ] {
        let (kind, message) = worker.call(&Call::json(wrong)).error();
        assert_eq!(kind, FailureKind::Error, "{wrong}");
        assert!(message.contains("expected"), "{wrong}: {message}");
    }
    let deep = "[".repeat(1001);
    assert_eq!(worker.call(&Call::json(&deep)).error().0, FailureKind::Error);
}

#[test]
fn cloud_events_and_objects() {
    let java = runtime!("java");
    let code = r#"
import io.kubeless.*;
import java.util.List;
class Events {
    Object handler(Event event, Context context) {
        return List.of(event.map(), event.Data, event.get("ce-type"), event.get("ce-source"), event.EventType);
    }
}
"#;
    let (mut worker, _function) = serve(&java, "events.java", code, "");
    let structured = r#"{"specversion":"1.0","id":"1","type":"made","source":"shop","data":{"a":1}}"#;
    let call = Call::of("application/cloudevents+json", structured.as_bytes());
    let expected = json!([{"a": 1}, "{\"a\":1}", "made", "shop", "made"]);
    assert_eq!(worker.call(&call).json(), expected);
    let Answer::Result(head, body) = worker.call(&Call::json("[]")) else {
        panic!("it failed");
    };
    assert_eq!(head.status, Some(400));
    assert_eq!(body.unwrap(), b"the payload is not a JSON object\n");
}

#[test]
fn a_load_error_says_what_the_compiler_found_and_which_methods_there_are() {
    let java = runtime!("java");
    let imports = "import io.kubeless.*;\n";
    for (code, expected) in [
        (
            "class A { int handler(Event e, Context c) { return x; } }",
            "wrong.java:2:52: cannot find symbol; symbol: variable x; location: class A",
        ),
        (
            "class A { int a(Event e, Context c) { return 1; } int b(Event e, Context c) { return 1; } }",
            "the file has several methods with the parameters (Event, Context): `a`, `b`; name one of them `handler`",
        ),
        (
            "class A { A(int x) { } int a(Event e, Context c) { return 1; } }",
            "class `A` needs a constructor without parameters, or its handler must be static",
        ),
        (
            "class A { A() throws Exception { throw new Exception(\"no database\"); } int a(Event e, Context c) { return 1; } }",
            "no database",
        ),
        (
            "class A { }",
            "the file has no method `handler(io.kubeless.Event, io.kubeless.Context)`",
        ),
    ] {
        let function = written("wrong.java", &format!("{imports}{code}\n"));
        let mut worker = Worker::start(&java, &function.file, "");
        let Some(WorkerMessage::Error { call: 0, failure }) = worker.next_message() else {
            panic!("it loaded: {code}");
        };
        assert_eq!(failure.message, expected);
        assert_eq!(worker.exit_code(), Some(1));
    }
}

/// Code that catches `InterruptedException` sets the flag again; the thread is used for the next call.
#[test]
fn a_call_may_leave_its_thread_interrupted() {
    let java = runtime!("java");
    let code = "
import io.kubeless.*;
class Interrupts {
    String handler(Event event, Context context) {
        String before = Thread.currentThread().isInterrupted() ? \"interrupted\" : \"fine\";
        Thread.currentThread().interrupt();
        return before;
    }
}
";
    let (mut worker, _function) = serve(&java, "interrupts.java", code, "");
    for _ in 0..100 {
        assert_eq!(worker.call(&Call::default()).text(), "fine");
    }
}

#[test]
fn the_jars_of_the_directory_are_found_of_the_directory() {
    let java = runtime!("java");
    let code = "
import io.kubeless.*;
class Uses {
    Object handler(Event event, Context context) { return shop.Price.of(event.Data); }
}
";
    let function = written("uses.java", code);
    let place = function.file.parent().unwrap();
    let source = place.join("source/shop");
    fs::create_dir_all(&source).unwrap();
    fs::create_dir(place.join("lib")).unwrap();
    let price = "package shop;\npublic class Price { public static int of(String text) { return text.length(); } }\n";
    fs::write(source.join("Price.java"), price).unwrap();
    for command in [
        "javac -d classes source/shop/Price.java",
        "jar --create --file lib/price.jar -C classes .",
    ] {
        let status = Command::new("/bin/sh")
            .args(["-c", command])
            .current_dir(place)
            .status()
            .unwrap();
        assert!(status.success(), "{command}");
    }
    let (mut worker, _) = Worker::serve(&java, &function.file);
    assert_eq!(worker.call(&Call::text("four")).text(), "4");
}
