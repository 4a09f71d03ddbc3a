//! The actions of the buttons of a function.

use super::{function_page, function_path};
use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use fnd_client::client::encode;
use fnd_wire::ids::FunctionName;
use hyper::Method;
use hyper::body::Bytes;

/// Does what a button says.
///
/// # Errors
/// There is no such button, or fnd refuses or does not answer.
pub(super) async fn change(request: &Request, api: &Api, name: &FunctionName, verb: &str) -> Result<Response, Failure> {
    let (method, path) = call(request, verb).ok_or_else(Failure::no_page)?;
    let path = format!("{}/{path}", function_path(name));
    api.send(method, &path, &[], Bytes::new()).await?;
    Ok(Response::Redirect(function_page(name)))
}

/// Returns the call of a button: its method, and its path below that of the function.
fn call(request: &Request, verb: &str) -> Option<(Method, String)> {
    let path = match verb {
        "enable" | "disable" | "unpin" | "promote" => verb.to_owned(),
        "rollback" | "pin" => format!("{verb}?version={}", encode(request.query("version")?)),
        "pause" | "resume" => format!("schedules/{verb}"),
        "stop-canary" => return Some((Method::DELETE, "canary".to_owned())),
        _ => return None,
    };
    Some((Method::POST, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_button_is_one_call() {
        let request = Request::new(crate::http::Method::Post, "/functions/f/pin", "version=3fa8", b"");
        let shown = |verb| call(&request, verb).map(|(method, path)| format!("{method} {path}"));
        for (verb, expected) in [
            ("enable", Some("POST enable")),
            ("pin", Some("POST pin?version=3fa8")),
            ("pause", Some("POST schedules/pause")),
            ("stop-canary", Some("DELETE canary")),
            ("invoke", None),
        ] {
            assert_eq!(shown(verb).as_deref(), expected);
        }
    }
}
