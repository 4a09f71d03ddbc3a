//! Conditions, idempotency keys, rates, pages of other origins, queued requests.

use super::*;

const JSON: (&str, &str) = ("content-type", "application/json");

/// The preflights come first: an open route changes the answers for strangers.
#[test]
fn conditions_keys_queues_and_origins() {
    let site = Site::start("", &[("tok", "t-1\n"), ("ours", "alpha\n"), ("theirs", "beta\n")]);
    pages_of_listed_origins_may_call(&site);
    a_key_belongs_to_the_route_and_the_credential(&site);
    a_request_that_does_not_meet_the_conditions_runs_nothing(&site);
    a_redelivery_gets_the_answer_of_the_first_run(&site);
    a_queued_request_is_on_disk_before_it_is_answered(&site);
    site.fnd.finish();
}

fn a_request_that_does_not_meet_the_conditions_runs_nothing(site: &Site) {
    let when = "when = { \"header.x-github-event\" = \"push\", \"body.ref\" = [\"refs/heads/main\"], \"query.dry\" = { not = \"1\" } }";
    site.script("deploy", ECHO, &route("/deploy", "\"none\"", when));
    let push = ("x-github-event", "push");
    let main = r#"{"ref": "refs/heads/main"}"#;
    for (path, event, body) in [
        ("/deploy", ("x-github-event", "ping"), main),
        ("/deploy", push, r#"{"ref": "refs/heads/other"}"#),
        ("/deploy", push, "no json"),
        ("/deploy?dry=1", push, main),
    ] {
        let answer = site.call("POST", path, &[event, ("content-type", "text/plain")], body);
        assert_eq!(answer.status, 204, "{path} {event:?} {body}: {}", answer.text());
        assert_eq!(
            (answer.header("fnd-skipped"), answer.text().as_str()),
            (Some("when"), "")
        );
    }
    assert_eq!(site.runs("deploy"), 0);
    assert_eq!(site.call("POST", "/deploy?dry=0", &[push, JSON], main).status, 200);
    assert_eq!(site.runs("deploy"), 1);
}

fn a_redelivery_gets_the_answer_of_the_first_run(site: &Site) {
    let slow = "until [ -e \"$STATE_DIRECTORY/go\" ]; do read -rt 0.02 <> <(:) || :; done; echo run >> \"$STATE_DIRECTORY/runs\"; echo \"$RANDOM$RANDOM\"\n";
    site.script(
        "deliver",
        slow,
        &route("/deliver", "\"none\"", "idempotency = \"header.x-delivery\""),
    );
    let send = |id: &str| site.call("POST", "/deliver", &[("x-delivery", id)], "x");
    let (first, again) = std::thread::scope(|scope| {
        let first = scope.spawn(|| send("d-1"));
        let home = site.fnd.path("state/home/deliver");
        // A start counts as running before the function's directories are made.
        eventually("it runs", || {
            site.fnd.client().get("/v1/functions/deliver").json::<Value>()["running"] == 1 && home.exists()
        });
        // The sender has waited long enough, and tries again.
        let again = send("d-1");
        fs::write(home.join("go"), "").unwrap();
        (first.join().unwrap(), again)
    });
    assert_eq!(
        (first.status.as_u16(), again.status.as_u16()),
        (200, 202),
        "{}",
        again.text()
    );
    let id = first.header("fnd-invocation").unwrap().to_owned();
    assert_eq!(again.json::<Value>()["id"], id.as_str());
    assert_eq!(again.header("location"), None, "the control API is not here");
    let later = send("d-1");
    assert_eq!((later.status, later.text()), (first.status, first.text()));
    assert_eq!(later.header("fnd-invocation"), Some(id.as_str()));
    assert_eq!(site.runs("deliver"), 1);
    assert_ne!(send("d-2").text(), first.text());
    // A long key, and none.
    assert_eq!(send(&"k".repeat(5000)).text(), send(&"k".repeat(5000)).text());
    let without = || site.call("POST", "/deliver", &[], "x");
    assert_ne!(without().text(), without().text());
    assert_eq!(site.runs("deliver"), 5);
}

/// A stranger with the key of another caller neither gets the answer of that caller nor stops its request.
fn a_key_belongs_to_the_route_and_the_credential(site: &Site) {
    let key = "idempotency = \"header.x-delivery\"";
    let both = "[\"token:ours\", \"token:theirs\"]";
    let routes = [
        route("/order", both, key),
        route("/order/{id}", "\"none\"", key),
        route("/open", "\"none\"", key),
    ];
    site.script("order", "echo \"$RANDOM$RANDOM$RANDOM\"\n", &routes.concat());
    let send = |path: &str, token: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("x-delivery", "d-1"), ("authorization", &bearer)];
        site.call("POST", path, &headers, body)
    };
    let mut answers = Vec::new();
    for (path, token) in [
        ("/order", "alpha"),
        ("/order", "beta"),
        ("/open", "-"),
        ("/order/1", "-"),
    ] {
        let (first, again) = (send(path, token, "x"), send(path, token, "x"));
        assert_eq!(
            (first.status.as_u16(), first.text()),
            (200, again.text()),
            "{path} {token}"
        );
        let other = send(path, token, "y");
        assert_eq!(
            (other.status.as_u16(), other.problem().code.as_str()),
            (422, "key-reused")
        );
        answers.push(first.text());
    }
    assert_eq!(send("/order/2", "-", "x").status, 422, "another path of the route");
    answers.sort();
    answers.dedup();
    assert_eq!(answers.len(), 4, "{answers:?}");
}

