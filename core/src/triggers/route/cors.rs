//! `cors`: what pages of other origins may do (the Fetch standard, "CORS protocol").

use super::Route;
use fnd_manifest::function::route::Method;

/// Returns the value of `Access-Control-Allow-Origin` for a request of a page with this origin; nothing if the page may
/// not read the answer.
#[must_use]
pub fn allowed<'a>(route: &Route, origin: &'a str) -> Option<&'a str> {
    let allowed = &route.entry.cors;
    if allowed.iter().any(|known| known == origin) {
        return Some(origin);
    }
    allowed.iter().any(|known| known == "*").then_some("*")
}

/// Returns the value of `Access-Control-Allow-Methods`: the methods of a route, with HEAD where GET is.
#[must_use]
pub fn methods(route: &Route) -> String {
    let taken = Method::ALL.into_iter().filter(|method| route.takes(*method));
    taken.map(Method::as_str).collect::<Vec<_>>().join(", ")
}
