//! Equals of the examples that Kubeless has for Ruby, PHP, Go and Java: the same form, the same input, the same answer.
//!
//! | examples of Kubeless | equal |
//! |---|---|
//! | `helloget`, `hellowithdata` of each language; `helloevent` and `latest` of Ruby | here |
//! | `hellowithdeps` of Ruby, PHP and Go | `tests/it/dependencies`: a `Gemfile`, a `composer.json`, a `go.mod` |
//! | `HelloWithDeps` of Java | `the_jars_of_the_directory_are_found` in `form_java.rs`; fnd reads no `pom.xml` |
//! | `test` of Ruby, a class with `self.run(request)` | none: it is the form before events, which Kubeless itself gave up |

use crate::forms::{request, serve};
use crate::runtimes;
use crate::worker::{Call, TIME};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// A function, the name of its handler in `module.function`, and what it does with a payload.
struct Example {
    runtime: &'static str,
    file: &'static str,
    handler: &'static str,
    code: &'static str,
    payload: Option<&'static str>,
    answer: &'static str,
    /// A part of what it prints.
    prints: &'static str,
}

const EXAMPLES: [Example; 9] = [
    Example {
        runtime: "ruby",
        file: "helloget.rb",
        handler: "foo",
        code: "def foo(event, context)\n  'good morning'\nend\n",
        payload: None,
        answer: "good morning",
        prints: "",
    },
    Example {
        runtime: "ruby",
        file: "hellowithdata.rb",
        handler: "handler",
        // `JSON` is there without a `require`.
        code: "def handler(event, context)\n  puts event\n  JSON.generate(event[:data])\nend\n",
        payload: Some(r#"{"it-s":"alive"}"#),
        answer: r#"{"it-s":"alive"}"#,
        prints: "it-s",
    },
    Example {
        runtime: "ruby",
        file: "helloevent.rb",
        handler: "handler",
        code: "def handler(event)\n  puts event[:data]\nend\n",
        payload: Some(r#""seven""#),
        answer: "",
        prints: "seven\n",
    },
    Example {
        runtime: "php",
        file: "helloget.php",
        handler: "foo",
        code: "<?php\n\nfunction foo($event, $context) {\n  return 'good morning';\n}\n",
        payload: None,
        answer: "good morning",
        prints: "",
    },
    Example {
        runtime: "php",
        file: "hellowithdata.php",
        handler: "foo",
        code: "<?php\n\nfunction foo($event, $context) {\n  return json_encode($event->data);\n}\n",
        payload: Some(r#"{"it-s":"alive"}"#),
        answer: r#"{"it-s":"alive"}"#,
        prints: "",
    },
    Example {
        runtime: "go",
        file: "helloget.go",
        handler: "Foo",
        code: "package kubeless

import \"github.com/kubeless/kubeless/pkg/functions\"

// Foo greets.
func Foo(event functions.Event, context functions.Context) (string, error) { return \"good morning\", nil }
",
        payload: None,
        answer: "good morning",
        prints: "",
    },
    Example {
        runtime: "go",
        file: "hellowithdata.go",
        handler: "Handler",
        code: "package kubeless

import (
\t\"fmt\"

\t\"github.com/kubeless/kubeless/pkg/functions\"
)

// Handler gives the payload back.
func Handler(event functions.Event, context functions.Context) (string, error) {
\tfmt.Println(event)
\treturn event.Data, nil
}
",
        payload: Some(r#"{"it-s":"alive"}"#),
        answer: r#"{"it-s":"alive"}"#,
        prints: "it-s",
    },
    Example {
        runtime: "java",
        file: "Foo.java",
        handler: "foo",
        code: "package io.kubeless;

import io.kubeless.Event;
import io.kubeless.Context;

public class Foo {
    public String foo(io.kubeless.Event event, io.kubeless.Context context) {
        return \"good morning\";
    }
}
",
        payload: None,
        answer: "good morning",
        prints: "",
    },
    Example {
        runtime: "java",
        file: "Foo.java",
        handler: "foo",
        code: "package io.kubeless;

public class Foo {
    public String foo(io.kubeless.Event event, io.kubeless.Context context) {
        System.out.println(event.Data);
        return event.Data;
    }
}
",
        payload: Some(r#"{"it-s":"alive"}"#),
        answer: r#"{"it-s":"alive"}"#,
        prints: "it-s",
    },
];

#[test]
fn what_kubeless_shows_for_ruby_php_go_and_java_runs() {
    for example in &EXAMPLES {
        let Some(runtime) = runtimes::one(example.runtime) else {
            continue;
        };
        let (mut worker, _function) = serve(&runtime, example.file, example.code, example.handler);
        let call = example.payload.map_or_else(Call::default, Call::json);
        let answer = worker.call(&call).body().unwrap_or_default();
        let place = format!("{} {}", example.runtime, example.file);
        assert_eq!(String::from_utf8_lossy(&answer), example.answer, "{place}");
        let printed = worker.output("stdout");
        assert!(printed.contains(example.prints), "{place}: {printed}");
    }
}

/// A schedule and a plain call bring no fields of an event, and functions of Kubeless rely on them.
#[test]
fn an_invocation_without_an_event_is_one() {
    let javascript =
        "(event) => ['id', 'type', 'time', 'namespace'].map((name) => event['event-' + name]).join('|');\n";
    let (commonjs, module) = (
        format!("exports.handler = {javascript}"),
        format!("export const handler = {javascript}"),
    );
    for (runtime, file, handler, code) in [
        (
            "python",
            "it.py",
            "foo",
            "def foo(event, context):\n    return '|'.join(event['event-' + name] for name in ('id', 'type', 'time', 'namespace'))\n",
        ),
        (
            "ruby",
            "it.rb",
            "foo",
            "def foo(event, context)\n  %w[id type time namespace].map { |name| event[\"event-#{name}\"] }.join('|')\nend\n",
        ),
        (
            "php",
            "it.php",
            "foo",
            "<?php\nfunction foo($event, $context) {\n  return implode('|', array_map(fn ($name) => $event->{'event-' . $name}, ['id', 'type', \
             'time', 'namespace']));\n}\n",
        ),
        ("node", "it.cjs", "handler", &commonjs),
        ("deno", "it.ts", "handler", &module),
        (
            "go",
            "it.go",
            "Foo",
            "package kubeless\n\nimport \"github.com/kubeless/kubeless/pkg/functions\"\n\n\
             func Foo(event functions.Event, context functions.Context) (string, error) {\n\
             \treturn event.EventID + \"|\" + event.EventType + \"|\" + event.EventTime + \"|\" + event.EventNamespace, nil\n}\n",
        ),
        (
            "java",
            "Foo.java",
            "foo",
            "package io.kubeless;\n\npublic class Foo {\n  public String foo(Event event, Context context) {\n\
             return String.join(\"|\", event.EventID, event.EventType, event.EventTime, event.EventNamespace);\n  }\n}\n",
        ),
    ] {
        let Some(known) = runtimes::one(runtime) else { continue };
        let (mut worker, _function) = serve(&known, file, code, handler);
        for (call, kind) in [(Call::default(), "application/json"), (Call::text("x"), "text/plain")] {
            let expected = format!("0199-\"id\"|{kind}|{TIME}|fnd/manual");
            assert_eq!(worker.call(&call).text(), expected, "{runtime}");
        }
        let mut call = Call::text("x");
        call.request = request(&[("event-id", "7"), ("event-namespace", "shop")]);
        let expected = format!("7|text/plain|{TIME}|shop");
        assert_eq!(worker.call(&call).text(), expected, "{runtime}");
    }
}

/// `latest`: asks a web server with what Ruby brings, and prints JSON.
#[test]
fn a_function_in_ruby_asks_a_web_server() {
    let Some(ruby) = runtimes::one("ruby") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let code = format!(
        "def run(event, context)
  require 'net/https'
  require 'uri'
  uri = URI.parse('http://127.0.0.1:{}/releases')
  http = Net::HTTP.new(uri.host, uri.port)
  found = JSON.parse(http.request(Net::HTTP::Get.new(uri.request_uri)).body)
  answer = {{ version: found.first['name'] }}
  puts JSON.pretty_generate(answer)
  answer[:version]
end
",
        listener.local_addr().unwrap().port()
    );
    let server = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        let mut asked = [0; 1024];
        let size = caller.read(&mut asked).unwrap();
        let body = r#"[{"name": "v2"}, {"name": "v1"}]"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        caller.write_all(format!("{head}{body}").as_bytes()).unwrap();
        String::from_utf8_lossy(&asked[..size]).into_owned()
    });
    let (mut worker, _function) = serve(&ruby, "test.rb", &code, "run");
    assert_eq!(worker.call(&Call::default()).text(), "v2");
    assert_eq!(worker.output("stdout"), "{\n  \"version\": \"v2\"\n}\n");
    assert!(server.join().unwrap().starts_with("GET /releases HTTP/1.1"));
}
