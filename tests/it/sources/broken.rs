//! Web servers that fail: they hang, break off, answer with an error, or serve a damaged archive.

use super::web::Server;
use super::{Repository, answers, error_with, says};
use fnd_tests::fnd::Setup;
use fnd_tests::http_stub::HttpStub;
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};

/// Answers each request with the beginning of a response. Then it closes the connection, or (`hangs`) keeps it open until the
/// other side closes it. It ends with the test's process.
fn broken_server(hangs: bool, response: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut request = BufReader::new(connection.try_clone().unwrap());
            let mut line = String::new();
            while request.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            // A caller that has gone is what some tests wait for.
            let _ = connection.write_all(response);
            if hangs {
                let _ = request.read_to_end(&mut Vec::new());
            }
        }
    });
    at
}

const SUM: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const CUT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nonly the beginning";

/// The code `good` serves; then the manifest names another file, which cannot be fetched.
fn start_good(setup: &Setup) -> (Server, Fnd) {
    let server = Server::start();
    let sum = server.serve("good.py", says("good").as_bytes());
    let fnd = Fnd::start_with(setup);
    name(&fnd, &format!("{}/good.py", server.at), &sum);
    answers(&fnd, "shop", "good");
    (server, fnd)
}

fn name(fnd: &Fnd, url: &str, sum: &str) {
    fnd.drop_file("shop.toml", &format!("[source]\nurl = \"{url}\"\nsha256 = \"{sum}\"\n"));
}

#[test]
fn a_server_that_never_ends_its_answer_ends_at_the_time_limit_and_the_version_before_serves() {
    require!(root, cgroup);
    let (_server, fnd) = start_good(&Setup::default().config("[build]\ntimeout = \"15s\"\n"));
    name(&fnd, &format!("{}/shop.tar.gz", broken_server(true, CUT)), SUM);
    let error = error_with(&fnd, "shop", "(timeout)");
    assert!(error.contains("fetching its code from http://127.0.0.1:"), "{error}");
    assert_eq!(fnd.invoke("shop", "").text(), "good");
    fnd.finish();
}

#[test]
fn an_edit_while_code_waits_to_be_fetched_does_not_lose_what_is_fetched() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("one"));
    repository.commit();
    let fnd = Fnd::start_with(&Setup::default().config("[build]\ntimeout = \"10s\"\n"));
    let manifest = |more: &str| format!("{more}\n[source]\ngit = \"{}\"\n", repository.path());
    fnd.drop_file("shop.toml", &manifest(""));
    answers(&fnd, "shop", "one");
    // A build that hangs: the next one waits for its turn.
    let url = format!("{}/slow.py", broken_server(true, CUT));
    fnd.drop_file("slow.toml", &format!("[source]\nurl = \"{url}\"\nsha256 = \"{SUM}\"\n"));
    let fetches = |function: &str| {
        wait_until("its code to be fetched", PATIENCE, || {
            let warning = fnd.function(function)?.warning?;
            warning.contains("being fetched").then_some(())
        });
    };
    fetches("slow");
    repository.write("main.py", &says("two"));
    repository.commit();
    std::thread::scope(|scope| {
        let build = scope.spawn(|| fnd.ctl(&["build", "shop"]));
        fetches("shop");
        let before = fnd.function("shop").unwrap().version;
        fnd.drop_file("shop.toml", &manifest("description = \"edited\""));
        let _ = fnd.wait_function("shop", "to serve its new manifest", |function| {
            function.version != before
        });
        assert_eq!(fnd.invoke("shop", "").text(), "one");
        let _ = build.join().unwrap().expect_code(0);
    });
    answers(&fnd, "shop", "two");
    fnd.finish();
}

