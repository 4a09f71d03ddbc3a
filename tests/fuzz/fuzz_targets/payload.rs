//! Any bytes as what a caller sends: no variable of the attempt breaks the environment it goes into.
#![no_main]

use fnd_core::records::Payload;
use fnd_core::records::outcome::Trigger;
use fnd_core::run::{AttemptOrder, Rules, SpawnOrder};
use fnd_core::trace::Trace;
use fnd_daemon::workers::environment::variables;
use fnd_wire::frame::PROTOCOL_MAX;
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

/// Rules as small as they come: nothing of them is in a variable but the runtime.
static RULES: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let rules = r#"{"enabled":true,"run_on_load":false,"timeout":null,"grace":{"secs":5,"nanos":0},"deadline":null,
        "memory":1,"cpu_milli":null,"memory_text":"","max_running":1,"retry":{"retries":0,"backoff":{"interval":
        {"secs":1,"nanos":0},"factor":2.0,"max_interval":{"secs":1,"nanos":0},"jitter":"None"},"on":[],"not_on_exit":[]},
        "poll":null,"queue":{"max":1,"overlap":"Queue","rate":null},"result_max":1,"pids":1,"runtime":"bash"}"#;
    Arc::new(serde_json::from_str(rules).expect("rules"))
});

fuzz_target!(|bytes: &[u8]| {
    let text = str::from_utf8(bytes).ok();
    let order = SpawnOrder {
        worker: WorkerId(1),
        function: FunctionName::new("x").expect("a name"),
        id: FunctionId(1),
        version: Version([0; 32]),
        rules: Arc::clone(&RULES),
        attempt: Some(AttemptOrder {
            invocation: InvocationId(1),
            attempt: Attempt(1),
            poll: 0,
            trigger: Trigger::Manual,
            payload: Payload {
                data: Some(bytes.into()),
                context: text.map(Into::into),
                trace: Trace::of(|name| (name != "traceparent").then(|| text.map(str::to_owned))?),
                ..Payload::default()
            },
            previous: None,
            deadline_ms: Some(1),
        }),
        lasts: None,
    };
    let variables = variables(&order, PROTOCOL_MAX);
    for (name, value) in &variables {
        assert!(!name.contains(['=', '\0']) && !value.0.contains(&0), "{name}={value:?}");
    }
    let data = variables.iter().find(|(name, _)| name == "DATA");
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) {
        let data: serde_json::Value =
            serde_json::from_slice(&data.expect("JSON is text").1.0).expect("JSON stays JSON");
        assert_eq!(data, value);
    }
});
