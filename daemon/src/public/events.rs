//! The route for events (`[http] events`): its path and its credentials come from the configuration.

use super::{Public, not_allowed};
use crate::backend::{EventOrigin, EventSender};
use crate::http::request::IncomingRequest;
use crate::http::response::{Answered, Refusal};
use crate::invoke::events::accept;
use crate::triggers::http::RequestFacts;
use fnd_core::access::Permissions;
use fnd_core::triggers::route::{Admits, Route};
use fnd_manifest::function::route::Method;

impl Public {
    /// Answers a request to the route for events.
    ///
    /// # Errors
    /// Every answer but 202 and 405.
    pub(super) async fn events(
        &self,
        request: IncomingRequest,
        asked: &RequestFacts,
        route: &Route,
        admits: &Admits,
    ) -> Result<Answered, Refusal> {
        let admits = admits.with(route);
        let admitted = self.admitted(&request, asked.caller, (Some(route), &admits));
        let (admitted, body) = admitted.await?;
        if asked.method != Some(Method::Post) {
            return Ok(not_allowed(&[Method::Post].into(), asked));
        }
        let limit = (route.body, "the largest limits.body of a subscriber");
        let body = request.read_body(&self.control.buffers(), body, limit).await?;
        let signature = self.signature(&admitted);
        signature.use_up().await?;
        let origin = EventOrigin {
            reach: Permissions::own(),
            sender: EventSender::Listener,
        };
        let answer = accept(&self.control, origin, (&request, body), None).await;
        if answer.is_err() {
            // The refused sender may send the same request again, with the same signature.
            signature.forget();
        }
        answer
    }
}
