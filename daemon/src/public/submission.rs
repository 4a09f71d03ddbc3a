//! Runs the function of a request: checks conditions and rate, makes payload and idempotency key, and answers.

use super::Public;
use super::access::RouteAccess;
use super::admission::Admitted;
use crate::backend::PageBounds;
use crate::backend::{FunctionBackend as _, InvocationBackend as _};
use crate::http::headers::{self, given, joined, upgrade};
use crate::http::paced::Paced;
use crate::http::request::IncomingRequest;
use crate::http::response::{Answered, INVOCATION, Refusal, internal, json, refuse, refuse_for_now, whole};
use crate::invoke::answer::{of_passed, of_run, wait};
use crate::invoke::payload::put;
use crate::invoke::refusal::{no_function, rejected};
use crate::triggers::http::RequestFacts;
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_core::records::outcome::Trigger;
use fnd_core::records::protocol::HttpRequest;
use fnd_core::records::{self, Payload};
use fnd_core::supervisor::{Answer, Rejection, Submit};
use fnd_core::trace::Trace;
use fnd_core::triggers::replays::Replayed;
use fnd_core::triggers::route::Route;
use fnd_core::triggers::route::conditions;
use fnd_manifest::function::keys::RouteAnswer;
use fnd_manifest::function::route::{Per, Response, Scheme};
use fnd_wire::ids::{FunctionName, InvocationId};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use std::rc::Rc;
use std::sync::Arc;

/// Largest body of a request that tells of a push. GitHub's largest has 25 MiB.
const PUSH_MAX: u64 = 32 << 20;

/// Header of an answer to a request that runs nothing: why.
const SKIPPED: HeaderName = HeaderName::from_static("fnd-skipped");

/// Returns the answer to a queued request that its route wants; it names the run as `queued` does.
fn chosen_answer(chosen: &RouteAnswer, queued: &Answered) -> Answered {
    let mut answer = whole("text/plain; charset=utf-8", chosen.body.clone());
    // The schema allows 200 to 599 only.
    *answer.status_mut() = StatusCode::from_u16(chosen.status).unwrap_or(StatusCode::ACCEPTED);
    let response = records::Response {
        headers: chosen.headers.clone().into_iter().collect(),
        ..records::Response::default()
    };
    // A header that is none was refused with the manifest.
    let _ = headers::put(&response, answer.headers_mut());
    if let Some(id) = queued.headers().get(INVOCATION) {
        answer.headers_mut().insert(INVOCATION, id.clone());
    }
    answer
}

