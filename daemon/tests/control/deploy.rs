//! What an upload and a removal answer: statuses, codes and headers.

use crate::fake::Running;
use crate::http::{ask, get};

const FORM: &str =
    "--x\r\nContent-Disposition: form-data; name=\"source\"; filename=\"a.py\"\r\n\r\nprint()\r\n--x--\r\n";

#[test]
fn each_outcome_has_a_status_and_a_code() {
    let server = Running::start();
    let version = format!("\"sha256:{}\"", "ab".repeat(32));
    let matching = format!("If-Match: {version}\r\n");
    for (line, headers, status, code) in [
        ("PUT /v1/functions/new", "", 201, ""),
        ("PUT /v1/functions/web%2Fnew", "", 201, ""),
        ("PUT /v1/functions/hello", "", 200, ""),
        ("PUT /v1/functions/hello?dry_run=1", "", 200, ""),
        ("PUT /v1/functions/hello", matching.as_str(), 200, ""),
        ("PUT /v1/functions/new", &matching, 409, "conflict"),
        ("PUT /v1/functions/hello", "If-None-Match: *\r\n", 409, "conflict"),
        ("PUT /v1/functions/hello", "If-None-Match: x\r\n", 400, "bad-request"),
        ("PUT /v1/functions/hello", "If-Match: 7\r\n", 400, "bad-request"),
        (
            "PUT /v1/functions/hello",
            "If-Match: x\r\nIf-None-Match: *\r\n",
            400,
            "bad-request",
        ),
        ("PUT /v1/functions/invalid", "", 422, "invalid-manifest"),
        ("PUT /v1/functions/ops%2Fbackup", "", 409, "not-uploaded"),
        ("PUT /v1/functions/stuck", "", 409, "conflict"),
        ("PUT /v1/functions/full", "", 503, "unavailable"),
        ("PUT /v1/functions/Hello", "", 400, "bad-request"),
        ("PUT /v1/functions/..", "", 400, "bad-request"),
        ("DELETE /v1/functions/hello", "", 200, ""),
        ("DELETE /v1/functions/nobody", "", 404, "not-found"),
        ("DELETE /v1/functions/hello", "If-None-Match: *\r\n", 400, "bad-request"),
    ] {
        let kind = "Content-Type: multipart/form-data; boundary=x";
        let head = format!("{line} HTTP/1.1\r\n{kind}\r\n{}", headers.trim_end());
        let answer = ask(&server.socket, head.trim_end(), FORM.as_bytes());
        assert_eq!(answer.status, status, "{line} {headers}: {answer:?}");
        if !code.is_empty() {
            assert_eq!(answer.json()["code"], code, "{line} {headers}");
        }
        if status == 422 {
            assert!(answer.json()["diagnostics"][0]["code"].is_string(), "{answer:?}");
        }
    }
    let shown = get(&server.socket, "/v1/functions/hello");
    assert_eq!(shown.header("etag"), Some(version.as_str()));
}
