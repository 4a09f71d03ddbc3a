//! Pages in a browser: calls of another origin, server-sent events.

use super::programs::SERVER;
use super::*;
use fnd_tests::programs::chromium;
use fnd_tests::require;
use std::process::{Child, Command, Stdio};

/// A page that calls another origin with a header of its own, which needs a preflight, then reads three events, and
/// posts what it saw.
const PAGE: &str = r#"<!doctype html><script type="module">
const asked = fetch("API", {method: "PUT", headers: {"x-mine": "1"}, body: "x"});
const called = await asked.then(answer => answer.text()).catch(() => "refused");
const events = await new Promise(resolve => {
    const got = [], source = new EventSource("/events");
    source.onmessage = event => {
        got.push(event.data);
        if (got.length == 3) { source.close(); resolve(got.join()); }
    };
});
await fetch("/seen", {method: "POST", body: `${location.hostname} ${called} ${events}\n`});
</script>
"#;

/// A browser without a window; killed when it is dropped.
struct Browser(Child);

impl Browser {
    fn open(fnd: &Fnd, url: &str) -> Self {
        let home = fnd.path("browser");
        let profile = format!("--user-data-dir={}", home.join("profile").display());
        let child = Command::new(chromium().unwrap())
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--disable-quic",
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args(["--disable-sync", "--no-proxy-server", &profile, url])
            .env("HOME", &home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its processes end with the first one.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_page_of_an_allowed_origin_reads_answers_and_every_page_reads_events() {
    require!(chromium);
    let site = Site::start("", &[]);
    let (of_page, of_api) = (free_port(), free_port());
    configure(
        &site.fnd,
        &format!("listen = [\"127.0.0.1:{of_page}\", \"127.0.0.1:{of_api}\"]"),
    );
    let page = PAGE.replace("API", &format!("http://127.0.0.1:{of_api}/api"));
    let code = format!("cat <<'END'\nContent-Type: text/html\n\n{page}\nEND\n");
    let manifest = route("/page", "\"none\"", "response = \"cgi\"\nmethods = [\"GET\"]");
    site.script("page", &code, &manifest);
    let cors = format!("cors = [\"http://127.0.0.1:{of_page}\"]\nmethods = [\"PUT\"]");
    site.script(
        "api",
        "printf '%s' \"$HTTP_X_MINE\"\n",
        &route("/api", "\"none\"", &cors),
    );
    let manifest = format!("[http_server]\n{}", route("/events", "\"none\"", ""));
    site.function("events", "py", SERVER, &manifest);
    site.script(
        "seen",
        "cat >> \"$STATE_DIRECTORY/seen\"\n",
        &route("/seen", "\"none\"", ""),
    );
    let seen = || fs::read_to_string(site.fnd.path("state/home/seen/seen")).unwrap_or_default();
    // The same page by two names is of two origins.
    for (host, expected) in [
        ("127.0.0.1", "127.0.0.1 1 0,1,2\n"),
        ("localhost", "127.0.0.1 1 0,1,2\nlocalhost refused 0,1,2\n"),
    ] {
        let browser = Browser::open(&site.fnd, &format!("http://{host}:{of_page}/page"));
        let what = format!("the page of {host} to end");
        wait_until(&what, 2 * PATIENCE, || {
            (seen().lines().count() == expected.lines().count()).then_some(())
        });
        assert_eq!(seen(), expected);
        drop(browser);
    }
    site.fnd.finish();
}
