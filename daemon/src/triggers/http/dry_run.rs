//! Predicts the treatment of a request, for `fndctl routes` and `fndctl routes test`. Nothing runs and nothing is remembered.

use super::listener::Listener;
use super::request_facts::RequestFacts;
use super::route_calls::Calls;
use super::{CredentialHeaders, event_route};
use crate::http::connections::ConnectionOwner;
use crate::http::listen::socket::Peer;
use crate::http::response::Refusal;
use crate::triggers::passwords::LoginRefusal;
use fnd_core::api::{CheckView, EventsRoute, RouteList, RouteTest, RouteTestReport, RouteView, milliseconds};
use fnd_core::triggers::credentials::Proof;
use fnd_core::triggers::route::conditions;
use fnd_core::triggers::route::{Route, RouteMatch, Routes};
use fnd_manifest::function::route::{Credential, Credentials, Method};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use std::net::IpAddr;
use std::rc::Rc;

impl Listener {
    /// Returns all routes with their calls.
    pub(crate) fn list(&self, routes: &Routes) -> RouteList {
        RouteList {
            listen: self.addresses(),
            routes: routes.all().iter().map(|route| self.view(route)).collect(),
            events: self.events.borrow().as_ref().map(|events| EventsRoute {
                path: events.path.clone(),
                auth: words(&events.auth),
            }),
        }
    }

    fn view(&self, route: &Route) -> RouteView {
        let calls = self.calls.borrow();
        let calls = calls.of(route);
        let quantile = |of: f64| calls.and_then(|calls| calls.quantile_us(of)).map(milliseconds);
        let entry = &route.entry;
        RouteView {
            methods: entry.methods.iter().map(|method| method.as_str().to_owned()).collect(),
            host: entry.host.clone(),
            path: entry.path.clone(),
            function: route.function.clone(),
            auth: words(&entry.auth),
            r#async: entry.r#async,
            calls: calls.map_or(0, |calls: &Calls| calls.count),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            last_status: calls.map(|calls| calls.last_status),
        }
    }

