//! The headers `If-Match` and `If-None-Match` of a change, and `If-None-Match` of a list.

use super::call::ControlCall;
use crate::http::query::short;
use crate::http::response::{Refusal, refuse};
use fnd_core::api::problem::Code;
use fnd_core::kv::KvCondition;
use hyper::header::{IF_MATCH, IF_NONE_MATCH};

/// Returns the requirement of the request. `version` reads the text between the quotes of `If-Match`; for a refused
/// header, `new` is the meaning of `If-None-Match: *`, and `example` a version.
pub(super) fn condition<V>(
    call: &ControlCall,
    version: impl FnOnce(&str) -> Option<V>,
    (new, example): (&str, &str),
) -> Result<KvCondition<V>, Refusal> {
    let (matching, none) = (call.request.header(&IF_MATCH)?, call.request.header(&IF_NONE_MATCH)?);
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

/// Returns whether the caller of a list has the one with this tag already, or any (`*`): RFC 9110, section 13.1.2.
pub(super) fn has_list(call: &ControlCall, tag: &str) -> Result<bool, Refusal> {
    let Some(text) = call.request.header(&IF_NONE_MATCH)? else {
        return Ok(false);
    };
    if text == "*" {
        return Ok(true);
    }
    match tags(text) {
        Some(tags) => Ok(tags.contains(&tag)),
        None => Err(refuse(
            Code::BadRequest,
            format!(
                "`If-None-Match: {}`: expected `*`, or tags as the header `ETag` has them, such as `W/\"{tag}\"`",
                short(text)
            ),
        )),
    }
}

/// Returns the tags of a list of them, without `W/` and quotes: `If-None-Match` compares weakly (RFC 9110, section 8.8.3.2). Returns
/// nothing if the text is no such list.
fn tags(text: &str) -> Option<Vec<&str>> {
    let mut tags = Vec::new();
    let mut rest = text.trim_matches([' ', '\t', ',']);
    loop {
        // A tag may contain commas, so the text cannot be split at them.
        let inside = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, behind) = inside.split_once('"')?;
        tags.push(tag);
        let behind = behind.trim_start();
        if behind.is_empty() {
            return Some(tags);
        }
        // RFC 9110 lets a list have empty elements (section 5.6.1).
        rest = behind.strip_prefix(',')?.trim_start_matches([' ', '\t', ',']);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tags_is_read_as_rfc_9110_says() {
        for (text, expected) in [
            (r#""a""#, Some(&["a"][..])),
            (r#"W/"a""#, Some(&["a"])),
            (r#""a", W/"b,c" ,"""#, Some(&["a", "b,c", ""])),
            (r#", "a",, "b","#, Some(&["a", "b"])),
            ("", None),
            (",", None),
            ("a", None),
            (r#""a"#, None),
            (r#"w/"a""#, None),
            (r#""a" "b""#, None),
            (r#"*, "a""#, None),
        ] {
            assert_eq!(tags(text).as_deref(), expected, "{text}");
        }
    }
}