impl Public {
    /// Runs the function of a route, and returns its answer.
    ///
    /// # Errors
    /// Every answer of fnd itself.
    pub(super) async fn submit(
        &self,
        (request, asked): (IncomingRequest, &RequestFacts),
        (route, params): (&Rc<Route>, Vec<(String, String)>),
        (admitted, body): (Admitted, Option<Data>),
        access: &mut RouteAccess,
    ) -> Result<Answered, Refusal> {
        let function = &route.function;
        if route.entry.fetches {
            return self.pushed(request, asked, function, (&admitted, body)).await;
        }
        let Some(bounds) = self.control.bounds(function) else {
            let error = "it is not installed yet".to_owned();
            return Err(rejected(&Rejection::Invalid { error }, function));
        };
        let mut submit = prepared(&request, asked, (route, params), &admitted)?;
        // A body that is passed on is answered while the function runs.
        let needs_body = body.is_some() || reads_body(route);
        if bounds.passes && !route.entry.r#async && !needs_body && route.entry.idempotency.is_none() {
            if let Some(skipped) = self.decide(&request, asked, route, &[])? {
                return Ok(skipped);
            }
            return self.pass(request, submit, &bounds).await;
        }
        let data = match body {
            Some(data) => data,
            None => {
                let limit = (bounds.body, "limits.body");
                self.read_body(&request, (&admitted, asked.caller), limit).await?
            }
        };
        // A body that was read for a signature may be larger: its limit was the largest one of the host's routes.
        if data.size() > bounds.body {
            return Err(refuse(Code::TooLarge, "the body is larger than limits.body"));
        }
        let key = {
            let bytes = data
                .bytes()
                .map_err(|error| internal("read a body from the disk", &error))?;
            if let Some(skipped) = self.decide(&request, asked, route, &bytes)? {
                return Ok(skipped);
            }
            key((&request, asked), route, &admitted, &bytes)
        };
        put(&mut submit.payload, data, bounds.mode)?;
        submit.wait = !route.entry.r#async;
        submit.idempotency_key = key;
        // Last before the submission: a request that `when` or the rate turns away may come again with its signature.
        self.first_time(&admitted).await?;
        let answer = match wait(self.control.submit(submit)).await {
            Ok(answer) => answer,
            Err(refusal) => return Err(refusal),
        };
        if let (Admitted::Once(_, replay), Answer::Rejected(_) | Answer::StoreFailed) = (&admitted, &answer) {
            // Nothing ran, so the sender may try again with the same signature.
            self.listener.replays.forget(*replay);
        }
        access.ran(&answer);
        let is_queued = matches!(answer, Answer::Queued(_));
        let mut answer = of_run(answer, function)?;
        if is_queued {
            // A path of the control API is not reachable here. The `Location` of a function is its own.
            answer.headers_mut().remove(LOCATION);
            if let Some(chosen) = &route.entry.answer {
                return Ok(chosen_answer(chosen, &answer));
            }
        }
        Ok(answer)
    }

    /// Remembers a signature that holds once.
    pub(super) async fn first_time(&self, admitted: &Admitted) -> Result<(), Refusal> {
        let Admitted::Once(_, key) = admitted else {
            return Ok(());
        };
        let now_s = self.control.now_ms() / 1000;
        let admitted = self.listener.replays.admit(*key, now_s).await;
        admitted.map_err(|refused| match refused {
            Replayed::Before => refuse(
                Code::Replayed,
                "a request with this signature and this time was admitted before",
            ),
            Replayed::Full => refuse_for_now(Code::Unavailable, "too many signed requests are remembered"),
        })
    }

    /// Returns the answer to a request that runs nothing because of `when`.
    ///
    /// # Errors
    /// [`Code::Rate`].
    fn decide(
        &self,
        request: &IncomingRequest,
        asked: &RequestFacts,
        route: &Route,
        body: &[u8],
    ) -> Result<Option<Answered>, Refusal> {
        let holds = asked.with_facts(&request.parts.headers, body, |facts| {
            route.conditions.iter().all(|test| test.holds(facts))
        });
        if !holds {
            let mut answer = whole("text/plain; charset=utf-8", "");
            *answer.status_mut() = StatusCode::NO_CONTENT;
            answer.headers_mut().remove(CONTENT_TYPE);
            answer.headers_mut().insert(SKIPPED, HeaderValue::from_static("when"));
            return Ok(Some(answer));
        }
        // After the conditions: a request that they turn away does not count against the rate.
        if let Some(rate) = route.entry.rate {
            let from = asked.caller.filter(|_| route.entry.per == Per::Ip);
            let now = self.control.daemon.state.borrow().clock.now().mono;
            let admitted = self.listener.rates.borrow_mut().admit(route.identity, from, rate, now);
            admitted.map_err(|wait| {
                let mut refusal = refuse(Code::Rate, "more requests than the route's rate allows");
                // Rounded up: a caller that came back a moment too early would be refused again.
                refusal.retry_after = Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
                refusal
            })?;
        }
        Ok(None)
    }

    /// Has the code of a function fetched again, since its repository has changed. The caller does not wait for it.
    async fn pushed(
        &self,
        request: IncomingRequest,
        asked: &RequestFacts,
        function: &FunctionName,
        (admitted, body): (&Admitted, Option<Data>),
    ) -> Result<Answered, Refusal> {
        if body.is_none() {
            // The body tells about the push. fnd does not need it, but its sender has to be able to send all of it.
            let limit = (PUSH_MAX, "a push");
            self.read_body(&request, (admitted, asked.caller), limit).await?;
        }
        self.first_time(admitted).await?;
        if self.control.build(function, false).is_none() {
            return Err(no_function(function));
        }
        let mut answer = json(&serde_json::json!({"function": function.as_str(), "fetches": true}))?;
        *answer.status_mut() = StatusCode::ACCEPTED;
        Ok(answer)
    }

    /// Passes the body on to the program as a stream, and its answer to the caller.
    async fn pass(&self, request: IncomingRequest, submit: Submit, bounds: &PageBounds) -> Result<Answered, Refusal> {
        request.check_length(bounds.body, "limits.body")?;
        let Some(body) = request.body.take() else {
            return Err(refuse(
                Code::BadRequest,
                "the connection ended before the whole body had come",
            ));
        };
        let function = submit.function.clone();
        let passed = self.control.pass(
            submit,
            Paced::new(body, Some(request.pace)),
            upgrade(&request.parts.headers),
        );
        of_passed(passed, &function, &request.parts.method).await
    }
}

/// Returns the idempotency key of a request: a key belongs to the route, and to the credential that admitted the request.
fn key(
    (request, asked): (&IncomingRequest, &RequestFacts),
    route: &Route,
    admitted: &Admitted,
    body: &[u8],
) -> Option<IdempotencyKey> {
    let place = route.entry.idempotency.as_ref()?;
    let key = asked.with_facts(&request.parts.headers, body, |facts| conditions::key(facts, place))?;
    let owner = KeyOwner::Route {
        host: route.entry.host.as_deref(),
        path: &route.entry.path,
        credential: admitted.holder(),
    };
    let target = [request.parts.method.as_str(), &asked.raw_path, &asked.query].map(str::as_bytes);
    Some(IdempotencyKey::new(owner, &key, target.into_iter().chain([body])))
}

/// Says whether a route looks into the body before it runs anything.
fn reads_body(route: &Route) -> bool {
    let places = route.conditions.iter().map(conditions::Test::place);
    places.chain(&route.entry.idempotency).any(conditions::needs_body)
}

/// Returns the request to run a route's function, without its body.
fn prepared(
    request: &IncomingRequest,
    asked: &RequestFacts,
    (route, params): (&Rc<Route>, Vec<(String, String)>),
    admitted: &Admitted,
) -> Result<Submit, Refusal> {
    let headers = &request.parts.headers;
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
    let payload = Payload {
        content_type: request
            .header("content-type")?
            .filter(|text| !text.is_empty())
            .map(str::to_owned),
        trace: Trace::of(|name| joined(headers, name)),
        request: Some(Arc::new(HttpRequest {
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
            headers: given(headers, &withheld)?,
        })),
        ..Payload::default()
    };
    Ok(Submit {
        payload,
        wait: true,
        ..Submit::new(InvocationId(0), route.function.clone(), Trigger::Http)
    })
}
