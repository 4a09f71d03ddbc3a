//! Error codes of the control API, with their HTTP status and their meaning. The server, `fndctl`'s exit codes and
//! `fndctl explain` all use this one table.

use crate::records::outcome::Reason;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::payload_schema::PayloadMistake;
use fnd_manifest::text;
use fnd_wire::ids::{FunctionName, InvocationId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why a request was refused or failed, as RFC 9457 describes it. `fndctl explain CODE` explains a code.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `about:blank`.
    pub r#type: String,
    /// Text of the HTTP status.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// Stable code for programs.
    #[schemars(with = "Code")]
    pub code: String,
    /// What happened and what to do.
    pub detail: String,
    /// The function concerned.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub function: Option<FunctionName>,
    /// The invocation concerned.
    #[serde(skip_serializing_if = "Option::is_none", default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub invocation: Option<InvocationId>,
    /// The invocation's reason, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The problems of a file that was refused.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub diagnostics: Vec<Diagnostic>,
    /// The places of a payload that do not match the schema of the function, at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub input: Vec<PayloadMistake>,
}

/// Defines the codes: each has a comment, a text form, an HTTP status, and a meaning for people.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $word:literal, $status:literal, $meaning:literal;)+) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $code,)+
        }

        impl Code {
            /// Returns every code, in the order of their definition.
            pub fn all() -> impl Iterator<Item = Self> {
                [$(Self::$code),+].into_iter()
            }

            /// Returns the code's text form.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $word,)+
                }
            }

            /// Returns the HTTP status.
            #[must_use]
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$code => $status,)+
                }
            }

            /// Returns the meaning and the advice, in sentences.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$code => $meaning,)+
                }
            }
        }
    };
}

