//! The actions of the buttons of a run.

use crate::api::{Api, Failure};
use crate::http::Response;
use fnd_core::api::{Changed, Queued};
use fnd_wire::ids::InvocationId;
use hyper::Method;
use hyper::body::Bytes;

/// Does what a button says.
///
/// # Errors
/// There is no such button, or fnd refuses or does not answer.
pub(super) async fn change(api: &Api, id: InvocationId, verb: &str) -> Result<Response, Failure> {
    let path = format!("/v1/invocations/{id}/{verb}");
    match verb {
        "cancel" => {
            let _: Changed = api.call(Method::POST, &path, Bytes::new()).await?;
            Ok(Response::Redirect(format!("/runs/{id}")))
        }
        "replay" => {
            let queued: Queued = api.call(Method::POST, &path, Bytes::new()).await?;
            Ok(Response::Redirect(format!("/runs/{}?follow=1", queued.id)))
        }
        _ => Err(Failure::no_page()),
    }
}
