//! Rafay's form in Go: `Handle(ctx, logger, request)` with its SDK. The form in Python is in `forms.rs`.

use crate::forms::{request, runtime, serve, written};
use crate::runtimes;
use crate::worker::{Answer, Call};
use fnd_core::records::protocol::{FailureKind, Level};
use serde_json::json;

const CODE: &str = r#"package function

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/RafaySystems/function-templates/sdk/go"
)

func Handle(ctx context.Context, logger sdk.Logger, req sdk.Request) (sdk.Response, error) {
	logger.Warn("got it", "name", req["name"], "step", 1)
	if _, hasDeadline := ctx.Deadline(); !hasDeadline {
		return nil, errors.New("no deadline")
	}
	name, err := req.GetString("name")
	if err != nil {
		return nil, sdk.NewErrFailed(err.Error())
	}
	switch name {
	case "poll":
		counter := 0.0
		if previous, is := req["previous"]; is {
			counter = previous.(map[string]any)["counter"].(float64)
		}
		return nil, sdk.NewErrExecuteAgain("not yet", map[string]any{"counter": counter + 1})
	case "transient":
		return nil, fmt.Errorf("while it was made: %w", sdk.NewErrTransient("later"))
	case "failed":
		return nil, sdk.NewErrFailed("never")
	case "missing":
		err := sdk.NewErrNotFound("no such machine")
		if !sdk.IsErrNotFound(err) || sdk.IsErrFailed(err) {
			return nil, errors.New("it is another error")
		}
		return nil, err
	case "error":
		return nil, errors.New("it broke")
	case "nothing":
		return nil, nil
	}
	cpus, err := req.GetInt("machine", "cpus")
	if err != nil {
		return nil, sdk.NewErrFailed(err.Error())
	}
	event := sdk.NewEventDetails(req)
	return sdk.Response{"activity": req.MetaString("activityID"), "cpus": cpus, "destroy": event.IsDestroy()}, nil
}
"#;

#[test]
fn a_function_in_go_with_the_sdk_of_rafay() {
    let go = runtime!("go");
    let (mut worker, _function) = serve(&go, "handler.go", CODE, "");
    let mut call = Call::json(r#"{"name": "vm", "machine": {"cpus": "4"}, "metadata": {"activityID": "forged"}}"#);
    call.request = request(&[("x-activity-id", "a-1"), ("x-event-type", "force-destroy")]);
    assert_eq!(
        worker.call(&call).json(),
        json!({"activity": "a-1", "cpus": 4, "destroy": true})
    );
    let record = worker.logs.pop().unwrap();
    assert_eq!((record.level, record.message.as_str()), (Level::Warning, "got it"));
    assert_eq!(
        json!(record.fields),
        json!({"name": "vm", "step": 1}),
        "{:?}",
        record.fields
    );
    let mut call = Call::json(r#"{"name": "poll"}"#);
    call.previous = Some(r#"{"counter": 4}"#);
    let Answer::Error {
        kind, message, data, ..
    } = worker.call(&call)
    else {
        panic!("it did not ask for another call");
    };
    assert_eq!((kind, message.as_str()), (FailureKind::ExecuteAgain, "not yet"));
    assert_eq!(data, Some(json!({"counter": 5})));
    for (payload, kind, message) in [
        (
            r#"{"name": "transient"}"#,
            FailureKind::Transient,
            "while it was made: later",
        ),
        (r#"{"name": "failed"}"#, FailureKind::Failed, "never"),
        (r#"{"name": "missing"}"#, FailureKind::Failed, "no such machine"),
        (r#"{"name": "error"}"#, FailureKind::Error, "it broke"),
        ("{}", FailureKind::Failed, "key name not found"),
        (r#"{"name": "vm"}"#, FailureKind::Failed, "key machine not found"),
        (
            r#"{"name": "vm", "machine": 7}"#,
            FailureKind::Failed,
            "key machine has no fields: it is float64",
        ),
        (
            r#"{"name": "vm", "machine": {"cpus": "x"}}"#,
            FailureKind::Failed,
            "key cpus: cannot convert string to int64",
        ),
    ] {
        assert_eq!(
            worker.call(&Call::json(payload)).error(),
            (kind, message.to_owned()),
            "{payload}"
        );
    }
    assert_eq!(worker.call(&Call::json(r#"{"name": "nothing"}"#)).body(), None);
    // Without a payload the request is empty; what is no object is refused.
    assert_eq!(worker.call(&Call::default()).error().1, "key name not found");
    for payload in ["[1]", "null", "7"] {
        let Answer::Result(head, Some(body)) = worker.call(&Call::json(payload)) else {
            panic!("{payload} has no answer");
        };
        assert_eq!(
            (head.status, body.as_slice()),
            (Some(400), b"the payload is not a JSON object\n".as_slice()),
            "{payload}"
        );
    }
}

#[test]
fn the_state_store_of_rafay_is_refused_by_name() {
    let go = runtime!("go");
    let with_store = CODE.replace(
        "\tsdk \"github.com",
        "\t_ \"github.com/RafaySystems/function-templates/sdk/go/pkg/state\"\n\tsdk \"github.com",
    );
    let function = written("handler.go", &with_store);
    let scratch = tempfile::tempdir().unwrap();
    let why = go.compiled(&function.file, "", scratch.path()).unwrap_err();
    let last = why.lines().last().unwrap();
    assert!(last.contains("keep state in files below $STATE_DIRECTORY"), "{why}");
}
