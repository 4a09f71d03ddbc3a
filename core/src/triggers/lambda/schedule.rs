//! A slot of a schedule as the event that EventBridge sends to Lambda.

use super::RUNTIME;
use crate::data::Data;
use crate::records::Payload;
use crate::records::cause::Cause;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::{FunctionName, InvocationId};
use serde_json::json;

/// The region in events, unless `[env]` names another one.
const REGION: &str = "us-east-1";
const ACCOUNT: &str = "000000000000";

/// Gives the run of a schedule its event, if the function is one of Lambda's and neither the schedule nor the function has
/// `data` of its own.
pub fn scheduled(payload: &mut Payload, (function, id): (&FunctionName, InvocationId), manifest: &Manifest) {
    let Some(Cause::Schedule(slots)) = payload.cause.as_deref() else {
        return;
    };
    if payload.data.is_some() || manifest.data.is_some() || manifest.runtime != RUNTIME {
        return;
    }
    let region = manifest.env.get("AWS_REGION").map_or(REGION, String::as_str);
    payload.data = Some(event((function, id), &slots.scheduled_at, region));
    payload.content_type = Some("application/json".into());
}

/// Returns the event of a slot. A run has one id, also after a retry.
fn event((function, id): (&FunctionName, InvocationId), slot: &str, region: &str) -> Data {
    // EventBridge states whole seconds.
    let time = slot
        .split_once('.')
        .map_or_else(|| slot.to_owned(), |(seconds, _)| format!("{seconds}Z"));
    let event = json!({
        "version": "0",
        "id": id.to_string(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": time,
        "region": region,
        "resources": [format!("arn:aws:events:{region}:{ACCOUNT}:rule/{function}")],
        "detail": {},
    });
    event.to_string().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::cause::CauseSlots;
    use fnd_manifest::schema::pick::FromValue as _;
    use serde_json::Value;
    use std::sync::Arc;

    #[test]
    fn a_slot_without_data_has_an_event_if_the_function_is_made_for_lambda() {
        let function = FunctionName::new("f").unwrap();
        let slot = || Some(Arc::new(Cause::Schedule(CauseSlots::new(0, 1, 1))));
        let payload = |cause: Option<Arc<Cause>>, data: Option<&[u8]>| Payload {
            data: data.map(Data::from),
            cause,
            ..Payload::default()
        };
        let manifest = |runtime: &str, data: Option<Value>| Manifest {
            runtime: runtime.to_owned(),
            data,
            env: [("AWS_REGION".to_owned(), "eu-west-1".to_owned())].into(),
            ..Manifest::from_value(None).unwrap()
        };
        for (mut payload, manifest, expected) in [
            (payload(slot(), None), manifest(RUNTIME, None), Some("eu-west-1")),
            (payload(slot(), Some(b"{}")), manifest(RUNTIME, None), None),
            (payload(slot(), None), manifest(RUNTIME, Some(json!({}))), None),
            (payload(slot(), None), manifest("python", None), None),
            (payload(None, None), manifest(RUNTIME, None), None),
        ] {
            scheduled(&mut payload, (&function, InvocationId(7)), &manifest);
            let data = payload.data.map(|data| data.bytes().unwrap().into_owned());
            let event = data.map(|data| serde_json::from_slice::<Value>(&data).unwrap());
            let region = event.as_ref().and_then(|event| event["region"].as_str());
            assert_eq!(region, expected, "{} {:?}", manifest.runtime, manifest.data);
        }
    }

    #[test]
    fn a_slot_is_the_event_that_eventbridge_documents() {
        let function = FunctionName::new("shop/clean").unwrap();
        let id = InvocationId(7);
        let data = event((&function, id), "2026-11-23T03:00:00.000Z", "eu-central-1");
        let found: Value = serde_json::from_slice(&data.bytes().unwrap()).unwrap();
        let expected = json!({
            "version": "0",
            "id": "00000000-0000-0000-0000-000000000007",
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": "000000000000",
            "time": "2026-11-23T03:00:00Z",
            "region": "eu-central-1",
            "resources": ["arn:aws:events:eu-central-1:000000000000:rule/shop/clean"],
            "detail": {},
        });
        assert_eq!(found, expected);
    }
}
