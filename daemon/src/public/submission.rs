//! Prepares the run of a route's function for `invoke/run.rs`: reads the headers of the request, checks conditions and rate, and
//! makes the idempotency key.

use super::Public;
use super::admission::Admitted;
use crate::http::headers::given;
use crate::http::request::{IncomingRequest, RequestBody, bytes_of};
use crate::http::response::{Answered, Refusal, json, refuse, retried_after, whole, with_status};
use crate::invoke::payload::of_headers;
use crate::invoke::refusal::{no_function, rejected};
use crate::invoke::run::{Decision, OneTimeSignature, RunRequest, run_and_answer};
use crate::triggers::http::RequestFacts;
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_core::records::outcome::Trigger;
use fnd_core::records::protocol::HttpRequest;
use fnd_core::run::{Rejection, Submit};
use fnd_core::triggers::route::{Route, conditions};
use fnd_manifest::function::route::{Per, Response, Scheme};
use fnd_wire::ids::FunctionName;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Largest body of a request that tells of a push. GitHub's largest has 25 MiB.
const PUSH_MAX: u64 = 32 << 20;

/// Header of an answer to a request that runs nothing: why.
const SKIPPED: HeaderName = HeaderName::from_static("fnd-skipped");

impl Public {
    /// Runs the function of a route, and returns its answer.
    ///
    /// # Errors
    /// Every answer of fnd itself.
    pub(super) async fn submit(
        &self,
        (request, asked): (IncomingRequest, &RequestFacts),
        (route, params): (&Rc<Route>, Vec<(String, String)>),
        (admitted, body): (Admitted, RequestBody),
    ) -> Result<Answered, Refusal> {
        let function = &route.function;
        if route.entry.fetches {
            return self.pushed(request, function, (&admitted, body)).await;
        }
        let Some(bounds) = self.control.bounds(function) else {
            let error = "it is not installed yet".to_owned();
            return Err(rejected(&Rejection::Invalid { error }, function));
        };
        let submit = prepared(&request, asked, (route, params), &admitted)?;
        let run_request = RunRequest {
            request: &request,
            route: Some(route),
            submit,
            bounds,
            body,
            needs_body: reads_body(route),
            decide: |_: &Submit, body: &Data| self.decide((&request, asked), route, &admitted, body),
            signature: self.signature(&admitted),
            in_status_file: false,
        };
        run_and_answer(&self.control, run_request).await
    }

    pub(super) fn signature(&self, admitted: &Admitted) -> OneTimeSignature<'_> {
        OneTimeSignature(match admitted {
            Admitted::Once(_, key) => Some((&self.listener.replays, *key)),
            Admitted::Open | Admitted::Known(_) => None,
        })
    }

    /// Returns the idempotency key of a request, or the answer if the request runs nothing because of `when`. The key belongs to
    /// the route and to the credential that admitted the request.
    ///
    /// # Errors
    /// [`Code::Rate`].
    fn decide(
        &self,
        (request, asked): (&IncomingRequest, &RequestFacts),
        route: &Route,
        admitted: &Admitted,
        body: &Data,
    ) -> Result<Decision, Refusal> {
        let (body, entry) = (&*bytes_of(body)?, &route.entry);
        let found = asked.with_facts(&request.parts.headers, body, |facts| {
            let holds = route.conditions.iter().all(|test| test.holds(facts));
            let key = || conditions::key(facts, entry.idempotency.as_ref()?);
            holds.then(key)
        });
        let Some(key) = found else {
            let mut answer = with_status(whole("text/plain; charset=utf-8", ""), StatusCode::NO_CONTENT);
            answer.headers_mut().remove(CONTENT_TYPE);
            answer.headers_mut().insert(SKIPPED, HeaderValue::from_static("when"));
            return Ok(ControlFlow::Break(answer));
        };
        // After the conditions: a request that they turn away does not count against the rate.
        if let Some(rate) = entry.rate {
            let from = asked.caller.filter(|_| entry.per == Per::Ip);
            let now = self.control.daemon.state.borrow().clock.now().mono;
            let admitted = self.listener.rates.borrow_mut().admit(route.identity, from, rate, now);
            let too_many = || refuse(Code::Rate, "more requests than the route's rate allows");
            admitted.map_err(|wait| retried_after(too_many(), wait))?;
        }
        // Route and credential are a part of the key: otherwise a stranger on an open route could get the answer to
        // somebody else's run.
        let owner = KeyOwner::Route {
            host: entry.host.as_deref(),
            path: &entry.path,
            credential: admitted.holder(),
        };
        let target = [request.parts.method.as_str(), &asked.raw_path, &asked.query].map(str::as_bytes);
        let content = target.into_iter().chain([body]);
        Ok(ControlFlow::Continue(
            key.map(|key| IdempotencyKey::new(owner, &key, content)),
        ))
    }

    /// Has the code of a function fetched again, since its repository has changed. The caller does not wait for it.
    async fn pushed(
        &self,
        request: IncomingRequest,
        function: &FunctionName,
        (admitted, body): (&Admitted, RequestBody),
    ) -> Result<Answered, Refusal> {
        // fnd does not use the body, which describes the push. fnd reads the body all the same, because the sender has
        // to be able to send all of it.
        let (buffers, limit) = (self.control.buffers(), (PUSH_MAX, "a push"));
        request.read_body(&buffers, body, limit).await?;
        // Used up after the whole body has come: a sender whose connection broke before may send the push again.
        self.signature(admitted).use_up().await?;
        if self.control.build(function, false).is_none() {
            return Err(no_function(function));
        }
        let answer = json(&serde_json::json!({"function": function.as_str(), "fetches": true}))?;
        Ok(with_status(answer, StatusCode::ACCEPTED))
    }
}

/// Says whether a route needs the body before it runs anything. An idempotency key covers the body.
fn reads_body(route: &Route) -> bool {
    let mut places = route.conditions.iter().map(conditions::Test::place);
    route.entry.idempotency.is_some() || places.any(conditions::needs_body)
}

/// Returns the request to run a route's function, without its body.
fn prepared(
    request: &IncomingRequest,
    asked: &RequestFacts,
    (route, params): (&Rc<Route>, Vec<(String, String)>),
    admitted: &Admitted,
) -> Result<Submit, Refusal> {
    let mut withheld = Vec::new();
    // On an open route the header is for somebody else: perhaps for the function, perhaps for a route that was there before.
    if !matches!(admitted, Admitted::Open) || !route.entry.authorization {
        withheld.push("authorization");
    }
    // The header is the secret itself.
    if route
        .entry
        .auth
        .0
        .iter()
        .any(|credential| credential.scheme == Scheme::Gitlab)
    {
        withheld.push("x-gitlab-token");
    }
    let path = if route.entry.strip {
        route.rest(&asked.raw_path).to_owned()
    } else {
        asked.raw_path.clone()
    };
    let mut submit = of_headers(request, route.function.clone(), Trigger::Http)?;
    submit.payload.request = Some(Arc::new(HttpRequest {
        method: request.parts.method.to_string(),
        path,
        query: asked.query.clone(),
        route: route.entry.path.clone(),
        params,
        remote: asked.remote(),
        scheme: asked.scheme.to_owned(),
        host: asked.authority.clone(),
        protocol: asked.protocol.to_owned(),
        cgi: route.entry.response == Response::Cgi,
        headers: given(&request.parts.headers, &withheld)?,
    }));
    submit.wait = !route.entry.r#async;
    Ok(submit)
}
