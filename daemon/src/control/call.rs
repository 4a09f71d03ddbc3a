//! A request whose route was found, with all that its route needs.

use super::limits::BODY_MAX;
use super::refusal::{failed, no_invocation};
use crate::backend::Backend;
use crate::http::query::{Query, short};
use crate::http::request::{IncomingRequest, RequestBody, bytes_of};
use crate::http::response::{Refusal, refuse};
use fnd_core::access::Permissions;
use fnd_core::api::InvocationView;
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::records::Caller;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::{FunctionName, InvocationId};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// A function that sends a request.
#[derive(Debug, Clone)]
pub(super) struct RequestingFunction {
    pub(super) function: FunctionName,
    /// The manifest of the version that serves.
    pub(super) manifest: Arc<Manifest>,
}

/// A request whose route was found.
pub(super) struct ControlCall {
    pub(super) backend: Rc<Backend>,
    /// The roles of the caller. Its role is great enough for the function or the node that the route is about; a list
    /// has to be reduced to what the caller may view.
    pub(super) reach: Permissions,
    pub(super) caller: Caller,
    /// Set if a run is requested whose record has the caller, so that the call needs no entry in the audit.
    pub(super) is_in_record: Rc<Cell<bool>>,
    /// The function that sends the request, if one does.
    pub(super) granted: Option<RequestingFunction>,
    pub(super) request: IncomingRequest,
    /// The parameters of the request, if the table of routes names those that its route has.
    pub(super) query: Query,
    /// The values of `{...}` in the path, decoded, in order.
    pub(super) places: Vec<String>,
}

impl ControlCall {
    /// Returns the function in the path.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the text is not a valid name.
    pub(super) fn function(&self) -> Result<FunctionName, Refusal> {
        // A text that is no name is the name of no function.
        FunctionName::new(self.place(0)).map_err(|error| refuse(Code::NotFound, error.to_string()))
    }

    /// Returns the value of a `{...}` in the path.
    pub(super) fn place(&self, number: usize) -> &str {
        self.places.get(number).map_or("", String::as_str)
    }

    /// Returns the invocation in the path.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the text is not a valid id.
    pub(super) fn invocation(&self) -> Result<InvocationId, Refusal> {
        let text = self.place(0);
        InvocationId::parse(text).ok_or_else(|| {
            let detail = format!("`{}` is not an id of an invocation (a UUID)", short(text));
            refuse(Code::NotFound, detail)
        })
    }

    /// Returns an invocation with its attempts.
    ///
    /// # Errors
    /// There is no such invocation, or the history cannot be read.
    pub(super) async fn known_invocation(&self, id: InvocationId) -> Result<InvocationView, Refusal> {
        let view = self.backend.invocation(id).await.map_err(failed("read the history"))?;
        view.ok_or_else(|| no_invocation(id))
    }

    /// Returns the body, which has a limit for bodies that are not data of functions, as a value of this `form`.
    ///
    /// # Errors
    /// As [`IncomingRequest::read_body`]; [`Code::BadJson`] if the body is not such a value in JSON.
    pub(super) async fn read_json<T: DeserializeOwned>(&self, form: &str) -> Result<T, Refusal> {
        let body = self.read_body(BODY_MAX, "the limit of this route").await?;
        serde_json::from_slice(&bytes_of(&body)?).map_err(|error| {
            let detail = format!("the body is not `{form}` in JSON: {error}");
            refuse(Code::BadJson, detail)
        })
    }

    /// Returns the whole body, in memory or on the disk, as the memory budget allows.
    ///
    /// # Errors
    /// As [`IncomingRequest::read_body`].
    pub(super) async fn read_body(&self, limit: u64, limit_name: &str) -> Result<Data, Refusal> {
        let (buffers, limit) = (self.backend.buffers(), (limit, limit_name));
        self.request.read_body(&buffers, RequestBody::OfKnown, limit).await
    }
}
