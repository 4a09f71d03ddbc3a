//! Access for the fuzzer: the parsers of bytes that a browser sends.

use crate::guard::is_local;
use crate::http::{Method, Request};
use crate::session::Sessions;

/// Parses a path, a query and a form, with lines between, and looks for a session in all of it.
pub fn request(text: &str) {
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (path, query, form) = (next(), next(), next());
    let request = Request::new(Method::Post, path, query, form.as_bytes());
    assert!(request.segments.len() <= path.matches('/').count() + 1);
    if let Some(next) = request.field("next").filter(|next| is_local(next)) {
        assert!(!next.starts_with("//") && !next.contains(['\\', '\n', '\r']));
    }
    let (sessions, token) = Sessions::new().expect("the kernel gives random bytes");
    assert!(!sessions.has([text].into_iter()));
    assert!(sessions.exchange(&token).is_ok_and(|cookie| cookie.is_some()));
    assert!(!sessions.has([text].into_iter()));
}
