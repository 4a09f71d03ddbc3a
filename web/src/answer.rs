//! Answers with status and headers, made of documents, addresses and bytes.

use crate::api::Failure;
use crate::assets;
use crate::guard::is_local;
use crate::http::{Method, Response};
use crate::notice;
use crate::stream::{Body, whole};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFRESH};
use maud::Markup;

/// The answer to a request.
pub(crate) type Answer = hyper::Response<Body>;

/// Returns what a page answers.
pub(crate) fn answer_of(response: Response, method: Method) -> Answer {
    match response {
        Response::Page { status, markup } => document(status, markup),
        Response::Redirect(address) => redirect(if is_local(&address) { &address } else { "/" }),
        Response::Raw {
            content_type,
            file_name,
            body,
        } => {
            let mut answer = with_type(StatusCode::OK, content_type, whole(body));
            let disposition = file_name.map(|name| format!("attachment; filename=\"{}\"", plain(&name)));
            let disposition = disposition.and_then(|value| header(CONTENT_DISPOSITION, &value));
            answer.headers_mut().extend(disposition);
            answer
        }
        Response::Failed(failure) => failed(&failure, method),
    }
}

/// Returns a file name without characters that have a meaning in a header or a path.
fn plain(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    name.chars()
        .map(|character| if plain(character) { character } else { '_' })
        .collect()
}

/// Returns the file at a path, which a browser may keep: another content has another address.
pub(crate) fn asset(path: &str) -> Answer {
    let Some(asset) = assets::answer(path) else {
        return failed(&Failure::no_page(), Method::Get);
    };
    let mut answer = answer_of(asset, Method::Get);
    let forever = HeaderValue::from_static("private, max-age=31536000, immutable");
    answer.headers_mut().insert(CACHE_CONTROL, forever);
    answer
}

/// Returns the document of a refusal of the server itself.
pub(crate) fn refused(status: u16, message: &str) -> Answer {
    failed(&Failure::page(status, message), Method::Post)
}

/// Returns the document of a failure.
pub(crate) fn failed(failure: &Failure, method: Method) -> Answer {
    // A form that is sent again by itself would be another action.
    let returns = method == Method::Get && failure.status() == 503;
    let mut answer = document(failure.status(), notice::failure(failure, returns));
    if returns {
        answer.headers_mut().insert(REFRESH, HeaderValue::from_static("5"));
    }
    answer
}

pub(crate) fn document(status: u16, markup: Markup) -> Answer {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_type(status, "text/html; charset=utf-8", whole(markup.into_string()))
}

/// Returns an answer that leads to an address.
pub(crate) fn redirect(address: &str) -> Answer {
    let mut answer = hyper::Response::new(whole(""));
    *answer.status_mut() = StatusCode::SEE_OTHER;
    answer.headers_mut().extend(header(LOCATION, address));
    answer
}

/// Returns an answer of a type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut answer = hyper::Response::new(body);
    *answer.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// Returns a header; nothing if the text cannot be one.
pub(crate) fn header(name: HeaderName, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name, HeaderValue::try_from(value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::api::Problem;
    use fnd_core::api::problem::Code;

    #[test]
    fn only_a_page_that_was_read_comes_back_by_itself() {
        let missing = Failure::NotReached {
            message: "fnd is stopped".to_owned(),
            help: None,
        };
        let busy = Failure::Refused(Box::new(Problem::new(Code::TooManyConnections, "too many")));
        for (failure, method, expected) in [
            (&missing, Method::Get, true),
            (&busy, Method::Get, true),
            (&missing, Method::Post, false),
            (&Failure::no_page(), Method::Get, false),
        ] {
            let answer = failed(failure, method);
            assert_eq!(answer.headers().contains_key(REFRESH), expected, "{failure:?}");
            let says_so = notice::failure(failure, expected).into_string().contains("tries again");
            assert_eq!(says_so, expected, "{failure:?}");
        }
    }

    #[test]
    fn a_file_name_cannot_break_a_header() {
        assert_eq!(plain("run-1.log"), "run-1.log");
        assert_eq!(plain("../a\"\r\nb é"), ".._a___b__");
        assert!(header(LOCATION, "/a\r\nset-cookie: b").is_none());
    }
}