    /// Returns what would become of a request.
    ///
    /// # Errors
    /// The words for a URL or a header that is none.
    pub(crate) async fn try_request(
        &self,
        routes: &Routes,
        test: &RouteTest,
        now_s: u64,
    ) -> Result<RouteTestReport, String> {
        let parts = parts(test)?;
        let address: Option<IpAddr> = match &test.caller {
            Some(text) => Some(text.parse().map_err(|_| format!("`{text}` is not an IP address"))?),
            None => None,
        };
        let peer = Peer {
            address,
            port: None,
            local_port: None,
            is_secure: false,
        };
        let asked = match RequestFacts::read(&parts, &peer, &self.trusted.borrow()) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        // As for a request: the path of events comes before the routes of functions.
        if let Some(route) = event_route(self, &asked, || u64::MAX) {
            return Ok(self
                .try_event(&route, &asked, (&parts.headers, test.body.as_bytes(), now_s))
                .await);
        }
        let (route, params) = match routes.find(&asked.host, &asked.path, asked.method) {
            RouteMatch::Route(route, params) => (Rc::clone(route), params),
            RouteMatch::Methods(methods) => {
                let methods: Vec<&str> = methods.into_iter().map(Method::as_str).collect();
                let methods = methods.join(", ");
                let why = format!("the path has routes for {methods} only; a caller without a credential gets 401");
                return Ok(plain(405, why));
            }
            RouteMatch::Nothing => {
                let why = "no route has this host and path; a caller without a credential gets 401";
                return Ok(plain(404, why.to_owned()));
            }
        };
        let body = test.body.as_bytes();
        let mut report = RouteTestReport {
            route: Some(self.view(&route)),
            params: params.into_iter().collect(),
            ..plain(200, String::new())
        };
        report.credentials = self.credentials(&route, (&parts.headers, body, now_s)).await;
        asked.with_facts(&parts.headers, body, |facts| {
            for test in &route.conditions {
                let found = facts.values(test.place());
                let detail = if found.is_empty() {
                    "it has no value".to_owned()
                } else {
                    format!("it is `{}`", found.join("`, `"))
                };
                report.when.push(CheckView {
                    what: String::from(test.place().clone()),
                    holds: test.holds(facts),
                    detail,
                });
            }
            let place = route.entry.idempotency.as_ref();
            report.idempotency_key = place.and_then(|place| conditions::key(facts, place));
        });
        // The verdict follows the order in which a request is checked.
        let admitted = route.is_open() || report.credentials.iter().any(|check| check.holds);
        let function = &route.function;
        let stays = |status: u16, why: &str| (Some(status), format!("`{function}` does not run: {why}"));
        (report.status, report.verdict) = if !admitted {
            stays(401, "no credential holds")
        } else if body.len() as u64 > route.body {
            stays(413, "the body is larger than limits.body")
        } else if !report.when.iter().all(|check| check.holds) {
            stays(204, "a condition of `when` does not hold")
        } else if route.entry.r#async {
            (Some(202), format!("`{function}` is queued"))
        } else {
            (None, format!("`{function}` runs and its answer is sent"))
        };
        Ok(report)
    }

    /// Returns what would become of a request to the address of events.
    async fn try_event(
        &self,
        route: &Route,
        asked: &RequestFacts,
        proven_by: (&HeaderMap, &[u8], u64),
    ) -> RouteTestReport {
        let credentials = self.credentials(route, proven_by).await;
        let address = "it is the address of `[http] events` in fnd.toml";
        let (status, verdict) = if !route.is_open() && !credentials.iter().any(|check| check.holds) {
            (401, format!("{address}, and no credential holds"))
        } else if asked.method != Some(Method::Post) {
            (405, format!("{address}, which takes POST only"))
        } else {
            (
                202,
                format!("{address}: a CloudEvent there runs the functions whose `[[event]]` wants it"),
            )
        };
        RouteTestReport {
            credentials,
            ..plain(status, verdict)
        }
    }

    /// Says which credentials of a route hold.
    async fn credentials(&self, route: &Route, (headers, body, now_s): (&HeaderMap, &[u8], u64)) -> Vec<CheckView> {
        let mut checks = Vec::new();
        for credential in &route.entry.auth.0 {
            let (holds, detail) = self.checked(credential, headers, body, now_s).await;
            checks.push(CheckView {
                what: String::from(credential.clone()),
                holds,
                detail,
            });
        }
        checks
    }

    /// Says whether a credential holds, and why not.
    async fn checked(&self, credential: &Credential, headers: &HeaderMap, body: &[u8], now_s: u64) -> (bool, String) {
        let found = {
            let keyring = self.keyring.borrow();
            keyring.get(credential).ok_or_else(|| keyring.refusal(credential))
        };
        let verifier = match found {
            Ok(verifier) => verifier,
            Err(why) => return (false, why),
        };
        match verifier.verify(&CredentialHeaders(headers), body, now_s) {
            Ok(Proof::Holds | Proof::HoldsOnce(_)) => (true, "it holds".to_owned()),
            // A test has no caller, so it counts for no address.
            Ok(Proof::Password(login)) => match self.passwords.check(login, ConnectionOwner::Exempt).await {
                Ok(()) => (true, "it holds".to_owned()),
                Err(LoginRefusal::Denied(why)) => (false, why.to_string()),
                Err(LoginRefusal::Busy) => (false, "too many passwords wait to be checked".to_owned()),
            },
            Err(why) => (false, why.to_string()),
        }
    }
}

/// Returns credentials as they are written in files.
fn words(auth: &Credentials) -> Vec<String> {
    if auth.0.is_empty() {
        return vec!["none".to_owned()];
    }
    auth.0.iter().cloned().map(String::from).collect()
}

fn plain(status: u16, verdict: String) -> RouteTestReport {
    RouteTestReport {
        status: Some(status),
        verdict,
        route: None,
        params: std::collections::BTreeMap::new(),
        credentials: Vec::new(),
        when: Vec::new(),
        idempotency_key: None,
    }
}

fn refused(refusal: &Refusal) -> RouteTestReport {
    plain(refusal.problem.status, refusal.problem.detail.clone())
}

/// Returns the head of the request.
fn parts(test: &RouteTest) -> Result<hyper::http::request::Parts, String> {
    let uri: hyper::Uri = test
        .url
        .parse()
        .map_err(|error| format!("`{}` is not a URL: {error}", test.url))?;
    let mut request = hyper::Request::builder()
        .method(test.method.as_str())
        .uri(uri.clone())
        .body(());
    let request = request
        .as_mut()
        .map_err(|error| format!("the request cannot be: {error}"))?;
    let headers = request.headers_mut();
    if let Some(authority) = uri.authority() {
        headers.insert(
            HOST,
            HeaderValue::from_str(authority.as_str()).map_err(|error| error.to_string())?,
        );
    }
    for (name, value) in &test.headers {
        let wrong = |error: &dyn std::fmt::Display| format!("the header `{name}` cannot be: {error}");
        let name_read = HeaderName::try_from(name.as_str()).map_err(|error| wrong(&error))?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|error| wrong(&error))?;
        headers.append(name_read, value);
    }
    Ok(std::mem::take(request).into_parts().0)
}
