//! Credentials: who may call, and the one answer for all others.

use super::*;
use fnd_tests::require;
use fnd_tests::wait::unix_ms;
/// Returns the time in seconds since 1970.
fn now() -> u64 {
    unix_ms() / 1000
}

/// The answers for strangers come first: an open route changes them.
#[test]
fn credentials() {
    let site = Site::start(
        "",
        &[
            ("tok", "t-1\n"),
            ("hook", "h-1\n"),
            ("pair", "new\nold\n"),
            ("lab", "h\n"),
        ],
    );
    a_stranger_gets_the_same_answer_for_every_path(&site);
    one_of_several_credentials_is_enough_and_both_lines_of_a_secret_hold(&site);
    a_refused_run_does_not_use_up_its_signature(&site);
    only_a_function_that_asks_for_it_gets_the_authorization_of_an_open_route(&site);
    a_caller_is_not_denied_while_its_secret_is_on_its_way(&site);
    site.fnd.finish();
}

fn a_stranger_gets_the_same_answer_for_every_path(site: &Site) {
    site.script("echo", ECHO, &route("/echo", "\"token:tok\"", "methods = [\"POST\"]"));
    site.script("hook", ECHO, &route("/hook", "\"github:hook\"", ""));
    let mut answers = Vec::new();
    for (method, path, headers) in [
        ("POST", "/echo", &[][..]),
        ("POST", "/echo", &[("authorization", "Bearer wrong")]),
        ("GET", "/echo", &[]),
        ("POST", "/hook", &[]),
        ("POST", "/hook", &[("x-hub-signature-256", "sha256=00")]),
        ("POST", "/nowhere", &[]),
        ("DELETE", "/v1/functions/echo", &[]),
    ] {
        let answer = site.call(method, path, headers, "body");
        assert_eq!(answer.status, 401, "{method} {path}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        answers.push((answer.text(), answer.headers.len()));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(site.runs("echo") + site.runs("hook"), 0);
    // Who is admitted learns more.
    let known = ("authorization", "Bearer t-1");
    assert_eq!(site.call("GET", "/echo", &[known], "").status, 405);
    assert_eq!(site.call("GET", "/nowhere", &[known], "").status, 404);
    let answer = site.call("POST", "/echo", &[known], "x");
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "POST /echo x"));
    // Everybody may ask whether fnd serves.
    assert_eq!(site.call("GET", "/healthz", &[], "").text(), "ok\n");
}

#[test]
fn a_body_is_read_within_the_largest_limit_of_signed_routes() {
    let site = Site::start("", &[("hook", "h-1\n"), ("tok", "t-1\n")]);
    let manifest = route("/hook", "\"github:hook\"", "");
    site.script("hook", ECHO, &format!("limits.body = \"2K\"\n{manifest}"));
    let manifest = route("/small", "\"token:tok\"", "");
    site.script("small", ECHO, &format!("limits.body = \"1K\"\n{manifest}"));
    let (fits, large) = ("x".repeat(1500), "x".repeat(3000));
    let wrong = ("x-hub-signature-256", &*format!("sha256={}", "0".repeat(64)));
    for path in ["/hook", "/small", "/nowhere"] {
        assert_eq!(site.call("POST", path, &[wrong], &fits).status, 401, "{path}");
        assert_eq!(site.call("POST", path, &[wrong], &large).status, 413, "{path}");
        // Without the headers of a signature the body proves nothing, so it is not read.
        assert_eq!(site.call("POST", path, &[], &large).status, 401, "{path}");
    }
    let known = ("authorization", "Bearer t-1");
    assert_eq!(site.call("POST", "/small", &[known], &fits).status, 413);
    let signature = format!("sha256={}", hmac("h-1", &fits));
    let answer = site.call("POST", "/hook", &[("x-hub-signature-256", &signature)], &fits);
    assert_eq!(answer.status, 200, "{}", answer.text());
    site.fnd.finish();
}

