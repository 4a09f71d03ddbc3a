//! What functions see of a request to a route: variables of CGI, parameters, forms; and the answers of CGI scripts.

use fnd_core::records::outcome::RunState;
use fnd_tests::client::Client;
use fnd_tests::wait::{PATIENCE, wait_until};
use fnd_tests::{Fnd, Setup};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

/// Returns an fnd with a listener on a socket, and a caller of that socket.
fn start_with(setup: &Setup) -> (Fnd, Client) {
    let mut fnd = Fnd::prepare(setup);
    let socket = fnd.path("run/http.sock");
    let configuration = fnd.path("fnd.toml");
    let before = fs::read_to_string(&configuration).unwrap();
    fs::write(
        &configuration,
        format!("{before}\n[http]\nlisten = \"unix:{}\"\n", socket.display()),
    )
    .unwrap();
    fnd.launch();
    (fnd, Client::new(&socket))
}

fn route(path: &str, more: &str) -> String {
    format!(
        "on_load = false\n[[http]]\npath = \"{path}\"\nmethods = [\"GET\", \"POST\", \"PUT\"]\nauth = \"none\"\n{more}"
    )
}

const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=x");

/// Each of these has a route of its own.
#[test]
fn requests_and_answers_of_routes() {
    let (fnd, listener) = start_with(&Setup::default());
    a_script_has_the_variables_of_cgi(&fnd, &listener);
    a_handler_in_bash_has_the_variables_too(&fnd, &listener);
    a_handler_has_parameters_and_files(&fnd, &listener);
    a_cgi_script_answers_with_status_headers_and_bytes(&fnd, &listener);
    fnd.finish();
}

fn a_script_has_the_variables_of_cgi(fnd: &Fnd, listener: &Client) {
    let code = "printf '%s\\n' \"$REQUEST_METHOD\" \"$SCRIPT_NAME\" \"$PATH_INFO\" \"$QUERY_STRING\" \"$CONTENT_TYPE\" \\
        \"$CONTENT_LENGTH\" \"$SERVER_PROTOCOL\" \"$FND_PARAM_USER_ID\" \"$FND_TRIGGER\" \"$HTTP_X_A_B\" \\
        \"${HTTP_PROXY-none}\" \"$HTTP_OWN\" \"$QUERY\" \"$(cat)\"\n";
    let manifest = route(
        "/users/{user-id}",
        "[env]\nHTTP_OWN = \"author\"\nQUERY = \"kept\"\nREQUEST_METHOD = \"x\"\n",
    );
    fnd.install("users.sh", &manifest, code);
    let headers = [
        ("content-type", "text/plain"),
        ("x-a-b", "right"),
        ("x-a_b", "wrong"),
        ("proxy", "http://evil"),
        ("own", "caller"),
    ];
    let answer = listener.call("PUT", "/users/a%20b?c=d%20e", &headers, b"body");
    let expected = "PUT\n/users\n/a b\nc=d%20e\ntext/plain\n4\nHTTP/1.1\na b\nhttp\nright\nnone\nauthor\nkept\nbody\n";
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, expected));
    // Through the control socket the function has no request.
    let answer = fnd.invoke("users", "");
    assert!(answer.text().starts_with("x\n\n\n\n"), "{}", answer.text());
}

fn a_handler_in_bash_has_the_variables_too(fnd: &Fnd, listener: &Client) {
    let code = "handler() { echo \"$REQUEST_METHOD $FND_PARAM_ID $HTTP_X_NAME $(cat)\"; }\n";
    fnd.install("sh.sh", &route("/sh/{id}", ""), code);
    let call = || {
        listener
            .call("POST", "/sh/7", &[("x-name", "\u{e9} \"q\"")], b"body")
            .text()
    };
    assert_eq!(call(), "POST 7 \u{e9} \"q\" body\n");
}

