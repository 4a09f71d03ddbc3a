//! Events by the public listener (`[http] events`).

use super::*;

const FORM: (&str, &str) = ("content-type", "application/cloudevents+json");

/// The address of events takes the path from a function that had it, and gives it back.
#[test]
fn no_function_has_the_address_of_events() {
    let events = "events = { path = \"/in/events\", auth = \"token:events\" }";
    let site = Site::start(events, &[("events", "e-1\n")]);
    site.fnd.drop_file(
        "late.toml",
        &format!(
            "on_load = false\n{}",
            route("/in/events", "\"none\"", "methods = [\"GET\"]")
        ),
    );
    site.fnd.drop_file("late.sh", "echo late\n");
    let error = site.fnd.wait_error("late").error.unwrap();
    assert!(
        error.contains("the route GET /in/events of `late` gets no requests")
            && error.contains("the address of `[http] events` in fnd.toml"),
        "{error}"
    );
    let listed = site.fnd.ctl(&["routes"]).expect_code(0).out();
    assert!(listed.contains("/in/events  (events)  token:events"), "{listed}");
    let token = ["-H", "Authorization: Bearer e-1"];
    let tried = |method: &str, more: &[&str]| {
        let run = site
            .fnd
            .ctl(&[&["routes", "test", method, "/in/events"], more].concat());
        (run.code, run.out())
    };
    for (method, more, code, verdict) in [
        (
            "POST",
            &token[..],
            0,
            "202: it is the address of `[http] events` in fnd.toml: a CloudEvent",
        ),
        ("GET", &token[..], 1, "405: it is the address"),
        ("POST", &[], 1, "401: it is the address"),
    ] {
        let (exit, text) = tried(method, more);
        assert_eq!(exit, code, "{text}");
        assert!(text.contains(verdict), "{verdict}: {text}");
    }

    // The address moves: the function gets the path.
    let configuration = site.fnd.path("fnd.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    let configure = |events: &str, code: i32| {
        fs::write(&configuration, text.replace("/in/events", events)).unwrap();
        let _ = site.fnd.ctl(&["reload"]).expect_code(code);
    };
    configure("/in/other", 0);
    site.serves("late");
    assert_eq!(site.call("GET", "/in/events", &[], "").text(), "late\n");
    assert!(site.fnd.ctl(&["routes"]).out().contains("/in/other"));

    // The address comes back: the function keeps its version and its other triggers, without the route.
    configure("/in/events", 8);
    let error = site.fnd.wait_error("late").error.unwrap();
    assert!(error.contains("the address of `[http] events`"), "{error}");
    assert_eq!(site.call("GET", "/in/events", &[], "").status, 401);
    let listed = site.fnd.ctl(&["routes"]).expect_code(0).out();
    assert!(!listed.contains("late"), "{listed}");
    assert_eq!(fnd_tests::ask::word(&site.fnd.run("late", "").1.state), "succeeded");
    site.fnd.finish();
}

fn event(id: &str) -> String {
    format!(r#"{{"specversion": "1.0", "type": "order", "source": "shop", "id": "{id}", "data": 7}}"#)
}

#[test]
fn events_come_in_by_the_listener_with_a_credential_of_the_configuration() {
    let events = "events = { path = \"/in/events\", auth = \"token:events\" }";
    let mut site = Site::start(events, &[("events", "e-1\n"), ("tok", "t-1\n")]);
    let code = "echo run >> \"$STATE_DIRECTORY/runs\"";
    site.script(
        "mail",
        code,
        &format!("[[event]]\ntype = \"order\"\n{}", route("/mail", "\"token:tok\"", "")),
    );
    let stranger = site.call("POST", "/in/events", &[FORM], &event("1"));
    assert_eq!(
        (stranger.status.as_u16(), stranger.header("www-authenticate")),
        (401, Some("Bearer"))
    );
    let other = ("authorization", "Bearer t-1");
    assert_eq!(
        site.call("POST", "/in/events", &[FORM, other], &event("1")).status,
        401,
        "a route's token is none"
    );
    let known = ("authorization", "Bearer e-1");
    assert_eq!(
        site.call("POST", "/mail", &[known], "").status,
        401,
        "and the other way round"
    );
    assert_eq!(site.call("GET", "/in/events", &[known], "").status, 405);
    assert_eq!(site.call("POST", "/in/events", &[FORM, known], "{}").status, 400);
    let accepted = site.call("POST", "/in/events", &[FORM, known], &event("1"));
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let mut accepted = accepted.json::<Value>();
    eventually("the run", || site.runs("mail") == 1);
    // The secret is there again after a restart, and so is the event.
    site.fnd.crash();
    site.fnd.launch();
    site.serves("mail");
    accepted["duplicate"] = true.into();
    eventually("the same answer", || {
        let again = site.call("POST", "/in/events", &[FORM, known], &event("1"));
        again.status == 202 && again.json::<Value>() == accepted
    });
    // A reload takes a new configuration: the path is gone.
    let configuration = site.fnd.path("fnd.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, text.replace(events, "")).unwrap();
    let _ = site.fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(site.call("POST", "/in/events", &[FORM, known], &event("2")).status, 401);
    assert_eq!(site.call("POST", "/in/events", &[FORM, other], &event("2")).status, 404);
    assert_eq!(site.runs("mail"), 1);
    site.fnd.finish();
}
