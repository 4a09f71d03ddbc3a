//! The server of a repository tells of a push (`[source] hook`).

use super::{Repository, answers, says};
use crate::listener::{hmac, secret};
use fnd_core::records::outcome::Trigger;
use fnd_tests::client::Client;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::fs;

#[test]
fn a_push_has_the_new_commit_fetched_and_strangers_have_nothing_fetched() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("one"));
    repository.commit();
    let mut fnd = Fnd::prepare(&Setup::default());
    let socket = fnd.path("run/http.sock");
    let configuration = fnd.path("fnd.toml");
    let before = fs::read_to_string(&configuration).unwrap();
    let listen = format!("{before}\n[http]\nlisten = \"unix:{}\"\n", socket.display());
    fs::write(&configuration, listen).unwrap();
    secret(&fnd, "push", "p-1\n");
    fnd.launch();
    let manifest = format!(
        "[source]\ngit = \"{}\"\nhook = true\nhook_auth = \"github:push\"\n",
        repository.path()
    );
    fnd.drop_file("web/shop/function.toml", &manifest);
    answers(&fnd, "web/shop", "one");
    let routes = fnd.ctl(&["routes"]).expect_code(0).out();
    assert!(routes.contains("/fnd/push/web/shop"), "{routes}");

    repository.write("main.py", &says("two"));
    repository.commit();
    let server = Client::new(&socket);
    let body = "{\"ref\": \"refs/heads/main\"}";
    let push = |secret: &str| {
        let signature = format!("sha256={}", hmac(secret, body));
        let headers = [("x-hub-signature-256", signature.as_str())];
        server.call("POST", "/fnd/push/web/shop", &headers, body.as_bytes())
    };
    assert_eq!(push("wrong").status, 401);
    let builds = fnd.history("fnd-build").len();
    // While the secret is on its way, the route answers 503.
    wait_until("the push to be accepted", PATIENCE, || {
        let answer = push("p-1");
        (answer.status == 202).then(|| assert!(answer.text().contains("\"web/shop\""), "{}", answer.text()))
    });
    answers(&fnd, "web/shop", "two");
    assert!(fnd.history("fnd-build").len() > builds);
    let runs = fnd.history("web/shop");
    assert!(
        runs.iter().all(|run| run.trigger == Trigger::Manual),
        "a push runs no function"
    );
    fnd.finish();
}
