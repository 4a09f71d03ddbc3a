//! What a caller whose role is for some functions only gets from every route, over a real socket and as another user.

use super::UNKNOWN;
use super::crowd::{as_user, open_to_all};
use super::http::{Answer, ask, connect, get, post, run};
use crate::peer::{Holder, PeerAccess, RoleGrant};
use crate::start::tests::small::Running;
use fnd_manifest::settings::Role;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

const ADA: u32 = 65_520;
const BOB: u32 = 65_521;
const EVE: u32 = 65_522;

/// Ada views all functions that begin with `f` and operates those of the group `ops`. Bob operates `hello`, and views the
/// node. Eve has no role.
fn access() -> PeerAccess {
    let entry = |uid: u32, role: Role, functions: Option<&str>| RoleGrant {
        holder: Holder::User(uid),
        role,
        functions: functions.map(|text| vec![text.to_owned()]),
    };
    PeerAccess {
        own_uid: None,
        entries: vec![
            entry(ADA, Role::Viewer, Some("f*")),
            entry(ADA, Role::Operator, Some("ops/*")),
            entry(BOB, Role::Viewer, None),
            entry(BOB, Role::Operator, Some("hello")),
        ],
    }
}

/// Invocations that root has run.
struct Runs {
    /// Of `hello`, as a call.
    ended: String,
    /// Of `fails`, which is a dead letter.
    failed: String,
}

/// Asks as another user; does nothing where only root could be one.
fn as_other(uid: u32, work: impl FnOnce(&Path, &Runs) + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be other users");
        return;
    }
    let server = Running::start_with(access(), None);
    open_to_all(&server);
    let socket = server.socket.clone();
    let answer = post(&socket, "/v1/functions/hello/invoke", "", b"1");
    let runs = Runs {
        ended: answer.header("fnd-invocation").unwrap().to_owned(),
        failed: run(&socket, "fails", b"1"),
    };
    as_user(uid, move || work(&socket, &runs)).join().unwrap();
}

/// Returns the operations of the description, which has every route: method, path, path with values.
fn operations(socket: &Path, function: &str, id: &str) -> Vec<(String, String, String)> {
    let document = get(socket, "/v1/openapi.json").json();
    let mut all = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
        {
            let asked = path
                .replace("{function}", function)
                .replace("{id}", id)
                .replace("{path}", "a")
                .replace("{scope}", "shop")
                .replace("{key}", "orders");
            all.push((method.to_uppercase(), path.clone(), asked));
        }
    }
    all
}

fn request(socket: &Path, method: &str, path: &str) -> Answer {
    // Streams end at once.
    let path = match path {
        "/v1/stream" => "/v1/stream?follow=0",
        path => path,
    };
    ask(socket, &format!("{method} {path} HTTP/1.1"), b"")
}

/// Names of functions that ada may not view.
const HIDDEN: [&str; 3] = ["hello", "mirror", "stuck"];

