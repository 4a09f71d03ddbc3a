//! Programs for AWS Lambda: what they get, and what becomes of their errors.

use crate::runtimes;
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::FailureKind;

fn worker() -> Worker {
    let runtime = runtimes::one("lambda").unwrap();
    let entry = runtime.function("call").unwrap();
    Worker::serve_with(&runtime, &entry, "handle").0
}

#[test]
fn a_call_has_the_headers_and_the_variables_of_aws() {
    let found = worker().call(&Call::json("{}")).json();
    let header = |name: &str| found["headers"][format!("lambda-runtime-{name}")].as_str().unwrap();
    assert_eq!(header("deadline-ms"), "1790000000000");
    assert_eq!(
        header("invoked-function-arn"),
        "arn:aws:lambda:us-east-1:000000000000:function:bootstrap"
    );
    let variables = serde_json::json!({
        "_HANDLER": "bootstrap.handle", "AWS_LAMBDA_FUNCTION_NAME": "bootstrap", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        "AWS_REGION": "us-east-1",
    });
    assert_eq!(found["variables"], variables);
}

#[test]
fn an_exception_fails_its_call_only_and_brings_its_stack() {
    let mut worker = worker();
    let Answer::Error {
        kind, message, stack, ..
    } = worker.call(&Call::text("error"))
    else {
        panic!("it did not fail");
    };
    assert_eq!((kind, message.as_str()), (FailureKind::Error, "ValueError: it broke"));
    assert!(stack.unwrap().contains("call/bootstrap"));
    assert!(worker.call(&Call::text("on")).json()["headers"].is_object());
}
