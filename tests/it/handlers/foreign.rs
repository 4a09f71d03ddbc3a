//! Functions written for the four systems fnd follows run unchanged.

use super::{ask, reason};
use fnd_tests::{Fnd, require};
use serde_json::json;

/// Each of these has functions of its own.
#[test]
fn functions_of_every_system() {
    let fnd = Fnd::start();
    a_kubeless_function(&fnd);
    kyma_functions(&fnd);
    a_rafay_function(&fnd);
    a_keptn_task(&fnd);
    the_first_five_minutes(&fnd);
    a_kyma_function_for_express(&fnd);
    what_is_not_supported_says_so(&fnd);
    fnd.finish();
}

/// Kubeless: any name in `module.function`, event and context by their names.
fn a_kubeless_function(fnd: &Fnd) {
    fnd.drop_file("count.toml", "handler = \"count.words\"\n[limits]\ntimeout = \"20s\"\n");
    fnd.drop_file(
        "count.py",
        "import os
def words(event, context):
    request = event['extensions']['request']
    return {
        'words': len(event['data'].split()),
        'type': event['event-type'],
        'id': event['event-id'],
        'missing': event['event-namespace'],
        'time': event['event-time'],
        'method': request.method,
        'header': request.get_header('X-Shop'),
        'timeout': context['timeout'],
        'function': context['function-name'],
        'runtime': context['runtime'],
        'memory': context['memory-limit'] is not None,
        'variables': [os.environ['MOD_NAME'], os.environ['FUNC_HANDLER']],
    }
",
    );
    fnd.wait_ready("count");
    let headers = [
        ("content-type", "text/plain"),
        ("event-type", "text"),
        ("event-id", "7"),
        ("x-shop", "north"),
    ];
    let answer = fnd
        .client()
        .call("POST", "/v1/functions/count/invoke", &headers, b"three small words");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body: serde_json::Value = answer.json();
    assert_eq!(body["words"], 3);
    assert_eq!((&body["type"], &body["id"]), (&json!("text"), &json!("7")));
    assert_eq!(
        (&body["missing"], &body["method"]),
        (&json!("fnd/manual"), &json!("POST"))
    );
    let accepted = &fnd.history("count")[0].accepted_at;
    assert_eq!(body["time"], accepted.as_str());
    assert_eq!((&body["header"], &body["timeout"]), (&json!("north"), &json!(20.0)));
    assert_eq!((&body["function"], &body["memory"]), (&json!("words"), &json!(true)));
    assert_eq!(body["variables"], json!(["count", "words"]));
    assert!(
        body["runtime"].as_str().is_some_and(|name| name.starts_with("python")),
        "{body}"
    );
}

/// Kyma: `main` in python and in node, `CloudEvents` by header.
fn kyma_functions(fnd: &Fnd) {
    fnd.drop_file(
        "order.py",
        "def main(event, context):\n    print('order', event['data']['id'])\n    return {'order': event['data']['id'], 'type': event['ce-type'], 'source': event.ceHeaders['ce-source']}\n",
    );
    fnd.drop_file(
        "mail.js",
        "module.exports = {\n  main: async function (event, context) {\n    event.setResponseHeader('x-mail', 'sent');\n    event.setResponseStatus(202);\n    return { order: event.data.id, type: event['ce-type'], name: context['function-name'] };\n  },\n};\n",
    );
    fnd.wait_ready("order");
    fnd.wait_ready("mail");
    let headers = [
        ("content-type", "application/json"),
        ("ce-type", "order.created.v1"),
        ("ce-source", "shop"),
        ("ce-id", "1"),
        ("ce-specversion", "1.0"),
    ];
    let call = |name: &str| {
        let path = format!("/v1/functions/{name}/invoke");
        fnd.client().call("POST", &path, &headers, b"{\"id\": 12}")
    };
    let answer = call("order");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.json::<serde_json::Value>(),
        json!({"order": 12, "type": "order.created.v1", "source": "shop"})
    );
    let answer = call("mail");
    assert_eq!(
        (answer.status.as_u16(), answer.header("x-mail")),
        (202, Some("sent")),
        "{}",
        answer.text()
    );
    let body: serde_json::Value = answer.json();
    assert_eq!(
        (&body["order"], &body["type"]),
        (&json!(12), &json!("order.created.v1"))
    );
}

