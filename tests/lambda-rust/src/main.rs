//! A function with the library of AWS for Rust; the handler's name says which.

use lambda_runtime::streaming::{Body, Response, channel};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    match std::env::var("_HANDLER").unwrap_or_default().as_str() {
        "stream" => lambda_runtime::run(service_fn(stream)).await,
        _ => lambda_runtime::run(service_fn(answer)).await,
    }
}

async fn answer(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let (event, context) = event.into_parts();
    if let Some(why) = event["fail"].as_str() {
        return Err(why.into());
    }
    let memory = context.env_config.memory;
    Ok(json!({"event": event, "arn": context.invoked_function_arn, "id": context.request_id, "memory": memory}))
}

/// Sends a part, waits for the file that `GO` names, and sends the rest.
async fn stream(_: LambdaEvent<Value>) -> Result<Response<Body>, Error> {
    let (mut sender, body) = channel();
    let go = std::env::var("GO")?;
    tokio::spawn(async move {
        let _ = sender.send_data("x".repeat(100_000).into()).await;
        while !Path::new(&go).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let _ = sender.send_data("end\n".into()).await;
    });
    Ok(Response::from(body))
}
