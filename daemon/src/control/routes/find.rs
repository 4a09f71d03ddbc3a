//! Finds the route of a request: by method and path, if the caller's role allows it.

use super::{LATER, ROUTES, Route};
use crate::http::query::decode;
use crate::http::request::short;
use crate::http::response::{Refusal, refuse};
use fnd_core::api::problem::Code;
use fnd_manifest::settings::Role;
use hyper::Method;

/// Returns the route of a request, and the values of the `{...}` in its path.
pub(super) fn find(method: &Method, path: &str, role: Option<Role>) -> Result<(&'static Route, Vec<String>), Refusal> {
    let mut allowed: Vec<&str> = Vec::new();
    for route in ROUTES {
        let Some(places) = matches(route.path, path) else {
            continue;
        };
        if route.method != *method {
            allowed.push(route.method.as_str());
            continue;
        }
        return if role >= route.role {
            Ok((route, places))
        } else {
            Err(denied(role, route))
        };
    }
    if role.is_none() {
        // A client without a role learns nothing about the routes.
        return Err(refuse(Code::NotAllowed, NO_ROLE));
    }
    if LATER
        .iter()
        .any(|(later, pattern)| later == method && matches(pattern, path).is_some())
    {
        return Err(refuse(
            Code::NotSupportedYet,
            format!("`{method} {}` is not supported yet", short(path)),
        ));
    }
    if allowed.is_empty() {
        let detail = format!("there is no path `{}`: `/v1/openapi.json` lists all paths", short(path));
        return Err(refuse(Code::NotFound, detail));
    }
    let allow = allowed.join(", ");
    let method = short(method.as_str());
    let mut refusal = refuse(
        Code::MethodNotAllowed,
        format!("`{}` takes {allow}, not {method}", short(path)),
    );
    refusal.allow = Some(allow);
    Err(refusal)
}

const NO_ROLE: &str = "no group of yours has a role on this fnd: join the group `fnd` (`sudo usermod -aG fnd $USER`, \
                       then log in again) or ask its administrator for an entry in [[access]] of fnd.toml";

fn denied(role: Option<Role>, route: &Route) -> Refusal {
    let word = |role| match role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    };
    match (role, route.role) {
        (Some(has), Some(takes)) => refuse(
            Code::NotAllowed,
            format!(
                "`{} {}` needs the role {}, yours is {}: run it as root, or ask for an entry in [[access]] of fnd.toml",
                route.method,
                route.path,
                word(takes),
                word(has)
            ),
        ),
        _ => refuse(Code::NotAllowed, NO_ROLE),
    }
}

/// Returns the values of a pattern's `{...}` in a path, decoded; nothing if the path does not match.
fn matches(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut places = Vec::new();
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        if expected.ends_with("...}") {
            // The rest is a path of its own: it is not decoded, and may be empty.
            let first = segments.next()?.to_owned();
            places.push(segments.by_ref().fold(first, |all, segment| all + "/" + segment));
            continue;
        }
        let segment = segments.next()?;
        if expected.starts_with('{') {
            places.push(decode(segment).filter(|text| !text.is_empty())?);
        } else if expected != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(places)
}

#[cfg(test)]
mod tests {
    use super::super::{ADMIN, OPERATOR, VIEWER};
    use super::*;

    #[test]
    fn places_are_one_decoded_segment() {
        let pattern = "/v1/functions/{function}/invoke";
        for (path, expected) in [
            ("/v1/functions/hello/invoke", Some("hello")),
            ("/v1/functions/ops%2Fbackup/invoke", Some("ops/backup")),
            ("/v1/functions/ops/backup/invoke", None),
            ("/v1/functions//invoke", None),
            ("/v1/functions/hello/invoke/", None),
            ("/v1/functions/hello", None),
            ("/v1/functions/%ff/invoke", None),
        ] {
            let places = matches(pattern, path);
            assert_eq!(places, expected.map(|text| vec![text.to_owned()]), "{path}");
        }
    }

    #[test]
    fn roles_decide_before_anything_else() {
        let code = |method: Method, path, role| find(&method, path, role).err().map(|refusal| refusal.problem.code);
        assert_eq!(code(Method::GET, "/healthz", None), None);
        assert_eq!(code(Method::GET, "/v1/status", None).as_deref(), Some("not-allowed"));
        assert_eq!(code(Method::GET, "/v1/nowhere", None).as_deref(), Some("not-allowed"));
        assert_eq!(code(Method::GET, "/v1/status", VIEWER), None);
        assert_eq!(
            code(Method::POST, "/v1/functions/f/invoke", VIEWER).as_deref(),
            Some("not-allowed")
        );
        assert_eq!(code(Method::POST, "/v1/functions/f/invoke", OPERATOR), None);
        assert_eq!(
            code(Method::POST, "/v1/drain", OPERATOR).as_deref(),
            Some("not-allowed")
        );
        assert_eq!(code(Method::POST, "/v1/drain", ADMIN), None);
        assert_eq!(code(Method::GET, "/v1/nowhere", VIEWER).as_deref(), Some("not-found"));
    }

    #[test]
    fn other_methods_and_later_routes_say_so() {
        let error = |method, path| find(&method, path, ADMIN).err().unwrap();
        let refusal = error(Method::DELETE, "/v1/status");
        assert_eq!((refusal.problem.status, refusal.allow.as_deref()), (405, Some("GET")));
        for (method, path) in LATER {
            let refusal = error(method.clone(), path);
            assert_eq!(
                (refusal.problem.status, refusal.problem.code.as_str()),
                (404, "not-supported-yet"),
                "{path}"
            );
        }
    }
}
