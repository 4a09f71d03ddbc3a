//! The headers `If-Match` and `If-None-Match` of a change.

use super::call::ControlCall;
use crate::http::request::short;
use crate::http::response::{Refusal, refuse};
use fnd_core::api::problem::Code;
use fnd_core::kv::KvCondition;

/// Returns the requirement of the request. `version` reads the text between the quotes of `If-Match`; for a refused
/// header, `new` is the meaning of `If-None-Match: *`, and `example` a version.
pub(super) fn condition<V>(
    call: &ControlCall,
    version: impl FnOnce(&str) -> Option<V>,
    (new, example): (&str, &str),
) -> Result<KvCondition<V>, Refusal> {
    let (matching, none) = (call.request.header("if-match")?, call.request.header("if-none-match")?);
    let wrong = |detail: String| Err(refuse(Code::BadRequest, detail));
    match (matching, none) {
        (None, None) => Ok(KvCondition::Any),
        (None, Some("*")) => Ok(KvCondition::New),
        (None, Some(other)) => wrong(format!(
            "`If-None-Match: {}`: only `*` is possible, which {new}",
            short(other)
        )),
        // They can never both hold: one asks for a version, the other for none.
        (Some(_), Some(_)) => wrong("`If-Match` and `If-None-Match` exclude each other".to_owned()),
        (Some(text), None) => {
            // `If-Match` compares strongly (RFC 9110, section 13.1.1), so a weak tag (`W/"..."`) could never match.
            let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            match inside.and_then(version) {
                Some(version) => Ok(KvCondition::Version(version)),
                None => wrong(format!(
                    "`If-Match: {}`: expected a version in quotes, such as `If-Match: \"{example}\"`, as the header `ETag` has it",
                    short(text)
                )),
            }
        }
    }
}
