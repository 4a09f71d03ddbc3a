//! Decides which requests a function may send to its socket: those that `[access]` of its manifest lists, and those
//! about the invocations that it has called. Everything else is refused, with what to write into the manifest.

use super::call::{ControlCall, RequestingFunction};
use super::refusal::failed;
use crate::backend::Backend;
use crate::http::query::short;
use crate::http::response::{INVOCATION, Refusal, refuse};
use crate::invoke::events::Emitter;
use crate::invoke::payload::trace;
use crate::invoke::refusal::rejected;
use fnd_core::api::problem::Code;
use fnd_core::records::cause::Cause;
use fnd_core::run::Calling;
use fnd_manifest::function::AccessRule;
use fnd_wire::ids::InvocationId;
use hyper::Method;
use std::sync::Arc;

impl RequestingFunction {
    fn access(&self) -> &AccessRule {
        &self.manifest.access
    }

    /// Checks whether the function may send a request of this method to the route of this path.
    ///
    /// # Errors
    /// It may not.
    pub(super) async fn check(&self, call: &ControlCall, method: &Method, path: &str) -> Result<(), Refusal> {
        let Self { function, .. } = self;
        let refused = |why: String| Err(refuse(Code::NotAllowed, why));
        match (method.as_str(), path.strip_prefix("/v1/").unwrap_or(path)) {
            (_, "/healthz") => Ok(()),
            ("POST", "functions/{function}/invoke" | "functions/{function}/invocations")
            | (_, "functions/{function}/http/{path...}") => {
                let called = call.function()?;
                if self.access().may_invoke(&called) {
                    return Ok(());
                }
                refused(format!(
                    "`{function}` may not call `{called}`: write `invoke = [\"{called}\"]` into `[access]` of its manifest"
                ))
            }
            // The types are known when the body is read.
            ("POST", "events" | "/publish") => Ok(()),
            // The handler reads the subject.
            ("POST", "nats/publish") => Ok(()),
            ("GET", "invocations/{id}" | "invocations/{id}/result") | ("POST", "invocations/{id}/cancel") => {
                let id = call.invocation()?;
                if self.has_called(&call.backend, id).await? {
                    return Ok(());
                }
                refused(format!(
                    "`{function}` has called no invocation {id}, and sees only those that it has called"
                ))
            }
            (_, "state/{scope}/{key...}") => {
                let key = call.state_key()?;
                if self.access().may_use(&key) {
                    return Ok(());
                }
                refused(format!(
                    "`{function}` may not use the key `{key}` of the state: write `state = [\"{key}\"]` into `[access]` of its \
                     manifest"
                ))
            }
            ("GET", "state/{scope}") => {
                let scope = call.state_scope()?;
                let query = call.request.query(&["prefix", "after", "limit"])?;
                let prefix = query.all("prefix").next().unwrap_or_default();
                // The pattern has to cover the prefix, because all keys behind it are shown.
                if self.access().may_list(&format!("{scope}/{prefix}")) {
                    return Ok(());
                }
                refused(format!(
                    "`{function}` may not list these keys of the state: write `state = [\"{scope}/{}*\"]` into `[access]` of its \
                     manifest, or list only keys with a beginning that it may use (`prefix`)",
                    short(prefix)
                ))
            }
            ("GET", "state") => {
                if self.access().may_list("") {
                    return Ok(());
                }
                refused(format!(
                    "`{function}` may not list the scopes of the state: write `state = [\"*\"]` into `[access]` of its manifest"
                ))
            }
            // A list of what is allowed, so a new route of the API is closed to functions until it is listed above.
            _ => refused(format!(
                "functions may only call functions, send events, use the state, and see and cancel what they have called; `{method} {}` is \
                 for people",
                short(path)
            )),
        }
    }

    /// Checks whether the function may publish messages to a subject of NATS: its manifest allows them as events of the type
    /// `nats.SUBJECT`, which is the type that receivers see.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn check_subject(&self, backend: &Backend, subject: &str) -> Result<(), Refusal> {
        let may_emit = self.access().may_emit(&format!("nats.{subject}"));
        let (function, subject) = (&self.function, short(subject));
        let refused = |why: String| Err(refuse(Code::NotAllowed, why));
        if !may_emit {
            return refused(format!(
                "`{function}` may not publish to `{subject}`: write `emit = [\"nats.{subject}\"]` into `[access]` of its manifest"
            ));
        }
        if !backend.may_publish(function) {
            return refused(format!(
                "`{function}` may not publish to `{subject}`: its author may not operate every function, and a message may run each of \
                 them"
            ));
        }
        Ok(())
    }

    async fn has_called(&self, backend: &Backend, id: InvocationId) -> Result<bool, Refusal> {
        let view = backend.invocation(id).await.map_err(failed("read the history"))?;
        // An id that does not exist gets the answer of one of somebody else, so ids can't be tried out.
        let cause = view.and_then(|view| view.cause);
        Ok(matches!(cause, Some(Cause::Call(call)) if call.function == self.function))
    }

    /// Returns the function as a caller; the header `Fnd-Invocation` names the invocation.
    ///
    /// # Errors
    /// The header is no id.
    pub(super) fn calling(&self, call: &ControlCall) -> Result<Calling, Refusal> {
        let named = call.request.header(&INVOCATION)?;
        let id = |text: &str| {
            let wrong = || refuse(Code::BadRequest, format!("`Fnd-Invocation: {}` is no id", short(text)));
            InvocationId::parse(text).ok_or_else(wrong)
        };
        Ok(Calling {
            function: self.function.clone(),
            invocation: named.map(id).transpose()?,
        })
    }

    /// Returns the function as a sender of events.
    ///
    /// # Errors
    /// As [`Self::calling`], or the chain of calls is too long.
    pub(super) fn emitter(&self, call: &ControlCall) -> Result<Emitter, Refusal> {
        // An event has a number in the chain of calls: otherwise a function that sends the event that runs it would
        // never end.
        let depth = call
            .backend
            .call_depth(&self.calling(call)?, trace(&call.request).as_ref());
        Ok(Emitter {
            function: self.function.clone(),
            manifest: Arc::clone(&self.manifest),
            depth: depth.map_err(|rejection| rejected(&rejection, &self.function))?,
        })
    }
}
