//! The public listener: a request finds its route, proves who sends it, and runs a function.
//!
//! ```text
//! request ─▶ facts ─▶ core: route ─▶ admission.rs ─▶ submission.rs ─▶ answer
//!            host, path,               credentials      body, `when`,     │
//!            method, caller                             rate, submit      └─▶ access.rs: one line, counters
//! ```
//! The order is that of what a stranger may learn: without a credential every path has the same answer.
//!
//! Files:
//! - `access`: what is told of each request: a line in the journal, counters, the list of routes
//! - `admission`: who may call
//! - `events`: the route for events (`[http] events`)
//! - `submission`: what a request runs, and its answer

mod access;
mod admission;
mod events;
mod submission;

use crate::backend::Backend;

use crate::http::connections::{ConnectionOwner, Full, HttpConnection};
use crate::http::limits::{HttpLimits, Pace};
use crate::http::listen::socket::{AcceptedConnection, Peer};
use crate::http::request::{IncomingRequest, Unread, discard};
use crate::http::response::{Answered, Refusal, count, header, problem, refuse, refuse_for_now, whole, with_status};
use crate::http::server::{self, HttpService, ServerStop};
use crate::triggers::http::{LIMITS, Listener, RequestFacts, event_route};
use access::RouteAccess;
use fnd_core::api::problem::Code;
use fnd_core::triggers::route::{RouteMatch, Routes, cors};
use fnd_manifest::function::route::Method;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, HeaderValue, ORIGIN, VARY,
};
use std::rc::Rc;

/// The path that answers whether fnd serves.
const HEALTH: &str = "/healthz";

/// Returns a future that serves the public listener until it is stopped, and the handle that stops it.
pub(crate) fn serve(listener: &Rc<Listener>, control: Backend) -> (impl Future<Output = ()> + use<>, ServerStop) {
    let service = Public {
        listener: Rc::clone(listener),
        control,
    };
    server::serve("the public listener".to_owned(), listener.sockets.clone(), service)
}

struct Public {
    listener: Rc<Listener>,
    control: Backend,
}

impl HttpService for Public {
    type Caller = Peer;

    const LIMITS: HttpLimits = LIMITS;

    fn admit(&self, accepted: &AcceptedConnection) -> Result<(Peer, Rc<HttpConnection>), Option<Refusal>> {
        let peer = accepted.peer;
        let owner = match peer.address {
            // All clients of a trusted proxy come from one address: the limit of one client would stop them all.
            Some(address) if !self.listener.trusted.borrow().is_trusted(Some(address)) => ConnectionOwner::of(address),
            _ => ConnectionOwner::Exempt,
        };
        let place = self.listener.connections.admit(owner);
        Ok((peer, place.map_err(|full| Some(too_many(full)))?))
    }

    async fn answer(&self, peer: &Peer, request: hyper::Request<Incoming>) -> Answered {
        let (parts, body) = request.into_parts();
        let unread = Unread::new(&parts.headers, body);
        let mut access = RouteAccess::begins(&self.listener, &self.control, &parts, peer);
        let request = IncomingRequest {
            parts,
            body: Rc::clone(&unread),
            pace: Pace::REMOTE,
        };
        let buffers = self.control.daemon.state.borrow().callers.buffers.clone();
        // Dropped with this future if the caller leaves; `RouteAccess` then records a request without an answer.
        let answer = self.route(request, peer, &mut access).await;
        // A socket that is closed with unread bytes resets the connection, and the sender could lose the answer. So the rest of the
        // body is read first, also after a refusal.
        discard(&unread, Pace::REMOTE).await;
        let answer = answer.unwrap_or_else(|refusal| problem(&refusal));
        let mut answer = count(answer, &buffers).await;
        access.answered(&answer);
        if let Some(tunnel) = answer.body_mut().tunnel_mut() {
            tunnel.keep(|passed| access.follows(passed));
        }
        answer
    }

    fn ended(&self, peer: &Peer, error: &hyper::Error) {
        // The client went away, was too slow, or did not speak HTTP: not a fault of fnd.
        tracing::debug!(peer = ?peer.address, "a connection of the public listener ended: {error}");
    }
}

