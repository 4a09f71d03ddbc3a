//! Paths, methods and hosts; two functions with one route.

use super::*;

/// The list of all routes comes first.
#[test]
fn routes_of_one_listener() {
    let site = Site::start("", &[("hook", "h-1\n")]);
    routes_are_listed_and_tried(&site);
    an_edit_changes_the_routes(&site);
    a_request_finds_its_route(&site);
    site.fnd.finish();
}

fn a_request_finds_its_route(site: &Site) {
    let get = "methods = [\"GET\", \"PUT\"]";
    let mut all = route("/users/{id}", "\"none\"", get);
    all += &route("/files/{*rest}", "\"none\"", get);
    site.script("get", ECHO, &all);
    site.script("me", ECHO, &route("/users/me", "\"none\"", ""));
    site.script(
        "post",
        "echo posted\n",
        &route("/users/{name}", "\"none\"", "methods = [\"POST\"]"),
    );
    assert_eq!(site.call("GET", "/users/7?a=1", &[], "").text(), "GET /users/7?a=1 ");
    assert_eq!(
        site.call("PUT", "/files/a/b%20c", &[], "x").text(),
        "PUT /files/a/b%20c x"
    );
    assert_eq!(site.call("POST", "/users/7", &[], "").text(), "posted\n");
    assert_eq!(site.call("POST", "/users/me", &[], "y").text(), "POST /users/me y");
    let head = site.call("HEAD", "/users/7", &[], "");
    assert_eq!((head.status.as_u16(), head.text().as_str()), (200, ""));
    let options = site.call("OPTIONS", "/users/7", &[], "");
    assert_eq!(
        (options.status.as_u16(), options.header("allow")),
        (204, Some("GET, HEAD, POST, PUT, OPTIONS"))
    );
    let other = site.call("DELETE", "/users/7", &[], "");
    assert_eq!(
        (other.status.as_u16(), other.header("allow")),
        (405, Some("GET, HEAD, POST, PUT, OPTIONS"))
    );
    for (path, status) in [
        ("/users", 404),
        ("/users/7/x", 404),
        ("/%zz", 400),
        ("/users/../v1", 400),
        ("/users/%2e%2e", 400),
    ] {
        assert_eq!(site.call("GET", path, &[], "").status, status, "{path}");
    }
}

#[test]
fn a_function_keeps_its_route_until_it_gives_it_up() {
    let mut site = Site::start_with(&Setup::default().detached(), "", &[]);
    site.script("zulu", "echo zulu\n", &route("/x", "\"none\"", ""));
    site.fnd.drop_file(
        "alfa.toml",
        &format!("on_load = false\n{}", route("/x", "\"none\"", "methods = [\"POST\"]")),
    );
    site.fnd.drop_file("alfa.sh", "echo alfa\n");
    let error = |site: &Site| {
        let detail = site.fnd.client().get("/v1/functions/alfa");
        if detail.status == 200 {
            detail.json::<Value>()["error"].as_str().unwrap_or_default().to_owned()
        } else {
            String::new()
        }
    };
    let expected = "`alfa` and `zulu` both have the route POST /x; `zulu` keeps it";
    eventually("a refusal", || error(&site).contains(expected));
    assert_eq!(site.call("POST", "/x", &[], "").text(), "zulu\n");
    // At a restart all files are found at once, and the names are in the other order.
    site.fnd.replace(nix::sys::signal::Signal::SIGTERM);
    site.serves("zulu");
    eventually("a refusal", || error(&site).contains(expected));
    assert_eq!(site.call("POST", "/x", &[], "").text(), "zulu\n");
    site.fnd.remove("zulu.sh");
    site.fnd.remove("zulu.toml");
    site.serves("alfa");
    assert_eq!(site.call("POST", "/x", &[], "").text(), "alfa\n");
    site.fnd.finish();
}

fn an_edit_changes_the_routes(site: &Site) {
    site.script("echo", "echo one\n", &route("/one", "\"none\"", ""));
    assert_eq!(site.call("POST", "/one", &[], "").text(), "one\n");
    site.fnd.drop_file(
        "echo.toml",
        &format!("on_load = false\n{}", route("/two", "\"none\"", "")),
    );
    let status = |path: &str| site.call("POST", path, &[], "").status;
    eventually("the new route", || status("/two") == 200);
    assert_eq!(status("/one"), 404);
}

fn routes_are_listed_and_tried(site: &Site) {
    let more = "when = { \"body.ref\" = \"main\" }\nidempotency = \"header.x-id\"";
    site.script("hook", ECHO, &route("/hook/{name}", "\"github:hook\"", more));
    let body = r#"{"ref": "main"}"#;
    let signature = format!("X-Hub-Signature-256: sha256={}", hmac("h-1", body));
    let tried = |arguments: &[&str]| {
        let run = site.fnd.ctl(&[&["routes", "test", "POST"], arguments].concat());
        (run.code, run.out())
    };
    let (code, text) = tried(&[
        "/hook/a",
        "-H",
        &signature,
        "-H",
        "content-type: application/json",
        "-d",
        body,
    ]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("credential: github:hook holds") && text.contains("parameter: name = a"),
        "{text}"
    );
    let (code, text) = tried(&["/hook/a", "-d", body]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("401") && text.contains("X-Hub-Signature-256"), "{text}");
    let (code, text) = tried(&["/nowhere"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no route has this host and path"), "{text}");
    assert_eq!(site.runs("hook"), 0, "nothing runs");
    assert_eq!(site.call("POST", "/hook/a", &[], "").status, 401);
    let listed = site.fnd.ctl(&["routes", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&listed.out()).unwrap();
    assert_eq!(list["routes"][0]["path"], "/hook/{name}");
    assert_eq!(list["routes"][0]["auth"][0], "github:hook");
    assert!(list["listen"][0].as_str().unwrap().starts_with("unix:"));
}