fn a_handler_has_parameters_and_files(fnd: &Fnd, listener: &Client) {
    let code = "
def handler(event, context):
    request = event.extensions['request']
    return [request.route, request.url_args, dict(request.params), request.forms.a, request.files['f'].filename, request.files['f'].read().decode()]
";
    fnd.install("py.py", &route("/albums/{id}", ""), code);
    let body = b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x\r\n\
        Content-Disposition: form-data; name=f; filename=\"../f.txt\"\r\n\r\nfile\r\n--x--\r\n";
    let answer = listener.call("POST", "/albums/7", &[FORM], body);
    assert_eq!(
        answer.json::<Value>(),
        json!(["/albums/{id}", {"id": "7"}, {"a": "1", "id": "7"}, "1", "f.txt", "file"])
    );
    let answer = listener.call("POST", "/albums/7", &[FORM], b"no form");
    assert_eq!(answer.status.as_u16(), 400, "{}", answer.text());
    assert!(answer.text().contains("boundary"), "{}", answer.text());
}

fn a_cgi_script_answers_with_status_headers_and_bytes(fnd: &Fnd, listener: &Client) {
    let code = "echo log >&2\ncase $PATH_INFO in
/picture) printf 'Content-Type: image/png\\r\\nX-Made: by script\\r\\n\\r\\n'; head -c 300000 /dev/urandom | tee $HOME/picture;;
/gone) printf 'Status: 410 Gone\\nContent-Type: text/plain\\n\\ngone\\n';;
/old) printf 'Location: /cgi/new\\n\\n';;
/failed) printf 'Content-Type: text/plain\\n\\nhalf'; exit 3;;
/large) printf 'Content-Type: text/plain\\n\\n'; head -c 7000000 /dev/zero;;
*) echo no header;;
esac\n";
    fnd.install("cgi.sh", &route("/cgi/{*rest}", "response = \"cgi\"\n"), code);
    let picture = listener.call("GET", "/cgi/picture", &[], b"");
    assert_eq!(
        (picture.status.as_u16(), picture.header("content-type")),
        (200, Some("image/png"))
    );
    assert_eq!(picture.header("x-made"), Some("by script"));
    assert!(picture.body == fs::read(fnd.path("state/home/cgi/picture")).unwrap());
    // What is the answer is no log.
    let run = fnd.wait_end(Fnd::id_of(&picture));
    let texts: Vec<_> = fnd.logs(run.id).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, ["log"]);
    let gone = listener.call("GET", "/cgi/gone", &[], b"");
    assert_eq!((gone.status.as_u16(), gone.text().as_str()), (410, "gone\n"));
    let old = listener.call("GET", "/cgi/old", &[], b"");
    assert_eq!((old.status.as_u16(), old.header("location")), (302, Some("/cgi/new")));
    for (path, status, why) in [
        ("/cgi/failed", 500, "exit"),
        ("/cgi/large", 502, "limits.result"),
        ("/cgi/x", 502, "line 1 of its output is not a header"),
    ] {
        let answer = listener.call("GET", path, &[], b"");
        assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text());
        assert!(answer.text().contains(why), "{path}: {}", answer.text());
    }
}

/// The next fnd knows that the output is a document.
#[test]
fn a_cgi_script_goes_on_over_a_restart() {
    let (mut fnd, listener) = start_with(&Setup::default().detached());
    let code = "printf 'Content-Type: text/html\\n\\n<p>'\ntouch $HOME/begun\nuntil [ -e $HOME/go ]; do sleep 0.05; done\necho end\n";
    fnd.install("slow.sh", &route("/slow", "response = \"cgi\"\nasync = true\n"), code);
    let accepted = listener.call("POST", "/slow", &[], b"");
    assert_eq!(accepted.status.as_u16(), 202, "{}", accepted.text());
    let id = Fnd::id_of(&accepted);
    let home = fnd.path("state/home/slow");
    wait_until("the script to begin", PATIENCE, || {
        home.join("begun").exists().then_some(())
    });
    fnd.leave(Signal::SIGTERM);
    fnd.launch();
    fs::write(home.join("go"), "").unwrap();
    assert_eq!(fnd.wait_end(id).state, RunState::Succeeded);
    let result = fnd.result(id);
    assert_eq!(
        (result.header("content-type"), result.text().as_str()),
        (Some("text/html"), "<p>end\n")
    );
    assert_eq!(fnd.logs(id).len(), 0);
    fnd.finish();
}