impl Public {
    async fn route(
        &self,
        request: IncomingRequest,
        peer: &Peer,
        access: &mut RouteAccess,
    ) -> Result<Answered, Refusal> {
        let asked = RequestFacts::read(&request.parts, peer, &self.listener.trusted.borrow())?;
        access.caller = asked.caller;
        if asked.path == HEALTH {
            return Ok(self.health(&asked));
        }
        let routes = self.control.routes();
        // The route says which credentials count. Until one holds, only the answer to a preflight depends on the route.
        let found = routes.find(&asked.host, &asked.path, asked.method);
        if let Some(answer) = preflight(&routes, &asked, &request) {
            return Ok(answer);
        }
        let route = match &found {
            RouteMatch::Route(route, _) => Some(route),
            RouteMatch::Methods(_) | RouteMatch::Nothing => None,
        };
        let events_max = || self.control.event_bytes_max();
        if let Some(route) = event_route(&self.listener, &asked, events_max) {
            return self.events(request, &asked, &route, routes.admits(&asked.host)).await;
        }
        let origin = request.parts.headers.get(ORIGIN).cloned();
        let admits = routes.admits(&asked.host);
        let admitted = self.admitted(&request, asked.caller, (route.map(|route| &***route), admits));
        let (proof, body) = admitted.await?;
        match found {
            RouteMatch::Route(route, params) => {
                access.route = Some(Rc::clone(route));
                let answer = self.submit((request, &asked), (route, params), (proof, body)).await;
                let answer = answer.unwrap_or_else(|refusal| problem(&refusal));
                access.ran(&answer);
                Ok(readable(answer, origin.as_ref(), route))
            }
            RouteMatch::Methods(methods) => Ok(not_allowed(&methods, &asked)),
            RouteMatch::Nothing => Err(refuse(Code::NotFound, "there is no route for this path")),
        }
    }

    /// Answers whether fnd serves; everybody may ask.
    fn health(&self, asked: &RequestFacts) -> Answered {
        if !matches!(asked.method, Some(Method::Get | Method::Head)) {
            return not_allowed(&[Method::Get, Method::Head].into(), asked);
        }
        match self.control.daemon.state.borrow().look().health() {
            Ok(()) => whole("text/plain; charset=utf-8", "ok\n"),
            // Strangers ask here, so the reason stays out of the answer. The control socket tells it.
            Err(_) => problem(&refuse_for_now(Code::Unavailable, "fnd cannot run functions now")),
        }
    }
}

/// Returns the answer to a preflight of a browser, which never has a credential; nothing if the request is none. A path
/// that has no route, or none for pages, is answered alike.
fn preflight(routes: &Routes, asked: &RequestFacts, request: &IncomingRequest) -> Option<Answered> {
    let headers = &request.parts.headers;
    let wanted = headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
    let origin = headers.get(ORIGIN).filter(|_| asked.method == Some(Method::Options))?;
    let mut answer = with_status(whole("text/plain; charset=utf-8", ""), StatusCode::NO_CONTENT);
    let method = wanted.to_str().ok().and_then(Method::parse);
    if let RouteMatch::Route(route, _) = routes.find(&asked.host, &asked.path, method)
        && let Some(allowed) = origin.to_str().ok().and_then(|origin| cors::allowed(route, origin))
    {
        let set = answer.headers_mut();
        set.insert(ACCESS_CONTROL_ALLOW_ORIGIN, header(allowed));
        set.insert(ACCESS_CONTROL_ALLOW_METHODS, header(&cors::methods(route)));
        if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            set.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        set.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    answer.headers_mut().insert(VARY, HeaderValue::from_static("origin"));
    Some(answer)
}

/// Lets the pages of a route's origins read an answer.
fn readable(mut answer: Answered, origin: Option<&HeaderValue>, route: &fnd_core::triggers::route::Route) -> Answered {
    if route.entry.cors.is_empty() {
        return answer;
    }
    let headers = answer.headers_mut();
    // Without this header a cache could give the answer for one origin to the pages of another.
    headers.append(VARY, HeaderValue::from_static("origin"));
    let origin = origin.and_then(|origin| origin.to_str().ok());
    if let Some(allowed) = origin.and_then(|origin| cors::allowed(route, origin)) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, header(allowed));
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("fnd-invocation, fnd-skipped"),
        );
    }
    answer
}

/// Returns the answer to a method that a path does not have; for OPTIONS that of a path which has it by fnd.
fn not_allowed(methods: &std::collections::BTreeSet<Method>, asked: &RequestFacts) -> Answered {
    let mut listed: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    listed.push("OPTIONS");
    listed.dedup();
    let listed = listed.join(", ");
    if asked.method == Some(Method::Options) {
        let mut answer = with_status(whole("text/plain; charset=utf-8", ""), StatusCode::NO_CONTENT);
        answer.headers_mut().insert(ALLOW, header(&listed));
        return answer;
    }
    let mut refusal = refuse(
        Code::MethodNotAllowed,
        format!("this path has the methods {listed}; a route has those of its key `methods`"),
    );
    refusal.allow = Some(listed);
    problem(&refusal)
}

/// Returns the refusal of a connection because of too many others.
fn too_many(full: Full) -> Refusal {
    let detail = match full {
        Full::All => "too many connections are open ([http] connections)",
        Full::One(_) => "your address has too many connections open ([http] connections_per_address)",
    };
    refuse_for_now(Code::TooManyConnections, detail)
}
