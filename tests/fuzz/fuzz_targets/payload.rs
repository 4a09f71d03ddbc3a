//! Any bytes as what a caller sends: no variable of the attempt breaks the environment it goes into.
#![no_main]

use fnd_core::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use fnd_core::outcome::Trigger;
use fnd_core::record::Payload;
use fnd_core::supervisor::SpawnOrder;
use fnd_daemon::environment::variables;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let order = SpawnOrder {
        worker: WorkerId(1),
        function: FunctionName::new("x").expect("a name"),
        id: FunctionId(1),
        version: Version([0; 32]),
        invocation: InvocationId(1),
        attempt: Attempt(1),
        poll: 0,
        trigger: Trigger::Manual,
        payload: Payload {
            data: Some(bytes.into()),
            context: str::from_utf8(bytes).ok().map(Into::into),
            ..Payload::default()
        },
        previous: None,
        deadline_ms: Some(1),
    };
    let variables = variables(&order, "bash");
    for (name, value) in &variables {
        assert!(!name.contains(['=', '\0']) && !value.contains('\0'), "{name}={value:?}");
    }
    let data = variables.iter().find(|(name, _)| name == "DATA");
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) {
        let data: serde_json::Value = serde_json::from_str(&data.expect("JSON is text").1).expect("JSON stays JSON");
        assert_eq!(data, value);
    }
});
