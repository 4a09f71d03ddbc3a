//! The public listener as the configuration and the secrets make it. `crate::public` answers its requests.
//!
//! Files:
//! - `dry_run`: what would become of a request
//! - `keyring`: the secrets, ready to verify credentials
//! - `listener`: the addresses, TLS and limits of the configuration
//! - `request_facts`: the facts of a request that its route depends on
//! - `route_calls`: the last calls of each route

mod dry_run;
mod keyring;
mod listener;
mod request_facts;
mod route_calls;

pub(crate) use keyring::Keyring;
pub(crate) use listener::{LIMITS, Listener};
pub(crate) use request_facts::RequestFacts;

use fnd_core::triggers::credentials::Headers;
use fnd_core::triggers::route::{Route, path};
use fnd_manifest::function::HttpRoute;
use hyper::header::HeaderMap;

/// The headers of a request, for the verification of credentials.
pub(crate) struct CredentialHeaders<'a>(pub(crate) &'a HeaderMap);

impl Headers for CredentialHeaders<'_> {
    fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0.get_all(name).iter().map(hyper::header::HeaderValue::as_bytes)
    }
}

/// Returns the route for events, if a request has its path; `body` is the most bytes that it takes.
pub(crate) fn event_route(listener: &Listener, asked: &RequestFacts, body: impl FnOnce() -> u64) -> Option<Route> {
    let events = listener.events.borrow();
    let events = events.as_ref()?;
    if path::normal(&events.path).ok()? != asked.path {
        return None;
    }
    let entry = HttpRoute::of_fnd(events.path.clone(), events.auth.clone());
    Some(Route::of_events(entry, body()))
}