#[test]
fn a_damaged_archive_is_refused_and_the_version_before_serves() {
    require!(root, cgroup);
    let (server, fnd) = start_good(&Setup::default());
    let packed = server.path("whole");
    fs::create_dir(&packed).unwrap();
    fs::write(packed.join("main.py"), says("from an archive")).unwrap();
    let mut noise = Vec::new(); // which no compression makes smaller
    let random = fs::File::open("/dev/urandom").unwrap();
    random.take(200_000).read_to_end(&mut noise).unwrap();
    fs::write(packed.join("data.bin"), noise).unwrap();
    let tar = Command::new("tar")
        .args(["-czf", "whole.tar.gz", "whole"])
        .current_dir(server.path(""))
        .status();
    assert!(tar.unwrap().success());
    let whole = fs::read(server.path("whole.tar.gz")).unwrap();
    // As of an upload to the server that broke off, whose sum somebody has written down.
    let sum = server.serve("shop.tar.gz", &whole[..whole.len() / 2]);
    name(&fnd, &format!("{}/shop.tar.gz", server.at), &sum);
    let error = error_with(&fnd, "shop", "it is damaged");
    assert!(
        error.contains("functions/shop.toml") && !error.contains("/deps/"),
        "{error}"
    );
    assert_eq!(fnd.invoke("shop", "").text(), "good");
    let sum = server.serve("shop.tar.gz", &whole);
    name(&fnd, &format!("{}/shop.tar.gz", server.at), &sum);
    answers(&fnd, "shop", "from an archive");
    fnd.finish();
}

#[test]
fn a_server_that_fails_is_asked_again_and_its_last_answer_is_the_reason() {
    require!(root, cgroup);
    let (_server, fnd) = start_good(&Setup::default());
    // The first function is served at the second attempt, without a person.
    let busy = HttpStub::start(&[503, 200], "def handler(event, context):\n    return 'later'\n");
    let sum = "70818ef4d617d5ac81a3bb7cb07dfeaa8f3235441e000353c864adaae5132e57";
    let manifest = format!("[source]\nurl = \"{}/busy.py\"\nsha256 = \"{sum}\"\n", busy.url());
    fnd.drop_file("busy.toml", &manifest);
    answers(&fnd, "busy", "later");
    assert_eq!(busy.seen().len(), 2);
    // The second one is refused after the last attempt.
    let broken = HttpStub::start(&[500], "");
    name(&fnd, &format!("{}/shop.py", broken.url()), SUM);
    let error = error_with(&fnd, "shop", "500");
    assert!(error.contains("fetching its code from"), "{error}");
    assert_eq!(broken.seen().len(), 4);
    assert_eq!(fnd.invoke("shop", "").text(), "good");
    fnd.finish();
}

/// Runs the program that fetches, without fnd; returns its end, and whether it has left something.
fn fetch(url: &str, bytes_max: u64) -> (Output, bool) {
    let home = tempfile::tempdir().unwrap();
    let dir = |name: &str| {
        let dir = home.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    };
    let (code, state) = (dir("TREE/code"), dir("state"));
    let output = Command::new("prlimit")
        .args([&format!("--fsize={bytes_max}"), "--core=0", "/bin/bash"])
        .arg(repository().join("runtimes/bash/fetch.sh"))
        .arg(code.join("fnd-build.json"))
        .args(["url", url, SUM, "shop.tar.gz"])
        .env("STATE_DIRECTORY", &state)
        .output()
        .unwrap();
    (output, fs::read_dir(state).unwrap().next().is_some())
}

#[test]
fn what_a_server_does_wrong_is_the_reason_and_tells_whether_another_attempt_may_help() {
    let endless: &'static [u8] = Vec::leak([b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &[b'x'; 3_000_000]].concat());
    let cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly ";
    let refused = b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n";
    let denied = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n";
    let large = b"HTTP/1.1 200 OK\r\nContent-Length: 536870913\r\n\r\n";
    for (response, code, why) in [
        (CUT, 75, "bytes remaining"),
        (cut, 75, "transfer closed"),
        (refused, 75, "500"),
        (b"", 75, "Empty reply"),
        (denied, 65, "403"),
        (large, 65, "larger than 512 MiB"),
        (endless, 65, "larger than 512 MiB"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            65,
            "the manifest says",
        ),
    ] {
        let (output, left) = fetch(&format!("{}/shop.tar.gz", broken_server(false, response)), 1_000_000);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{why}: {said}");
        assert!(said.contains(why), "{said}");
        assert!(!left, "{why}: something is left");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (output, left) = fetch(&format!("http://{nobody}/shop.tar.gz"), 1_000_000);
    assert_eq!((output.status.code(), left), (Some(75), false));
}