fn a_queued_request_is_on_disk_before_it_is_answered(site: &Site) {
    site.script("later", ECHO, &route("/later", "\"none\"", "async = true"));
    let answer = site.call("POST", "/later", &[], "x");
    assert_eq!(answer.status, 202);
    let id = answer.json::<Value>()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("fnd-invocation"), Some(id.as_str()));
    let done = site.fnd.client().get(&format!("/v1/invocations/{id}?wait=30s"));
    assert_eq!(
        (
            done.json::<Value>()["state"].as_str(),
            done.json::<Value>()["trigger"].as_str()
        ),
        (Some("succeeded"), Some("http"))
    );
}

#[test]
fn a_rate_counts_all_callers_or_each_address() {
    let site = Site::start("trusted_proxies = [\"unix\"]", &[]);
    let both = format!(
        "{}{}",
        route("/all", "\"none\"", "rate = \"2/h\""),
        route("/each", "\"none\"", "rate = \"2/h\"\nper = \"ip\"")
    );
    site.script("echo", ECHO, &both);
    let from = |path: &str, address: &str| site.call("POST", path, &[("x-forwarded-for", address)], "x");
    for (path, address, status) in [
        ("/all", "192.0.2.1", 200),
        ("/all", "192.0.2.2", 200),
        ("/all", "192.0.2.3", 429),
        ("/each", "192.0.2.1", 200),
        ("/each", "192.0.2.1", 200),
        ("/each", "192.0.2.1", 429),
        ("/each", "192.0.2.2", 200),
    ] {
        let answer = from(path, address);
        assert_eq!(answer.status, status, "{path} {address}: {}", answer.text());
        assert_eq!(answer.header("retry-after").is_some(), status == 429);
    }
    // Another function's route comes before these; it changes no count.
    site.script("alfa", ECHO, &route("/alfa", "\"none\"", "rate = \"1/h\""));
    assert_eq!(from("/all", "192.0.2.4").status, 429);
    assert_eq!(from("/alfa", "192.0.2.4").status, 200);
    assert_eq!(from("/each", "192.0.2.2").status, 200);
    assert_eq!(from("/each", "192.0.2.2").status, 429);
    assert_eq!(site.runs("echo"), 6);
    site.fnd.finish();
}

fn pages_of_listed_origins_may_call(site: &Site) {
    site.script(
        "echo",
        ECHO,
        &route("/echo", "\"token:tok\"", "cors = [\"https://example.com\"]"),
    );
    let preflight = |origin: &str, path: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization"),
        ];
        site.call("OPTIONS", path, &headers, "")
    };
    let allowed = preflight("https://example.com", "/echo");
    assert_eq!(allowed.status, 204, "a preflight has no credential");
    assert_eq!(
        allowed.header("access-control-allow-origin"),
        Some("https://example.com")
    );
    assert_eq!(allowed.header("access-control-allow-methods"), Some("GET, HEAD, POST"));
    assert_eq!(allowed.header("access-control-allow-headers"), Some("authorization"));
    for refused in [
        preflight("https://evil.example", "/echo"),
        preflight("https://example.com", "/nowhere"),
    ] {
        assert_eq!(
            (refused.status.as_u16(), refused.header("access-control-allow-origin")),
            (204, None)
        );
    }
    let headers = [("origin", "https://example.com"), ("authorization", "Bearer t-1")];
    let answer = site.call("POST", "/echo", &headers, "x");
    assert_eq!(
        (answer.status.as_u16(), answer.header("access-control-allow-origin")),
        (200, Some("https://example.com"))
    );
    assert_eq!(answer.header("vary"), Some("origin"));
    let headers = [("origin", "https://evil.example"), ("authorization", "Bearer t-1")];
    assert_eq!(
        site.call("POST", "/echo", &headers, "x")
            .header("access-control-allow-origin"),
        None
    );
}
