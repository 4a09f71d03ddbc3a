//! What functions of Rafay, Kyma and Kubeless in Python use of fnd itself: the state, events, the forms of events; and the
//! context of Keptn's scripts.

use super::reason;
use fnd_tests::{Fnd, require};
use serde_json::{Value, json};

const STATE: &str = "
from python_sdk_rafay_workflow import sdk
from python_sdk_rafay_workflow.state_client import StateClientBuilder

async def handle(logger, request):
    builder = StateClientBuilder(request)
    if request.get('only'):
        return {'org': builder.with_org_scope().get('counter')}
    found = []
    for state in (builder.with_org_scope(), builder.with_project_scope(), builder.with_env_scope()):
        state.set('counter', lambda old: int(old or 0) + 1)
        value, version = state.get('counter')
        state.set_kv('counter', str(int(value) + 1), version)
        try:
            state.set_kv('counter', 'lost', version)
        except Exception as error:
            found.append(type(error).__name__)
        await state.set_async('counter', lambda old: int(old) + 1)
        value, version = await state.get_async('counter')
        await state.set_kv_async('counter', value + 1, version)
        found.append(state.get('counter')[0])
        state.set('gone', lambda old: {'was': old})
        state.delete('gone')
        await state.delete_async('gone')
        found.append(state.get('gone'))
    return {'found': found}
";

/// Each of these has functions of its own.
#[test]
fn states_events_and_contexts() {
    let fnd = Fnd::start();
    the_state_of_rafay_is_that_of_fnd(&fnd);
    an_event_of_kyma_reaches_another_function(&fnd);
    a_cloud_event_of_version_0_1_reaches_a_handler(&fnd);
    the_context_keeps_its_order(&fnd);
    fnd.finish();
}

/// Rafay's clients of its state store work on the state of fnd. Their keys have the ids of the caller's headers.
fn the_state_of_rafay_is_that_of_fnd(fnd: &Fnd) {
    require!(root);
    fnd.drop_file("store.toml", "[access]\nstate = [\"rafay/*\"]\n");
    fnd.drop_file("store.py", STATE);
    fnd.drop_file("poor.toml", "[access]\nstate = [\"other/*\"]\n");
    fnd.drop_file("poor.py", STATE);
    for name in ["store", "poor"] {
        fnd.wait_ready(name);
    }
    let headers = [
        ("content-type", "application/json"),
        ("x-organization-id", "o/1"),
        ("x-project-id", ".."),
    ];
    let answer = fnd.client().call("POST", "/v1/functions/store/invoke", &headers, b"{}");
    let of_one = [json!("StateConflict"), json!(4), json!([null, 0])];
    let expected: Vec<Value> = of_one.iter().cycle().take(9).cloned().collect();
    assert_eq!(answer.json::<Value>(), json!({"found": expected}), "{}", answer.text());
    let listed = fnd.ctl(&["state", "list", "rafay", "-o", "name"]).expect_code(0).out();
    let keys: Vec<&str> = listed.lines().map(|line| line.trim_start_matches("rafay/")).collect();
    assert_eq!(
        keys,
        [
            "environment/o%2F1/%2E%2E/-/counter",
            "org/o%2F1/counter",
            "project/o%2F1/%2E%2E/counter"
        ]
    );
    // Two organisations see different values.
    let (answer, _) = fnd.run("store", "{\"only\": true}");
    assert_eq!(answer.json::<Value>(), json!({"org": [null, 0]}));
    let (_, view) = fnd.run("poor", "{\"only\": true}");
    assert_eq!(reason(&view), "error");
    assert!(view.message.contains("state = [\"rafay/*\"]"), "{}", view.message);
}

/// Kyma's `emitCloudEvent` goes to fnd where no other publisher is named, in the trace of the call.
fn an_event_of_kyma_reaches_another_function(fnd: &Fnd) {
    require!(root);
    fnd.drop_file("order.toml", "[access]\nemit = [\"order.*\"]\n");
    fnd.drop_file(
        "order.py",
        "def main(event, context):
    event.emitCloudEvent('order.created', '/orders', {'id': '123'}, {'eventtypeversion': 'v1'})
    return 'sent'
",
    );
    fnd.drop_file("mail.toml", "[[event]]\ntype = \"order.created\"\n");
    fnd.drop_file(
        "mail.py",
        "def main(event, context):
    return [event['data'], event['ce-type'], event['ce-source'], event['ce-eventtypeversion'], event['ce-none']]
",
    );
    for name in ["order", "mail"] {
        fnd.wait_ready(name);
    }
    let (answer, sender) = fnd.run("order", "{}");
    assert_eq!(answer.text(), "sent", "{}", sender.message);
    let found = fnd
        .ctl(&["result", "--last", "mail", "--wait", "1m"])
        .expect_code(0)
        .json();
    assert_eq!(found, json!([{"id": "123"}, "order.created", "/orders", "v1", null]));
}

/// The headers of CloudEvents 0.1, as Kubeless's runtime for them has them, are those of 1.0 as well.
fn a_cloud_event_of_version_0_1_reaches_a_handler(fnd: &Fnd) {
    fnd.drop_file(
        "old.py",
        "def handler(event, context):
    return [event['event-id'], event['event-type'], event['event-namespace'], event['ce-type'], event['ce-mine'],
            event['extensions']['request'].get_header('CE-EventType')]
",
    );
    fnd.wait_ready("old");
    let headers = [
        ("content-type", "application/json"),
        ("ce-eventtype", "made"),
        ("ce-eventid", "123"),
        ("ce-eventsource", "shop"),
        ("ce-x-mine", "yes"),
    ];
    let answer = fnd.client().call("POST", "/v1/functions/old/invoke", &headers, b"{}");
    assert_eq!(
        answer.json::<Value>(),
        json!(["123", "made", "shop", "made", "yes", "made"])
    );
    let structured =
        br#"{"cloudEventsVersion":"0.1","eventType":"made","eventID":"1","source":"shop","extensions":{"mine":"yes"}}"#;
    let headers = [("content-type", "application/cloudevents+json")];
    let answer = fnd
        .client()
        .call("POST", "/v1/functions/old/invoke", &headers, structured);
    assert_eq!(
        answer.json::<Value>(),
        json!(["1", "made", "shop", "made", "yes", null])
    );
}

/// Keptn's scripts get the context in the order in which the manifest has it, handlers as well.
fn the_context_keeps_its_order(fnd: &Fnd) {
    let context = "[context]\nworkloadName = \"w\"\nappName = \"a\"\nobjectType = { z = 1, b = \"x\" }\n";
    for name in ["script", "shell", "python"] {
        fnd.drop_file(&format!("{name}.toml"), &format!("on_load = false\n{context}"));
    }
    fnd.drop_file("script.sh", "echo \"$KEPTN_CONTEXT\"\n");
    fnd.drop_file("shell.sh", "handler() { echo \"$CONTEXT\"; }\n");
    fnd.drop_file(
        "python.py",
        "import json\ndef handler(event, context):\n    return json.dumps(context['keptn-context'], separators=(',', ':'))\n",
    );
    for name in ["script", "shell", "python"] {
        fnd.wait_ready(name);
        let (answer, _) = fnd.run(name, "{}");
        let expected = r#"{"workloadName":"w","appName":"a","objectType":{"z":1,"b":"x"}}"#;
        assert_eq!(answer.text().trim(), expected, "{name}");
    }
}