#[test]
fn no_route_shows_a_function_that_its_caller_may_not_view() {
    as_other(ADA, |socket, _| {
        for (method, path, asked) in operations(socket, "nobody", UNKNOWN) {
            if path.contains('{') || path == "/v1/openapi.json" {
                continue;
            }
            let answer = request(socket, &method, &asked);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            for name in HIDDEN {
                assert!(!text.contains(name), "{method} {path} shows `{name}`: {text}");
            }
        }
        // The lists are not empty: they have the functions that she may view.
        for path in [
            "/v1/status",
            "/v1/overview",
            "/v1/functions",
            "/v1/usage",
            "/v1/invocations",
            "/v1/dead-letters",
        ] {
            let answer = get(socket, path);
            assert_eq!(answer.status, 200, "{path}");
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(text.contains("fails"), "{path}: {text}");
        }
        // What lies between two pages of hers is not named, and what she may not view is not found.
        let list = |parameters: &str| get(socket, &format!("/v1/functions?{parameters}")).json();
        for (parameters, function, next) in [
            ("limit=1", "fails", "fails".into()),
            ("limit=1&after=fails", "ops/backup", serde_json::Value::Null),
            ("limit=1&after=hello", "ops/backup", serde_json::Value::Null),
        ] {
            let page = list(parameters);
            assert_eq!(page["functions"][0]["function"], function, "{parameters}");
            assert_eq!(page["next"], next, "{parameters}");
        }
        for parameters in ["q=hello", "state=invalid", "state=invalid&limit=1"] {
            assert_eq!(list(parameters)["functions"], serde_json::json!([]), "{parameters}");
        }
        let status = get(socket, "/v1/status").json();
        assert_eq!(status["functions_by_state"], serde_json::json!({"ready": 2}));
        assert_eq!(
            (&status["disk"], &status["places"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!(status["problems"], serde_json::json!([]));
        let mut watch = connect(socket);
        watch
            .write_all(b"GET /v1/functions?watch=1 HTTP/1.1\r\nhost: fnd\r\n\r\n")
            .unwrap();
        let lines = BufReader::new(watch).lines().map(Result::unwrap);
        let shown: Vec<_> = lines.filter(|line| line.contains("\"function\"")).take(2).collect();
        assert!(
            shown[0].contains("\"fails\"") && shown[1].contains("ops/backup"),
            "{shown:?}"
        );
    });
}

/// A function or an invocation that is hidden has the same answer as one that does not exist.
#[test]
fn a_hidden_function_does_not_exist() {
    as_other(ADA, |socket, runs| {
        let answers = |function: &str, id: &str| -> Vec<(String, u16, String)> {
            let operations = operations(socket, function, id);
            // The state belongs to no function.
            let about = operations
                .into_iter()
                .filter(|(_, path, _)| path.contains('{') && !path.starts_with("/v1/state"));
            let answered = about.map(|(method, path, asked)| {
                let answer = request(socket, &method, &asked);
                let text = String::from_utf8_lossy(&answer.body)
                    .replace(function, "F")
                    .replace(id, "ID");
                (format!("{method} {path}"), answer.status, text)
            });
            answered.collect()
        };
        let hidden = answers("hello", &runs.ended);
        assert!(
            hidden.len() > 15 && hidden.iter().all(|(_, status, _)| *status == 404),
            "{hidden:?}"
        );
        assert_eq!(hidden, answers("nobody", UNKNOWN));
        let logs = |function: &str| {
            let answer = get(socket, &format!("/v1/logs?function={function}"));
            (
                answer.status,
                String::from_utf8_lossy(&answer.body).replace(function, "F"),
            )
        };
        assert_eq!((logs("hello").0, logs("hello")), (404, logs("nobody")));
    });
}

#[test]
fn a_role_that_is_too_small_for_a_function_is_refused() {
    as_other(ADA, |socket, runs| {
        let failed = &runs.failed;
        for (line, status) in [
            ("GET /v1/functions/fails".to_owned(), 200),
            ("GET /v1/functions/ops%2Fbackup".to_owned(), 200),
            (format!("GET /v1/invocations/{failed}"), 200),
            (format!("GET /v1/dead-letters/{failed}"), 200),
            ("POST /v1/functions/ops%2Fbackup/invoke".to_owned(), 200),
            ("POST /v1/functions/ops%2Fbackup/disable".to_owned(), 200),
            ("POST /v1/functions/fails/invoke".to_owned(), 403),
            ("POST /v1/functions/fails/disable".to_owned(), 403),
            ("GET /v1/functions/fails/versions".to_owned(), 200),
            ("GET /v1/functions/fails/versions/9a/files".to_owned(), 403),
            ("POST /v1/functions/fails/rollback".to_owned(), 403),
            ("POST /v1/functions/fails/pin".to_owned(), 403),
            ("POST /v1/functions/fails/unpin".to_owned(), 403),
            ("POST /v1/functions/fails/canary?percent=10".to_owned(), 403),
            ("DELETE /v1/functions/fails/canary".to_owned(), 403),
            ("POST /v1/functions/fails/promote".to_owned(), 403),
            ("POST /v1/functions/fails/build".to_owned(), 403),
            ("POST /v1/functions/ops%2Fbackup/rollback".to_owned(), 409),
            (format!("POST /v1/invocations/{failed}/replay"), 403),
            (format!("POST /v1/invocations/{failed}/cancel"), 403),
            (format!("POST /v1/dead-letters/{failed}/redrive"), 403),
            (format!("DELETE /v1/dead-letters/{failed}"), 403),
            ("GET /v1/config".to_owned(), 403),
            ("GET /metrics".to_owned(), 403),
            ("GET /v1/backup".to_owned(), 403),
            ("POST /v1/reload".to_owned(), 403),
            ("POST /v1/drain".to_owned(), 403),
            ("POST /v1/validate".to_owned(), 403),
            ("POST /v1/routes/test".to_owned(), 403),
            ("GET /healthz".to_owned(), 200),
        ] {
            let answer = ask(socket, &format!("{line} HTTP/1.1"), b"");
            assert_eq!(answer.status, status, "{line}: {answer:?}");
            if status == 403 {
                assert_eq!(answer.code(), "not-allowed", "{line}");
                let detail = answer.json()["detail"].as_str().unwrap().to_owned();
                let is_about_node = !line.contains("fails") && !line.contains(&**failed);
                let expected = if is_about_node {
                    "without `functions`"
                } else {
                    "`functions = [\"fails\"]`"
                };
                assert!(detail.contains(expected), "{line}: {detail}");
            }
        }
    });
}

#[test]
fn a_role_for_the_node_and_a_greater_one_for_a_function() {
    as_other(BOB, |socket, Runs { ended, failed }| {
        for (line, status) in [
            ("GET /v1/config".to_owned(), 200),
            ("GET /v1/functions/fails".to_owned(), 200),
            ("POST /v1/functions/hello/invoke".to_owned(), 200),
            ("POST /v1/functions/fails/invoke".to_owned(), 403),
            (format!("POST /v1/invocations/{ended}/replay"), 409),
            (format!("POST /v1/invocations/{failed}/replay"), 403),
            (format!("POST /v1/invocations/{UNKNOWN}/replay"), 404),
            ("POST /v1/reload".to_owned(), 403),
        ] {
            let answer = ask(socket, &format!("{line} HTTP/1.1"), b"");
            assert_eq!(answer.status, status, "{line}: {answer:?}");
        }
    });
}

#[test]
fn without_a_role_every_route_but_the_health_is_refused() {
    as_other(EVE, |socket, _| {
        for path in [
            "/v1/status",
            "/v1/functions/hello",
            "/v1/functions/nobody",
            "/v1/nowhere",
            "/v1/openapi.json",
        ] {
            let answer = get(socket, path);
            assert_eq!((answer.status, answer.code().as_str()), (403, "not-allowed"), "{path}");
        }
        assert_eq!(get(socket, "/healthz").status, 200);
    });
}