fn one_of_several_credentials_is_enough_and_both_lines_of_a_secret_hold(site: &Site) {
    site.script(
        "several",
        ECHO,
        &route("/several", "[\"token:pair\", \"gitlab:lab\", \"gitea:lab\"]", ""),
    );
    let signature = hmac("h", "x");
    for header in [
        ("authorization", "Bearer new"),
        ("authorization", "bearer old"),
        ("x-gitlab-token", "h"),
        ("x-gitea-signature", &signature),
    ] {
        assert_eq!(site.call("POST", "/several", &[header], "x").status, 200, "{header:?}");
    }
    for header in [
        ("authorization", "Bearer ol"),
        ("authorization", "Bearer "),
        ("x-gitlab-token", "new"),
    ] {
        assert_eq!(site.call("POST", "/several", &[header], "x").status, 401, "{header:?}");
    }
}

#[test]
fn a_signed_request_is_admitted_once_also_over_a_restart() {
    let mut site = Site::start_with(&Setup::default().detached(), "", &[("hook", "h-1\n")]);
    site.script("echo", ECHO, &route("/echo", "\"hmac:hook\"", ""));
    let sign = |time: u64| format!("t={time},v1={}", hmac("h-1", &format!("{time}.x")));
    let send = |site: &Site, time: u64| site.call("POST", "/echo", &[("fnd-signature", &sign(time))], "x");
    let time = now();
    assert_eq!(send(&site, time).status, 200);
    let again = send(&site, time);
    assert_eq!(
        (again.status.as_u16(), again.problem().code.as_str()),
        (409, "replayed")
    );
    assert_eq!(send(&site, time - 1).status, 200, "another time");
    assert_eq!(send(&site, time - 400).status, 401, "too old");
    assert_eq!(send(&site, time + 400).status, 401, "too new");
    site.fnd.replace(nix::sys::signal::Signal::SIGTERM);
    site.serves("echo");
    assert_eq!(send(&site, time).status, 409, "after a restart");
    site.fnd.replace(nix::sys::signal::Signal::SIGKILL);
    site.serves("echo");
    assert_eq!(send(&site, time).status, 409, "after a crash");
    assert_eq!(site.runs("echo"), 2);
    site.fnd.finish();
}

fn a_refused_run_does_not_use_up_its_signature(site: &Site) {
    site.script("signed", ECHO, &route("/signed", "\"hmac:hook\"", ""));
    site.fnd.client().post("/v1/functions/signed/disable", "");
    let time = now();
    let signature = format!("t={time},v1={}", hmac("h-1", &format!("{time}.x")));
    let send = || {
        site.call("POST", "/signed", &[("fnd-signature", &signature)], "x")
            .status
    };
    assert_eq!(send(), 503);
    site.fnd.client().post("/v1/functions/signed/enable", "");
    assert_eq!(send(), 200);
    assert_eq!(send(), 409);
}

#[test]
fn a_password_is_checked_by_its_hash() {
    // `Ada` has the password `s3cret` (bcrypt, cost 4).
    let hash = "$2b$04$abcdefghijklmnopqrstuuWEbkFZVq2tj0d0AJJHHqYtZK6rbOBey";
    let site = Site::start("", &[("users", &format!("ada:{hash}\n"))]);
    site.script("echo", ECHO, &route("/echo", "\"basic:users\"", ""));
    let answer = site.call("POST", "/echo", &[], "x");
    assert_eq!(answer.status, 401);
    assert!(
        answer.header("www-authenticate").unwrap().starts_with("Basic "),
        "browsers ask"
    );
    // ada:wrong, nobody:s3cret
    for wrong in ["YWRhOndyb25n", "bm9ib2R5OnMzY3JldA==", "?"] {
        let header = format!("Basic {wrong}");
        assert_eq!(
            site.call("POST", "/echo", &[("authorization", &header)], "x").status,
            401
        );
    }
    assert_eq!(site.runs("echo"), 0);
    site.fnd.finish();
}

fn only_a_function_that_asks_for_it_gets_the_authorization_of_an_open_route(site: &Site) {
    let code = "printf '%s|%s' \"$HTTP_AUTHORIZATION\" \"$HTTP_X_GITLAB_TOKEN\"\n";
    let both = format!(
        "{}{}{}",
        route("/checked", "[\"token:tok\", \"gitlab:tok\"]", ""),
        route("/open", "\"none\"", ""),
        route("/asks", "\"none\"", "authorization = true")
    );
    site.script("shows", code, &both);
    let headers = [("authorization", "Bearer t-1"), ("x-gitlab-token", "t-1")];
    assert_eq!(site.call("POST", "/checked", &headers, "").text(), "|");
    assert_eq!(site.call("POST", "/open", &headers, "").text(), "|t-1");
    assert_eq!(site.call("POST", "/asks", &headers, "").text(), "Bearer t-1|t-1");
}

