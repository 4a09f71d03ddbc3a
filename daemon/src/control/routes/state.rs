//! `GET /v1/state`, `GET /v1/state/SCOPE` and `GET`, `PUT`, `DELETE /v1/state/SCOPE/KEY`: versioned values that functions
//! and people share. The key is the rest of the path, each segment percent-encoded.

use super::{OPERATOR, VIEWER};
use crate::control::call::ControlCall;
use crate::control::condition::condition;
use crate::control::limits::PAGE;
use crate::http::query::{decode, short};
use crate::http::request::bytes_of;
use crate::http::response::{Answered, Refusal, json, refuse, refuse_for_now, with_tag};
use fnd_core::api::problem::Code;
use fnd_core::json::is_too_deep;
use fnd_core::kv::{BYTES_MAX, KEYS_MAX, KvCondition, KvRefusal, KvRequest, KvResponse, PREFIX_MAX, VALUE_MAX};
use fnd_manifest::state_key::{StateKey, is_scope};
use fnd_wire::units::print_size;
use serde_json::value::RawValue;

pub(super) static ROUTES: &[super::ControlRoute] = &[
    route!(GET "/v1/state" Node VIEWER "state", scopes),
    route!(GET "/v1/state/{scope}" Node VIEWER "state", keys, Some(&["prefix", "after", "limit"])),
    route!(GET "/v1/state/{scope}/{key...}" Node VIEWER "state", get),
    route!(PUT "/v1/state/{scope}/{key...}" Node OPERATOR "set-state", put),
    route!(DELETE "/v1/state/{scope}/{key...}" Node OPERATOR "delete-state", delete),
];

pub(super) async fn scopes(call: ControlCall) -> Result<Answered, Refusal> {
    told(&call, KvRequest::Scopes, None).await
}

/// Lists a page of the keys of a scope.
pub(super) async fn keys(call: ControlCall) -> Result<Answered, Refusal> {
    let query = &call.query;
    let text = |text: &str| (text.len() <= PREFIX_MAX).then(|| text.to_owned());
    let ask = KvRequest::Keys {
        scope: call.state_scope()?.to_owned(),
        prefix: query.get("prefix", "the beginning of a key", text)?.unwrap_or_default(),
        after: query.get("after", "the cursor `next` of the page before", text)?,
        limit: query.count("limit", PAGE)?,
    };
    told(&call, ask, None).await
}

/// Returns a value with its version.
pub(super) async fn get(call: ControlCall) -> Result<Answered, Refusal> {
    let key = call.state_key()?;
    told(&call, KvRequest::Get(key.clone()), Some((&key, KvCondition::Any))).await
}

/// Sets a value, which is the body.
pub(super) async fn put(call: ControlCall) -> Result<Answered, Refusal> {
    let key = call.state_key()?;
    let condition = condition(&call, |number| number.parse().ok(), CONDITION)?;
    let body = call.read_body(VALUE_MAX, "the largest value of the state").await?;
    let value = value(&bytes_of(&body)?)?;
    let ask = KvRequest::Put {
        key: key.clone(),
        value,
        condition,
    };
    told(&call, ask, Some((&key, condition))).await
}

pub(super) async fn delete(call: ControlCall) -> Result<Answered, Refusal> {
    let key = call.state_key()?;
    let condition = condition(&call, |number| number.parse().ok(), CONDITION)?;
    if condition == KvCondition::New {
        let detail = "`If-None-Match` has no meaning for DELETE: `If-Match: \"VERSION\"` deletes only that version";
        return Err(refuse(Code::BadRequest, detail));
    }
    let ask = KvRequest::Delete {
        key: key.clone(),
        condition,
    };
    told(&call, ask, Some((&key, condition))).await
}

impl ControlCall {
    /// Returns the scope in the path.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if it has another form.
    pub(in crate::control) fn state_scope(&self) -> Result<&str, Refusal> {
        let scope = self.place(0);
        // `x` is a valid key, so only the scope can be wrong.
        match StateKey::new(scope, "x") {
            Ok(_) => Ok(scope),
            Err(expected) => Err(refuse(Code::BadRequest, format!("`{}`: {expected}", short(scope)))),
        }
    }

