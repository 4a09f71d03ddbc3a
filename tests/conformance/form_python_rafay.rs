//! Rafay's functions in Python: the SDK, and the files that start its server.

use crate::forms::{request, runtime, serve, written};
use crate::runtimes;
use crate::worker::{Call, Worker};
use fnd_core::records::protocol::FailureKind;
use serde_json::json;
use std::fs;

#[test]
fn rafay_sdk_with_details_of_the_event() {
    let python = runtime!("python");
    let code = "
import logging
from typing import Any, Dict
from python_sdk_rafay_workflow import sdk, const, EventDetails, EventType, FailedException
from python_sdk_rafay_workflow import serve_function
from python_sdk_rafay_workflow.app_factory import create_app
from python_sdk_rafay_workflow.errors import FunctionException

def handle(logger: logging.Logger, request: Dict[str, Any]) -> Dict[str, Any]:
    logger.log(logging.WARNING, 'got %s', request['ask'], stacklevel=2)
    logging.LoggerAdapter(logger, {'a': 1}).info('adapted')
    event = EventDetails(request)
    try:
        raise sdk.ExecuteAgainException('not yet', counter=1)
    except FunctionException as error:
        again = [error.data, error.message, error.error_code == sdk.ERROR_CODE_EXECUTE_AGAIN]
    if request['ask'] == 'fail':
        raise FailedException('never')
    return {
        'source': [event.source, event.source_name, event.type, event.get_type_as_string()],
        'names': [event.get_action_name(), event.get_workload_name(), event.get_schedules_name()],
        'is': [event.is_action(), event.is_workload(), event.is_schedules(), event.is_deploy(), event.is_destroy(),
               event.is_force_destroy(), event.is_workload_deploy(), event.is_workload_destroy(),
               event.is_environment_deploy(), event.is_environment_destroy()],
        'again': again, 'default': str(EventType.DEPLOY), 'header': const.EventTypeHeader,
        'trace': request.trace.headers()['traceparent'][:2],
    }

if __name__ == '__main__':
    serve_function(handle)
";
    let (mut worker, _function) = serve(&python, "handler.py", code, "");
    let mut call = Call::json(r#"{"ask":"x"}"#);
    call.request = request(&[
        ("x-event-source", "workload"),
        ("x-event-source-name", "shop"),
        ("x-event-type", "force-destroy"),
    ]);
    let no = json!(["", false]);
    assert_eq!(
        worker.call(&call).json(),
        json!({
            "source": ["workload", "shop", "force-destroy", "force-destroy"],
            "names": [no, ["shop", true], no],
            "is": [false, true, false, false, true, true, false, true, false, false],
            "again": [{"counter": 1}, "not yet", true], "default": "deploy", "header": "X-Event-Type", "trace": "00",
        })
    );
    let texts: Vec<_> = worker.logs.iter().map(|record| record.message.as_str()).collect();
    assert_eq!(texts, ["got x", "adapted"]);
    call.request = request(&[("x-event-source", "action"), ("x-event-type", "unknown")]);
    let found = worker.call(&call).json();
    assert_eq!(found["source"], json!(["action", "", null, ""]));
    assert_eq!(
        worker.call(&Call::json(r#"{"ask":"fail"}"#)).error(),
        (FailureKind::Failed, "never".to_owned())
    );
}

/// The directory of Rafay's template: `main.py` starts a server for `function/handler.py`, which imports a module beside it.
#[test]
fn rafay_files_that_start_a_server_name_their_handler() {
    let python = runtime!("python");
    let beside =
        "from . import texts\n\ndef handle(logger, request):\n    return {'text': texts.TEXT + request['name']}\n";
    let main = "from function import handler\nimport python_sdk_rafay_workflow as sdk\n\nif __name__ == '__main__':\n    \
                sdk.serve_function(handler.handle)\n";
    let at_once = "from python_sdk_rafay_workflow import serve_function\n\ndef run(logger, request):\n    return {'text': \
                   'hi ' + request['name']}\n\nserve_function(run, port=7)\n";
    let relative = written("handler.py", beside);
    fs::write(relative.file.with_file_name("texts.py"), "TEXT = 'hi '\n").unwrap();
    let template = written("main.py", main);
    let package = template.file.with_file_name("function");
    fs::create_dir(&package).unwrap();
    for (name, text) in [
        ("__init__.py", ""),
        ("handler.py", beside),
        ("texts.py", "TEXT = 'hi '\n"),
    ] {
        fs::write(package.join(name), text).unwrap();
    }
    let served = written("main.py", at_once);
    for function in [&relative, &template, &served] {
        let (mut worker, _) = Worker::serve(&python, &function.file);
        assert_eq!(
            worker.call(&Call::json(r#"{"name":"Ada"}"#)).json(),
            json!({"text": "hi Ada"})
        );
    }
}