/// Saves a function that belongs to somebody else than root, complete at once.
fn of_somebody_else(site: &Site, name: &str, text: &str) {
    let part = site.fnd.path(&format!("{name}.part"));
    fs::write(&part, text).unwrap();
    std::os::unix::fs::chown(&part, Some(4321), Some(4321)).unwrap();
    fs::rename(part, site.fnd.function_path(&format!("{name}.sh"))).unwrap();
}

/// Another author's more special path would get the requests of root's function, with their bodies and tokens.
#[test]
fn a_function_of_somebody_else_gets_no_request_that_is_meant_for_root() {
    require!(root);
    let site = Site::start("", &[("tok", "t-1\n")]);
    let evil = |path: &str| {
        format!(
            "# /// fnd\n# on_load = false\n# [[http]]\n# path = \"{path}\"\n# auth = \"none\"\n# authorization = true\n# ///\necho \
             evil\n"
        )
    };
    let told = |name: &str| site.fnd.client().get(&format!("/v1/functions/{name}")).text();
    let pay = |path: &str| site.call("POST", path, &[("authorization", "Bearer t-1")], "x");
    // It comes first and serves, until root's function comes.
    of_somebody_else(&site, "early", &evil("/pay/1"));
    site.serves("early");
    assert_eq!(pay("/pay/1").text().trim(), "evil");
    site.script("pay", "echo root\n", &route("/pay/{order}", "\"token:tok\"", ""));
    eventually("the route is root's", || told("early").contains("overlaps"));
    assert_eq!(pay("/pay/1").text().trim(), "root");
    // It comes later.
    of_somebody_else(&site, "late", &evil("/{*rest}"));
    eventually("it is refused", || told("late").contains("overlaps"));
    assert_eq!(pay("/pay/2").text().trim(), "root");
    // Other paths are free.
    of_somebody_else(&site, "fine", &evil("/sale/1"));
    site.serves("fine");
    fs::remove_file(site.fnd.function_path("pay.sh")).unwrap();
    fs::remove_file(site.fnd.function_path("pay.toml")).unwrap();
    eventually("the path is free again", || pay("/pay/1").text().trim() == "evil");
    site.fnd.finish();
}

fn a_caller_is_not_denied_while_its_secret_is_on_its_way(site: &Site) {
    // So that the host has 404 for everybody.
    site.script("free", ECHO, &route("/free", "\"none\"", ""));
    for n in 0..5 {
        let name = format!("hook-{n}");
        secret(&site.fnd, &name, "t-1\n");
        let manifest = route(&format!("/{name}"), &format!("\"token:{name}\""), "");
        site.fnd
            .drop_file(&format!("{name}.toml"), &format!("on_load = false\n{manifest}"));
        site.fnd.drop_file(&format!("{name}.sh"), ECHO);
        eventually("an answer of the function", || {
            let answer = site.call("POST", &format!("/{name}"), &[("authorization", "Bearer t-1")], "x");
            let retries = answer.header("retry-after").is_some();
            match answer.status.as_u16() {
                404 => false,
                503 if retries => false,
                status => {
                    assert_eq!(status, 200, "{}", answer.text());
                    true
                }
            }
        });
    }
}

