//! Finds the route of a request by method and path, and decides whether the caller may use it.

use super::audit::Auditing;
use super::{ControlRoute, RouteAbout, routes};
use crate::control::call::ControlCall;
use crate::control::refusal::{failed, no_invocation};
use crate::http::query::{decode, short};
use crate::http::response::{Refusal, refuse};
use crate::invoke::refusal::no_function;
use fnd_core::access::Permissions;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;
use hyper::Method;

/// Returns the route of a request, and the values of the `{...}` in its path.
///
/// # Errors
/// There is no such route, or the caller has no role at all.
pub(super) fn find(
    method: &Method,
    path: &str,
    reach: &Permissions,
) -> Result<(&'static ControlRoute, Vec<String>), Refusal> {
    let mut allowed: Vec<&str> = Vec::new();
    for route in routes() {
        let Some(places) = matches(route.path, path) else {
            continue;
        };
        if route.method != *method {
            // An answer with 405 has to name the methods of the path (RFC 9110, section 15.5.6).
            allowed.push(route.method.as_str());
            continue;
        }
        return Ok((route, places));
    }
    if reach.greatest().is_none() {
        // A client without a role learns nothing about the routes.
        return Err(refuse(Code::NotAllowed, NO_ROLE));
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

/// Decides by the path whether the caller may use a route; `function` is what a route about a function names. If the caller may not
/// view it, the answer is the same whether the function exists or not: there is no such function. A route about an invocation still
/// has to be [permitted](permit_invocation).
///
/// # Errors
/// The caller may not.
pub(super) fn permit_path(
    route: &ControlRoute,
    function: Option<&FunctionName>,
    reach: &Permissions,
) -> Result<(), Refusal> {
    if route.role.is_some() && reach.greatest().is_none() {
        return Err(refuse(Code::NotAllowed, NO_ROLE));
    }
    let role = match (route.about, function) {
        (RouteAbout::Node, _) => reach.node(),
        (RouteAbout::Function, Some(name)) if !reach.views(name) => return Err(no_function(name)),
        (RouteAbout::Function, Some(name)) => reach.function(name),
        // The handler of the route refuses a text that is no name of a function.
        (RouteAbout::List | RouteAbout::Invocation | RouteAbout::Function, _) => reach.greatest(),
    };
    // `None` is less than every role. So a route without a role is for everybody, and a caller without a role gets no
    // other.
    match role >= route.role {
        true => Ok(()),
        false => Err(denied(role, route, function)),
    }
}

/// Decides whether the caller may use a route about the invocation in its path. If the caller may not view the function of the
/// invocation, the answer is that there is no such invocation.
///
/// # Errors
/// The caller may not.
pub(super) async fn permit_invocation(
    route: &ControlRoute,
    call: &ControlCall,
    audit: &mut Auditing<'_>,
) -> Result<(), Refusal> {
    let is_limited = call.reach.node() < route.role;
    // A role for the node holds for all functions, so the history is read only for a limited caller and for the audit.
    if !is_limited && !audit.changes {
        return Ok(());
    }
    let id = call.invocation()?;
    let function = call.backend.function_of(id).await.map_err(failed("read the history"))?;
    audit.function.clone_from(&function);
    match function {
        None if is_limited => Err(no_invocation(id)),
        Some(function) if call.reach.function(&function) < route.role => {
            audit.refused = true;
            Err(match call.reach.function(&function) {
                None => no_invocation(id),
                role => denied(role, route, Some(&function)),
            })
        }
        Some(_) | None => Ok(()),
    }
}

const NO_ROLE: &str = "no group of yours has a role on this fnd: join the group `fnd` (`sudo usermod -aG fnd $USER`, \
                       then log in again) or ask its administrator for an entry in [[access]] of fnd.toml";

/// Returns the refusal of a caller whose role is too small, with the entry that it needs.
fn denied(role: Option<Role>, route: &ControlRoute, function: Option<&FunctionName>) -> Refusal {
    let takes = route.role.map_or("", Role::as_str);
    let has = role.map_or("none", Role::as_str);
    let (what, entry) = match (function, route.about) {
        (Some(function), _) => (
            format!(" for `{function}`"),
            format!("an entry with `role = \"{takes}\"` and `functions = [\"{function}\"]`"),
        ),
        (None, RouteAbout::Node) => (
            " for the node".to_owned(),
            format!("an entry with `role = \"{takes}\"` and without `functions`"),
        ),
        (None, _) => (String::new(), format!("an entry with `role = \"{takes}\"`")),
    };
    let detail = format!(
        "`{} {}` needs the role {takes}{what}, yours is {has}: run it as root, or ask for {entry} in [[access]] of fnd.toml",
        route.method, route.path
    );
    match function {
        Some(function) => Problem::new(Code::NotAllowed, detail).of(function).into(),
        None => refuse(Code::NotAllowed, detail),
    }
}

/// Returns the values of a pattern's `{...}` in a path, decoded; nothing if the path does not match. A `{...}` is a whole segment.
fn matches(mut pattern: &str, mut path: &str) -> Option<Vec<String>> {
    let mut places = Vec::new();
    while let Some((literal, rest)) = pattern.split_once('{') {
        path = path.strip_prefix(literal)?;
        let (name, rest) = rest.split_once('}')?;
        if name.ends_with("...") {
            // The last parameter takes the rest of the path: as it is written, without decoding, even if it is empty.
            places.push(path.to_owned());
            return Some(places);
        }
        let (segment, after) = path.split_at(path.find('/').unwrap_or(path.len()));
        // Decoded after the split: an encoded slash is a part of a name and separates no segments.
        places.push(decode(segment).filter(|text| !text.is_empty())?);
        (pattern, path) = (rest, after);
    }
    (pattern == path).then_some(places)
}

#[cfg(test)]
mod tests {
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
        for (path, expected) in [
            ("/v1/state/shop/a%2Fb/c", Some(["shop", "a%2Fb/c"])),
            ("/v1/state/shop/", Some(["shop", ""])),
            ("/v1/state/shop", None),
        ] {
            let places = matches("/v1/state/{scope}/{key...}", path);
            assert_eq!(
                places,
                expected.map(|texts| texts.map(str::to_owned).to_vec()),
                "{path}"
            );
        }
        assert_eq!(matches("/v1/status", "/v1/status"), Some(Vec::new()));
        assert_eq!(matches("/v1/status", "/v1/status/"), None);
    }

    fn refused(method: &Method, path: &str, reach: &Permissions) -> Option<Refusal> {
        let found = find(method, path, reach).and_then(|(route, places)| {
            let name = places.first().filter(|_| route.about == RouteAbout::Function);
            let function = name.and_then(|name| FunctionName::new(name).ok());
            permit_path(route, function.as_ref(), reach)
        });
        found.err()
    }

    fn code(method: &Method, path: &str, reach: &Permissions) -> Option<String> {
        refused(method, path, reach).map(|refusal| refusal.problem.code)
    }

    #[test]
    fn roles_decide_before_anything_else() {
        let [viewer, operator, admin] = Role::ALL.map(Permissions::everywhere);
        let nobody = Permissions::default();
        assert_eq!(code(&Method::GET, "/healthz", &nobody), None);
        for path in ["/v1/status", "/v1/nowhere", "/v1/functions/hello", "/v1/invocations/1"] {
            assert_eq!(
                code(&Method::GET, path, &nobody).as_deref(),
                Some("not-allowed"),
                "{path}"
            );
        }
        assert_eq!(code(&Method::GET, "/v1/status", &viewer), None);
        let invoke = "/v1/functions/f/invoke";
        assert_eq!(code(&Method::POST, invoke, &viewer).as_deref(), Some("not-allowed"));
        assert_eq!(code(&Method::POST, invoke, &operator), None);
        assert_eq!(
            code(&Method::POST, "/v1/drain", &operator).as_deref(),
            Some("not-allowed")
        );
        assert_eq!(code(&Method::POST, "/v1/drain", &admin), None);
        assert_eq!(code(&Method::GET, "/v1/nowhere", &viewer).as_deref(), Some("not-found"));
    }

    fn limited(role: Role) -> Permissions {
        Permissions::of([(role, Some(&["web/*".to_owned()][..]))])
    }

    /// Every route of the table: for a function that the caller may not view it answers as for one that does not exist,
    /// and the node is refused to it.
    #[test]
    fn a_role_for_some_functions_is_none_for_others_and_for_the_node() {
        let reach = limited(Role::Admin);
        for route in routes() {
            let path = |function: &str| {
                let path = route.path.replace("{function}", function);
                path.replace("{path...}", "a/b")
                    .replace("{scope}", "shop")
                    .replace("{key...}", "a/b")
                    .replace("{id}", "01934567-89ab-7def-8123-456789abcdef")
            };
            let answer = |function| refused(&route.method, &path(function), &reach);
            let code = answer("web%2Fa").map(|refusal| refusal.problem.code);
            match route.about {
                RouteAbout::Node if route.role.is_some() => {
                    assert_eq!(code.as_deref(), Some("not-allowed"), "{}", route.path);
                    let detail = answer("").map(|refusal| refusal.problem.detail).unwrap_or_default();
                    assert!(detail.contains("for the node, yours is none"), "{detail}");
                }
                _ => assert_eq!(code, None, "{}", route.path),
            }
            if route.about == RouteAbout::Function {
                let refusal = answer("other").unwrap();
                let unknown = no_function(&FunctionName::new("other").unwrap());
                let shown = |refusal: &Refusal| serde_json::to_value(&refusal.problem).unwrap();
                assert_eq!(shown(&refusal), shown(&unknown), "{}", route.path);
            }
        }
    }

    #[test]
    fn a_small_role_is_refused_with_the_entry_that_is_needed() {
        let refusal = |reach: &Permissions| refused(&Method::POST, "/v1/functions/web%2Fa/invoke", reach).unwrap();
        let problem = refusal(&limited(Role::Viewer)).problem;
        assert_eq!((problem.status, problem.code.as_str()), (403, "not-allowed"));
        assert_eq!(
            problem.detail,
            "`POST /v1/functions/{function}/invoke` needs the role operator for `web/a`, yours is viewer: run it as root, or \
             ask for an entry with `role = \"operator\"` and `functions = [\"web/a\"]` in [[access]] of fnd.toml"
        );
        let both = Permissions::of([(Role::Viewer, None), (Role::Operator, Some(&["web/*".to_owned()][..]))]);
        assert_eq!(code(&Method::POST, "/v1/functions/web%2Fa/invoke", &both), None);
        assert_eq!(
            code(&Method::POST, "/v1/functions/hello/invoke", &both).as_deref(),
            Some("not-allowed")
        );
        assert_eq!(code(&Method::GET, "/v1/config", &both), None);
        assert_eq!(
            code(&Method::POST, "/v1/validate", &both).as_deref(),
            Some("not-allowed")
        );
    }

    /// A new route has to say what it is about: this finds an obvious mistake.
    #[test]
    fn paths_show_what_routes_are_about() {
        for route in routes() {
            let expected = match route.path {
                path if path.contains("{function}") => Some(RouteAbout::Function),
                path if path.contains("{id}") => Some(RouteAbout::Invocation),
                _ => None,
            };
            match expected {
                Some(expected) => assert_eq!(route.about, expected, "{}", route.path),
                None => assert!(
                    matches!(route.about, RouteAbout::List | RouteAbout::Node),
                    "{}",
                    route.path
                ),
            }
        }
    }

    #[test]
    fn other_methods_say_so() {
        let error = |method: Method, path| find(&method, path, &Permissions::own()).err().unwrap();
        let refusal = error(Method::DELETE, "/v1/status");
        assert_eq!((refusal.problem.status, refusal.allow.as_deref()), (405, Some("GET")));
    }
}