    /// Returns the scope and the key in the path.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if one has another form.
    pub(in crate::control) fn state_key(&self) -> Result<StateKey, Refusal> {
        let [scope, encoded] = self.places.as_slice() else {
            return Err(refuse(Code::NotFound, "this path names no key of the state"));
        };
        // A text that cannot be decoded becomes the empty key, which is refused.
        let key = decode(encoded).unwrap_or_default();
        StateKey::new(scope, &key).map_err(|expected| {
            let shown = if is_scope(scope) { encoded } else { scope };
            refuse(Code::BadRequest, format!("`{}`: {expected}", short(shown)))
        })
    }
}

/// Returns the value in a body: JSON, as it is written.
fn value(body: &[u8]) -> Result<String, Refusal> {
    // Parsers in the languages of functions fail on deeper values, and some of them crash.
    if is_too_deep(body) {
        return Err(refuse(Code::BadJson, "the value is nested too deep"));
    }
    match serde_json::from_slice::<&RawValue>(body) {
        // The text of the value is kept: a large number that is parsed and written again can become another number.
        Ok(value) => Ok(value.get().to_owned()),
        Err(error) => {
            let detail = format!("the value is not JSON: {error}; a text is JSON in quotes, such as `\"paid\"`");
            Err(refuse(Code::BadJson, detail))
        }
    }
}

/// The words about conditions on the key.
const CONDITION: (&str, &str) = ("sets a value only if the key has none", "7");

/// Sends a request to the store of values, and returns the answer. `about` is the key of the request and the condition on it, if
/// there is a key.
async fn told(
    call: &ControlCall,
    ask: KvRequest,
    about: Option<(&StateKey, KvCondition)>,
) -> Result<Answered, Refusal> {
    let told = call.backend.state.ask(ask).await.map_err(|why| {
        let why = crate::telemetry::escape(&why);
        refuse_for_now(Code::Unavailable, format!("the state cannot be used now: {why}"))
    })?;
    match told {
        Ok(KvResponse::Entry(entry)) => Ok(with_tag(json(&entry)?, &entry.version)),
        Ok(KvResponse::Written(written)) => Ok(with_tag(json(&written)?, &written.version)),
        Ok(KvResponse::Keys(keys)) => json(&keys),
        Ok(KvResponse::Scopes(scopes)) => json(&scopes),
        Err(why) => Err(refused(why, about)),
    }
}

fn refused(why: KvRefusal, about: Option<(&StateKey, KvCondition)>) -> Refusal {
    let key = about.map(|(key, _)| key.to_string()).unwrap_or_default();
    match why {
        KvRefusal::Missing => refuse(Code::NotFound, format!("the state has no key `{key}`")),
        KvRefusal::Conflict(current) => {
            let is = current.map_or("has no value".to_owned(), |version| format!("has version {version}"));
            let not = match about {
                Some((_, KvCondition::Version(expected))) => format!(", not {expected}"),
                _ => String::new(),
            };
            let detail = format!("`{key}` {is}{not}: nothing was changed; read it again, and repeat the change");
            refuse(Code::Conflict, detail)
        }
        KvRefusal::Keys => refuse(
            Code::StateFull,
            format!(
                "the state has {KEYS_MAX} keys, the most there may be: delete keys that are not needed (`fndctl state list` shows \
                 them)"
            ),
        ),
        KvRefusal::Bytes(more) => refuse(
            Code::StateFull,
            format!(
                "the state has no room for {more} more bytes: it holds at most {}; delete keys that are not needed (`fndctl \
                 state list` shows them)",
                print_size(BYTES_MAX)
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_state_says_what_to_do() {
        let refusal = |why| refused(why, None).problem;
        for (why, words) in [
            (KvRefusal::Keys, "the most there may be"),
            (KvRefusal::Bytes(7), "no room for 7 more bytes"),
        ] {
            let problem = refusal(why);
            assert_eq!((problem.status, problem.code.as_str()), (507, "state-full"));
            assert!(
                problem.detail.contains(words) && problem.detail.contains("fndctl state list"),
                "{problem:?}"
            );
        }
    }
}
