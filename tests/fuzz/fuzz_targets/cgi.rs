//! Any bytes as what a CGI script printed, and any text as a request: an answer has no header that a browser would read
//! another way, and the spawner accepts every variable.
#![no_main]

use fnd_core::records::protocol::HttpRequest;
use fnd_core::triggers::cgi::{VARIABLES_MAX, read, variables};
use fnd_wire::plan::may_be_given;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((answer, at)) = read(bytes) {
        assert!(bytes[..at].ends_with(b"\n"));
        assert!(answer.status.is_none_or(|status| (200..600).contains(&status)));
        let texts = answer.headers.iter().flat_map(|(name, value)| [name, value]);
        for text in texts.chain(&answer.content_type) {
            assert!(!text.contains(['\r', '\n', '\0']));
        }
    }
    // The lines of a text are the parts of a request.
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n').map(str::to_owned);
    let mut next = || lines.next().unwrap_or_default();
    let mut request = HttpRequest {
        method: next(),
        path: next(),
        route: next(),
        query: next(),
        host: next(),
        params: vec![(next(), next())],
        ..HttpRequest::default()
    };
    request.headers = lines
        .filter_map(|line| {
            line.split_once(':')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect();
    let mut names = std::collections::HashSet::new();
    let mut total = 0;
    for (name, value) in variables(&request, None, Some(7)) {
        assert!(may_be_given(&name) && !value.contains('\0'), "{name}");
        total += name.len() + value.len() + 2;
        assert!(names.insert(name), "a variable is there twice");
    }
    assert!(total <= VARIABLES_MAX);
});