/// A secret that a caller knows or guesses at comes back in no refusal, and a token in the address counts for nothing: addresses
/// are written to logs of every proxy on the way.
#[test]
fn a_secret_is_in_no_refusal_and_a_token_in_the_address_is_none() {
    let canary = "canary-7f3a9c";
    let site = Site::start("", &[("tok", &format!("{canary}\n")), ("hook", "hook-51e2\n")]);
    site.script("echo", ECHO, &route("/echo", "\"token:tok\"", "methods = [\"POST\"]"));
    site.script("hook", ECHO, &route("/hook", "\"github:hook\"", ""));
    site.script("fails", "echo no >&2; exit 1\n", &route("/fails", "\"token:tok\"", ""));
    let bearer = format!("Bearer {canary}");
    let known = ("authorization", bearer.as_str());
    let in_path = format!("/echo?token={canary}&access_token={canary}");
    let large = "x".repeat(7 << 20);
    for (method, path, headers, body, status) in [
        ("POST", in_path.as_str(), &[][..], "", 401),
        ("POST", "/echo", &[("x-token", canary), ("cookie", canary)], "", 401),
        ("POST", "/echo", &[("authorization", canary)], "", 401),
        ("GET", "/echo", &[known], "", 405),
        ("POST", "/nowhere", &[known], "", 404),
        (
            "POST",
            "/echo",
            &[known, ("content-type", "application/json")],
            "{",
            400,
        ),
        ("POST", "/echo", &[known], large.as_str(), 413),
        ("POST", "/fails", &[known], "", 500),
        (
            "POST",
            "/hook",
            &[known, ("x-hub-signature-256", "sha256=00")],
            "{}",
            401,
        ),
    ] {
        let answer = site.call(method, path, headers, body);
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text());
        let all = format!("{:?}{}", answer.headers, answer.text());
        assert!(
            !all.contains(canary) && !all.contains("hook-51e2"),
            "{method} {path}: {all}"
        );
    }
    let log = site.fnd.log();
    let leaks: Vec<&str> = log
        .lines()
        .filter(|line| (line.contains(canary) && !line.contains("access_token=")) || line.contains("hook-51e2"))
        .collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    site.fnd.finish();
}

/// Bodies of strangers have a budget, and each address a part of it: an address that fills its part takes nothing from others.
#[test]
fn an_address_without_a_credential_fills_only_its_own_part_of_the_buffers() {
    let http = "trusted_proxies = [\"unix\"]\n[node]\nbuffers = \"1M\"";
    let site = Site::start(http, &[("tok", "t-1\n"), ("hook", "h-1\n")]);
    let go = site.fnd.shared_directory("gate").join("go");
    let gate = format!("while [[ ! -e {} ]]; do sleep 0.05; done; wc -c\n", go.display());
    let manifest = |route: String| format!("limits.body = \"1M\"\n{route}");
    site.script("gate", &gate, &manifest(route("/gate", "\"none\"", "")));
    site.script("open", "wc -c\n", &manifest(route("/open", "\"none\"", "")));
    site.script("known", "wc -c\n", &manifest(route("/known", "\"token:tok\"", "")));
    site.script("hook", "wc -c\n", &manifest(route("/hook", "\"github:hook\"", "")));
    let body = "x".repeat(200_000);
    let from = |path: &str, address: &str, header: (&str, &str)| {
        site.call("POST", path, &[("x-forwarded-for", address), header], &body)
    };
    let none = ("accept", "*/*");
    let signature = format!("sha256={}", hmac("h-1", &body));
    let signed = ("x-hub-signature-256", signature.as_str());
    std::thread::scope(|scope| {
        // A quarter of 4 MiB; a script that runs has its body, so it does not count any more.
        let mut waiting = Vec::new();
        loop {
            let caller = scope.spawn(|| from("/gate", "192.0.2.1", none));
            eventually("the call to wait, or to be refused", || {
                let gate = site.fnd.function("gate").unwrap();
                caller.is_finished() || usize::try_from(gate.running + gate.queued).unwrap() > waiting.len()
            });
            if caller.is_finished() {
                assert_eq!(caller.join().unwrap().status, 503);
                break;
            }
            waiting.push(caller);
        }
        assert!([5, 6].contains(&waiting.len()), "{}", waiting.len());
        for path in ["/gate", "/open", "/open"] {
            let refused = from(path, "192.0.2.1", none);
            assert_eq!(
                (refused.status.as_u16(), refused.header("retry-after")),
                (503, Some("1")),
                "{}",
                refused.text()
            );
        }
        // A signature shows only with the whole body whether it holds.
        assert_eq!(from("/hook", "192.0.2.1", signed).status, 503);
        for (path, address, header) in [
            ("/open", "192.0.2.2", none),
            ("/hook", "192.0.2.2", signed),
            ("/known", "192.0.2.1", ("authorization", "Bearer t-1")),
        ] {
            let answer = from(path, address, header);
            assert_eq!(
                (answer.status.as_u16(), answer.text().trim()),
                (200, "200000"),
                "{path}"
            );
        }
        fs::write(&go, "").unwrap();
        for caller in waiting {
            assert_eq!(caller.join().unwrap().text().trim(), "200000");
        }
    });
    eventually("the address to have room again", || {
        from("/open", "192.0.2.1", none).status == 200
    });
    site.fnd.finish();
}