/// Rafay: `handle(logger, request)`, its SDK, and polls that get the data of the call before.
fn a_rafay_function(fnd: &Fnd) {
    fnd.drop_file(
        "machine.toml",
        "[poll]\nrepeat = \"10ms\"\n[retry]\nretries = 2\ninterval = \"1ms\"\n",
    );
    fnd.drop_file(
        "machine.py",
        "from python_sdk_rafay_workflow import sdk
def handle(logger, request):
    previous = request.get('previous', {})
    logger.info('step %d', previous.get('step', 0))
    if request.get('broken'):
        raise sdk.FailedException('no such size')
    if previous.get('step', 0) < 2:
        raise sdk.ExecuteAgainException('being made', step=previous.get('step', 0) + 1)
    return {'name': request['name'], 'steps': previous['step'], 'metadata': sorted(request['metadata'])[:1]}
",
    );
    fnd.wait_ready("machine");
    let (answer, view) = fnd.run("machine", "{\"name\": \"vm-1\"}");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body: serde_json::Value = answer.json();
    assert_eq!((&body["name"], &body["steps"]), (&json!("vm-1"), &json!(2)));
    assert_eq!((view.attempts, view.polls), (3, 2));
    let log = super::lines(fnd, view.id);
    assert!(log.iter().any(|line| line.contains("step 1")), "{log:?}");
    let (answer, view) = fnd.run("machine", "{\"name\": \"vm-1\", \"broken\": true}");
    assert_eq!(answer.status, 500);
    assert_eq!(
        (reason(&view).as_str(), view.message.as_str()),
        ("failed", "no such size")
    );
    assert_eq!(view.attempts, 1);
}

/// Keptn: a deno script that reads DATA and ends with an exit code; each run has its own process.
fn a_keptn_task(fnd: &Fnd) {
    require!(deno);
    fnd.drop_file("task.toml", "on_load = false\ncontext = { appName = \"shop\" }\n");
    fnd.drop_file(
        "task.ts",
        "const data = JSON.parse(Deno.env.get(\"DATA\")!);
const context = JSON.parse(Deno.env.get(\"KEPTN_CONTEXT\")!);
console.log(`${context.appName}: ${data.text}`);
if (data.text === \"bad\") Deno.exit(1);
",
    );
    fnd.wait_ready("task");
    let (answer, view) = fnd.run("task", "{\"text\": \"good\"}");
    assert_eq!(answer.text().trim(), "shop: good");
    assert!(view.attempt_records[0].cold);
    let (_, view) = fnd.run("task", "{\"text\": \"bad\"}");
    assert_eq!(reason(&view), "exit-1");
}

/// The first five minutes with `fnd`: a handler with default settings.
fn the_first_five_minutes(fnd: &Fnd) {
    fnd.drop_file(
        "hello.py",
        "def handler(event, context): return {\"hello\": event[\"data\"][\"name\"]}\n",
    );
    fnd.wait_ready("hello");
    let run = fnd
        .ctl(&["invoke", "hello", "-d", "{\"name\": \"Ada\"}"])
        .expect_code(0);
    assert_eq!(run.json(), json!({"hello": "Ada"}));
    assert_eq!(ask(fnd, "hello", "{\"name\": \"Bob\"}"), json!({"hello": "Bob"}));
}

/// Kyma's newest form for node: `main(req, res)`, as express has it.
fn a_kyma_function_for_express(fnd: &Fnd) {
    let code = "module.exports = {
  main: function (req, res) {
    if (req.method === 'GET') return res.type('text/plain').send(`hello ${req.query.name}`);
    setTimeout(() => res.status(201).set('x-shop', 'north').json({ order: req.body.id, type: req.get('content-type') }), 5);
  },
};
";
    fnd.drop_file("shop.cjs", code);
    fnd.wait_ready("shop");
    let answer = fnd.client().get("/v1/functions/shop/http/?name=Ada");
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "hello Ada"));
    let answer = fnd.invoke("shop", "{\"id\": 7}");
    assert_eq!((answer.status.as_u16(), answer.header("x-shop")), (201, Some("north")));
    assert_eq!(
        answer.json::<serde_json::Value>(),
        json!({"order": 7, "type": "application/json"})
    );
    // From `nodejs26` on it is the only form, whatever its parameters are named.
    let code =
        "const sdk = require('sdk');\nmodule.exports = { main(a, b) { b.send([a.path, sdk.getRuntime()]); } };\n";
    fnd.drop_file("newest.toml", "runtime = \"nodejs26\"\n");
    fnd.drop_file("newest.cjs", code);
    fnd.wait_ready("newest");
    let answer = fnd.client().get("/v1/functions/newest/http/orders");
    assert_eq!(answer.text(), r#"["/orders","node26"]"#);
}

/// Code that needs an unsupported feature fails when it is loaded, with a message that says what to do.
fn what_is_not_supported_says_so(fnd: &Fnd) {
    let cases = [
        (
            "store",
            "from python_sdk_rafay_workflow.state_client import StateClientBuilder\ndef handle(logger, request): return 1\n",
            "add `[access]` with `state = [\"rafay/*\"]` to the manifest",
        ),
        (
            "three",
            "def handler(event, context, more): return 1\n",
            "`handler` needs the parameters event, context, more, but fnd gives it two",
        ),
        (
            "application",
            "# /// fnd\n# handler = \"application.app\"\n# ///\nasync def app(scope, receive, send): pass\n",
            "is an ASGI application: serve it with an ASGI server and `[http_server]`",
        ),
    ];
    for (name, code, expected) in cases {
        fnd.drop_file(&format!("{name}.py"), code);
        fnd.wait_ready(name);
        let (answer, view) = fnd.run(name, "{}");
        assert_eq!(
            (answer.status.as_u16(), reason(&view).as_str()),
            (500, "load"),
            "{name}"
        );
        assert!(view.message.contains(expected), "{name}: {}", view.message);
    }
}
