//! Records each request: a line in the journal, counters, and the last calls of each route.

use crate::backend::Backend;
use crate::clock::monotonic;
use crate::http::listen::socket::Peer;
use crate::http::query::short;
use crate::http::response::{Answered, INVOCATION};
use crate::http::tunnel::TunnelCount;
use crate::triggers::http::Listener;
use fnd_core::report::{ReportEvent, RequestEnd, Upgraded};
use fnd_core::triggers::route::Route;
use fnd_wire::ids::InvocationId;
use hyper::body::Body as _;
use hyper::http::request::Parts;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A request that is being answered, or whose connection speaks another protocol since its answer. It is told of when
/// this is dropped; without an answer its caller has left.
pub(super) struct RouteAccess {
    listener: Rc<Listener>,
    control: Backend,
    begun: Instant,
    method: String,
    path: String,
    pub(super) caller: Option<IpAddr>,
    pub(super) route: Option<Rc<Route>>,
    /// Status and size of the answer.
    answer: Option<(u16, Option<u64>)>,
    /// How long it took until the answer began.
    took: Option<Duration>,
    /// The bytes after the answer, if another protocol follows it.
    passed: Option<Rc<TunnelCount>>,
    invocation: Option<InvocationId>,
}

impl RouteAccess {
    pub(super) fn begins(listener: &Rc<Listener>, control: &Backend, parts: &Parts, peer: &Peer) -> Self {
        Self {
            listener: Rc::clone(listener),
            control: control.clone(),
            begun: monotonic(),
            method: short(parts.method.as_str()),
            path: short(parts.uri.path()),
            caller: peer.address,
            route: None,
            answer: None,
            took: None,
            passed: None,
            invocation: None,
        }
    }

    /// Notes the run that an answer names.
    pub(super) fn ran(&mut self, answer: &Answered) {
        let id = answer.headers().get(INVOCATION).and_then(|id| id.to_str().ok());
        self.invocation = id.and_then(InvocationId::parse);
    }

    pub(super) fn answered(&mut self, answer: &Answered) {
        self.took = Some(self.begun.elapsed());
        self.answer = Some((answer.status().as_u16(), answer.body().size_hint().exact()));
    }

    /// Notes that another protocol follows the answer, and its bytes.
    pub(super) fn follows(mut self, passed: Rc<TunnelCount>) -> Self {
        self.passed = Some(passed);
        self
    }
}

impl Drop for RouteAccess {
    fn drop(&mut self) {
        let lasted = self.begun.elapsed();
        let took = self.took.unwrap_or(lasted);
        let status = self.answer.map(|(status, _)| status);
        if let (Some(route), Some(status)) = (&self.route, status) {
            self.listener.calls.borrow_mut().add(route, status, took);
        }
        let caller = self
            .caller
            .map_or_else(|| "unix".to_owned(), |caller| caller.to_string());
        let end = RequestEnd {
            route: self
                .route
                .as_ref()
                .map(|route| (&route.function, route.entry.path.as_str())),
            invocation: self.invocation,
            method: &self.method,
            path: &self.path,
            status,
            bytes: self
                .answer
                .and_then(|(_, bytes)| bytes)
                // The answer that switches protocols has no body. Its line has the bytes of both directions instead
                // (`upgraded`).
                .filter(|_| self.passed.is_none()),
            caller: &caller,
            took,
            upgraded: self.passed.as_ref().map(|passed| Upgraded {
                to_caller: passed.to_caller.get(),
                from_caller: passed.from_caller.get(),
                lasted: lasted.saturating_sub(took),
            }),
            is_logged: self.listener.logs.get(),
        };
        // The state is in use only if fnd ends and takes its connections with it.
        if let Ok(mut state) = self.control.daemon.state.try_borrow_mut() {
            state.report(ReportEvent::Requested(&end));
        }
    }
}