codes! {
    /// The request is invalid: a header, a parameter, or a head that cannot be parsed.
    BadRequest = "bad-request", 400,
        "A header or parameter of the request is wrong; the detail names it.";
    /// The body is declared as JSON and is not JSON.
    BadJson = "bad-json", 400,
        "The content type of the body is JSON, but the body is not valid JSON. Nothing ran. Send text as `text/plain`.";
    /// The request has no credential that holds.
    Unauthorized = "unauthorized", 401,
        "The request has no credential that holds for a route of its host; `fndctl routes test` says why. The answer is the same for every path, known or not.";
    /// The same signed request was admitted before.
    Replayed = "replayed", 409,
        "A request with the same signature and the same signed time was admitted before. Nothing ran. A sender's retry has a new time.";
    /// The peer's role does not allow the request.
    NotAllowed = "not-allowed", 403,
        "`[[access]]` of `fnd.toml` gives the user's groups no role, or one that may not do this. Viewers read; operators also invoke, cancel, enable and disable; admins do everything; root is admin.";
    /// A function calls a function, and the chain of such calls would be too long.
    ChainTooLong = "chain-too-long", 403,
        "A function called a function that called a function, and so on: a chain of such calls, with those of hooks, has at most eight. Nothing ran. `fndctl show ID` shows the chain.";
    /// A function would wait for a call that waits for the function itself.
    WaitsForItself = "waits-for-itself", 409,
        "A function would wait for a call of a function that waits for this very call, directly or by others, and all places of that function are taken. Nothing ran. Queue the call (`--async`), or raise `pool.max`.";
    /// No such path, function or invocation.
    NotFound = "not-found", 404,
        "There is no such function, invocation or path; an invocation may have been deleted from the history.";
    /// A part of fnd that `fnd.toml` does not turn on.
    NotConfigured = "not-configured", 404,
        "`fnd.toml` does not turn on what the request is about; the detail names the table, such as `[events.nats]`.";
    /// A path or parameter of a later version of fnd.
    NotSupportedYet = "not-supported-yet", 404,
        "This version of fnd does not support the request yet.";
    /// The path exists, but not with this method.
    MethodNotAllowed = "method-not-allowed", 405,
        "The path has other methods, which the header `Allow` lists.";
    /// The function's timeout or the invocation's deadline was reached.
    Timeout = "timeout", 408,
        "The attempt did not end within `limits.timeout` or the caller's shorter timeout, or the invocation did not end within `limits.deadline`. The function got SIGTERM and is killed after `limits.grace`.";
    /// The body of the request did not arrive in time.
    SlowRequest = "slow-request", 408,
        "The body of the request did not arrive in time. Nothing ran.";
    /// The invocation has not ended.
    NotEnded = "not-ended", 409,
        "The invocation has not ended, so it has no result yet. Wait for it with `GET /v1/invocations/ID?wait=30s`.";
    /// The invocation's payload was not kept.
    NotKept = "not-kept", 409,
        "The payload of the invocation is not stored, so it cannot be repeated. fnd keeps the payloads of asynchronous invocations and of failed ones, but not of synchronous calls that succeeded.";
    /// A key of the state, or a function, has another version than the request expects.
    Conflict = "conflict", 409,
        "The key of the state, or the function, has another version than the request expects, since somebody else has changed it, or is changing it now; the detail says which. Nothing was changed. Read it again, and repeat the change with its new version.";
    /// The files of the function lie in a functions directory that the API does not change.
    NotUploaded = "not-uploaded", 409,
        "The files of the function were not uploaded: they lie in a functions directory that only the people change who can write it. The detail has the command. Nothing was changed.";
    /// A release serves already, is not held, or could not be installed or loaded.
    Release = "release", 409,
        "A release serves already, none is held, or it could not be installed or loaded; the detail says which.";
    /// The body is larger than the limit.
    TooLarge = "too-large", 413,
        "The body is larger than `limits.body` of the function, or than the control socket accepts.";
    /// No subscriber takes the data of an event.
    Unprocessable = "unprocessable", 422,
        "No function that subscribes to the event takes its data: it does not match their `schema`. The detail names the place in the data. Nothing ran.";
    /// The payload does not match the schema of the function.
    Input = "input", 422,
        "The payload does not match `[input] schema` of the function. `input` has each place as a JSON pointer, with what was expected; `fndctl show F` lists the fields. Nothing ran.";
    /// The idempotency key has come with another request.
    KeyReused = "key-reused", 422,
        "The caller has sent this idempotency key before, with another request: another body, path or query. Nothing ran. A key stands for one request; give the new one a key of its own.";
    /// The files of an upload are refused.
    InvalidManifest = "invalid-manifest", 422,
        "The uploaded files are refused; `diagnostics` has every problem with its place. Nothing was changed: the version before serves.";
    /// The function's queue is full.
    QueueFull = "queue-full", 429,
        "The queue is full: `queue.max` invocations are waiting. Try again later, or raise `queue.max` or `pool.max`.";
    /// The function's rate limit was reached.
    Rate = "rate", 429,
        "There were more requests than `queue.rate` allows. Try again after the time in `Retry-After`.";
    /// The function's overlap policy `reject`: another invocation is running.
    Overlap = "overlap", 429,
        "Another invocation is running and `queue.overlap` is `reject`. Nothing was recorded.";
    /// The caller's headers exceed the limit for functions.
    HeadersTooLarge = "headers-too-large", 431,
        "The caller's own headers are larger than 16 KiB, the most that a function gets. Nothing ran.";
    /// The function failed.
    FunctionFailed = "function-failed", 500,
        "The function ran and failed; `reason` and `detail` say how. Its output: `fndctl logs --id ID`.";
    /// The invocation was cancelled.
    Cancelled = "cancelled", 500,
        "The invocation was cancelled.";
    /// fnd has failed.
    Internal = "internal", 500,
        "fnd failed. Its journal says why; search it for the request id in the detail.";
    /// The function gave no valid answer.
    BadAnswer = "bad-answer", 502,
        "The function ended without an error, but gave no valid answer, or one larger than `limits.result`.";
    /// The function is disabled.
    Disabled = "disabled", 503,
        "The function is disabled, by its manifest or by a person. `fndctl enable F` enables it.";
    /// The function has no version that could run.
    Invalid = "invalid", 503,
        "The function has no version that can run: its file is invalid. `fndctl show F` says why.";
    /// The invocation was never started.
    Skipped = "skipped", 503,
        "The invocation was accepted but never started; `reason` says why.";
    /// The function could not be started, or fnd, the spawner or the machine went down while it ran.
    CouldNotRun = "could-not-run", 503,
        "The function could not be started, or fnd, its spawner or the machine went down while it ran.";
    /// fnd is draining or stopping, or has no spawner.
    Unavailable = "unavailable", 503,
        "fnd is draining, stopping, or has lost its spawner.";
    /// Too many connections.
    TooManyConnections = "too-many-connections", 503,
        "Too many connections are open and none of them is idle.";
    /// The state has no room for a value.
    StateFull = "state-full", 507,
        "The state has room for 100,000 keys and 256 MiB. Nothing was changed. `fndctl state list` shows which scopes use most; delete keys that are not needed.";
    /// The function's home or cache is over its quota.
    OverQuota = "over-quota", 507,
        "The home or the cache of the function has more bytes than `limits.home` or `limits.cache` allows. Nothing ran. Remove files, or raise the limit: the next request a moment later has fnd measure again.";
}

impl Code {
    /// Parses the text form of a code.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::all().find(|code| code.as_str() == text)
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "ProblemCode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words = Self::all().map(|code| (code.as_str(), code.meaning()));
        fnd_manifest::words::schema("A stable error code.", words)
    }
}

/// Returns the text of an HTTP status.
#[must_use]
pub fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        _ => "Error",
    }
}

impl Problem {
    /// Returns the problem with a code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            r#type: "about:blank".to_owned(),
            title: title(code.status()).to_owned(),
            status: code.status(),
            code: code.as_str().to_owned(),
            detail: detail.into(),
            function: None,
            invocation: None,
            reason: None,
            diagnostics: Vec::new(),
            input: Vec::new(),
        }
    }

    /// Sets the function concerned.
    #[must_use]
    pub fn of(mut self, function: &FunctionName) -> Self {
        self.function = Some(function.clone());
        self
    }

    /// Sets the invocation concerned, and its reason if it has ended.
    #[must_use]
    pub fn in_invocation(mut self, id: InvocationId, reason: Option<Reason>) -> Self {
        self.invocation = Some(id);
        self.reason = reason;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_a_status_and_a_meaning() {
        for code in Code::all() {
            assert_eq!(Code::parse(code.as_str()), Some(code));
            assert_ne!(title(code.status()), "Error", "{code:?}");
            assert!(code.meaning().ends_with('.'), "{code:?}");
        }
    }
}
