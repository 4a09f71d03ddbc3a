//! Uploads through the API: created, replaced, refused and removed, over races, bad input and kills.

use fnd_tests::client::Answer;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::thread;

const FORM: (&str, &str) = ("content-type", "multipart/form-data; boundary=x-x");

/// Returns a form with a source of this file name, and perhaps a manifest.
fn form(file: &str, source: &str, manifest: Option<&[u8]>) -> Vec<u8> {
    let mut body =
        format!("--x-x\r\nContent-Disposition: form-data; name=\"source\"; filename=\"{file}\"\r\n\r\n{source}\r\n")
            .into_bytes();
    if let Some(manifest) = manifest {
        body.extend_from_slice(b"--x-x\r\nContent-Disposition: form-data; name=\"manifest\"\r\n\r\n");
        body.extend_from_slice(manifest);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--x-x--\r\n");
    body
}

/// Each of these removes its uploads, but for the last one.
#[test]
fn uploads_by_the_api_and_by_fndctl() {
    let fnd = Fnd::start();
    an_upload_makes_exactly_the_function_that_it_is_named_for(&fnd);
    bad_input_is_refused_and_leaves_nothing(&fnd);
    an_upload_is_answered_when_it_serves(&fnd);
    a_refused_upload_changes_nothing(&fnd);
    of_a_hundred_uploads_at_once_one_serves_whole(&fnd);
    fndctl_deploys_files_directories_and_archives(&fnd);
    conditions_and_other_directories(&fnd);
    fnd.finish();
}

/// Otherwise who may upload one function could make, block or change those of others.
fn an_upload_makes_exactly_the_function_that_it_is_named_for(fnd: &Fnd) {
    let function = |name: &str| {
        format!(
            "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {{name: {name}}}\nspec:\n  runtime: python3\n  handler: \
             x.run\n  function: |\n    def run(event, context):\n        return 1\n"
        )
    };
    let both = format!("{}---\n{}", function("mine"), function("theirs"));
    let refused = put_with(fnd, "web/mine", &[], &form("a.yaml", &both, None));
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(
        refused.text().contains("also makes the function `theirs`"),
        "{}",
        refused.text()
    );
    assert_eq!(uploads(fnd), [""; 0]);
    let trigger = "apiVersion: kubeless.io/v1beta1\nkind: HTTPTrigger\nmetadata: {name: t}\nspec: {function-name: theirs, path: x}\n";
    let subscription = "apiVersion: eventing.kyma-project.io/v1alpha2\nkind: Subscription\nmetadata: {name: s}\nspec:\n  sink: http://theirs.default\n  types: [a.b]\n";
    for (object, line) in [(trigger, 14), (subscription, 15)] {
        let alone = format!("{}---\n{object}", function("mine"));
        let refused = put_with(fnd, "web/mine", &[], &form("a.yaml", &alone, None));
        let text = refused.text();
        assert_eq!(refused.status, 422, "{text}");
        for part in [
            "web/mine.yaml",
            &format!("\"line\":{line}"),
            "foreign-refused",
            "an upload changes only `web/mine`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(uploads(fnd), [""; 0]);
    }
    let answer = put_with(fnd, "web/mine", &[], &form("a.yaml", &function("mine"), None));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let answer = put_with(fnd, "web/theirs", &[], &form("a.yaml", &function("theirs"), None));
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(delete(fnd, "web/mine").status.as_u16(), 200);
    assert_eq!(delete(fnd, "web/theirs").status.as_u16(), 200);
}

fn says(text: &str) -> String {
    format!("# /// fnd\n# on_load = false\n# ///\necho {text}\n")
}

fn path(function: &str) -> String {
    format!("/v1/functions/{}", function.replace('/', "%2F"))
}

fn put_with(fnd: &Fnd, function: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let headers: Vec<(&str, &str)> = std::iter::once(FORM).chain(headers.iter().copied()).collect();
    fnd.client().call("PUT", &path(function), &headers, body)
}

fn put(fnd: &Fnd, function: &str, text: &str) -> Answer {
    put_with(fnd, function, &[], &form("a.sh", &says(text), None))
}

fn delete(fnd: &Fnd, function: &str) -> Answer {
    fnd.client().call("DELETE", &path(function), &[], b"")
}

/// Returns the names in the directory of uploads, and checks that no upload is under way any more.
fn uploads(fnd: &Fnd) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fnd.path("state/functions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".staging" && !name.ends_with(".uploader"))
        .collect();
    names.sort();
    let staged = fs::read_dir(fnd.path("state/functions/.staging")).map_or(0, Iterator::count);
    assert_eq!(staged, 0);
    names
}

fn an_upload_is_answered_when_it_serves(fnd: &Fnd) {
    let created = put(fnd, "hello", "one");
    assert_eq!(created.status.as_u16(), 201, "{}", created.text());
    assert_eq!(created.header("location"), Some("/v1/functions/hello"));
    let detail: serde_json::Value = created.json();
    assert_eq!(
        (&detail["uploaded"], &detail["state"]),
        (&true.into(), &"ready".into()),
        "{detail}"
    );
    let version = detail["version"].as_str().unwrap().to_owned();
    assert_eq!(created.header("etag").unwrap(), format!("\"{version}\""));
    assert_eq!(fnd.invoke("hello", "").text(), "one\n");
    let replaced = put(fnd, "hello", "two");
    assert_eq!(replaced.status.as_u16(), 200, "{}", replaced.text());
    assert_eq!(fnd.invoke("hello", "").text(), "two\n");
    // The manifest, and another suffix.
    let body = form(
        "a.py",
        "print('three')\n",
        Some(b"on_load = false\nlabels = { team = \"web\" }\n"),
    );
    let replaced: serde_json::Value = put_with(fnd, "hello", &[], &body).json();
    assert_eq!(replaced["labels"]["team"], "web", "{replaced}");
    assert_eq!(fnd.invoke("hello", "").text(), "three\n");
    assert_eq!(uploads(fnd), ["hello.py", "hello.toml"]);
    // A group.
    assert_eq!(put(fnd, "ops/backup", "group").status.as_u16(), 201);
    assert_eq!(fnd.invoke("ops/backup", "").text(), "group\n");
    let removed = delete(fnd, "ops/backup");
    assert_eq!(removed.status.as_u16(), 200, "{}", removed.text());
    assert!(
        removed.text().contains("ops/backup.sh") && removed.text().contains("history"),
        "{}",
        removed.text()
    );
    assert_eq!(fnd.client().get(&path("ops/backup")).status.as_u16(), 404);
    assert_eq!(delete(fnd, "ops/backup").status.as_u16(), 404);
    assert_eq!(uploads(fnd), ["hello.py", "hello.toml"]);
    let entries = fnd.ctl(&["audit", "-o", "json"]).expect_code(0).out();
    assert!(
        entries.contains("\"deploy\"") && entries.contains("\"remove\""),
        "{entries}"
    );
    assert_eq!(delete(fnd, "hello").status.as_u16(), 200);
}

fn a_refused_upload_changes_nothing(fnd: &Fnd) {
    assert_eq!(put(fnd, "hello", "one").status.as_u16(), 201);
    let mode = "# /// fnd\n# on_laod = false\n# ///\necho two\n";
    for (body, expected) in [
        (form("a.sh", mode, None), "on_load"),
        (form("a.sh", "echo two\n", Some(b"timeout = 3\n\xff\xfe")), "UTF-8"),
        (form("a.sh", "echo two\n", Some(b"= =")), "hello.toml:1"),
        (form("a.nonsense", "echo two\n", None), "is no function"),
        (form("a", "echo two\n", None), ""),
        (form("a.zip", "no archive", None), "hello.zip"),
        (form("a.sh", &says("two"), Some(b"on_load = false\n")), ""),
        // The judge's own problems are found before; the spawner finds this one.
        (
            form("a.sh", "echo two\n", Some(b"on_load = false\nuser = \"root\"\n")),
            "root",
        ),
    ] {
        let refused = put_with(fnd, "hello", &[], &body);
        assert_eq!(refused.status.as_u16(), 422, "{expected}: {}", refused.text());
        let problem = refused.problem();
        assert_eq!(problem.code, "invalid-manifest");
        assert!(
            !problem.diagnostics.is_empty() && refused.text().contains(expected),
            "{expected}: {}",
            refused.text()
        );
        assert!(!refused.text().contains(".staging"), "{}", refused.text());
        assert_eq!(fnd.invoke("hello", "").text(), "one\n");
        assert_eq!(uploads(fnd), ["hello.sh"]);
    }
    let new = put_with(fnd, "other", &[], &form("a.sh", mode, None));
    assert_eq!(new.status.as_u16(), 422, "{}", new.text());
    assert_eq!(fnd.client().get(&path("other")).status.as_u16(), 404);
    // A handler that cannot be loaded is refused, too, and the version before goes on.
    let handler = |code: &str| form("a.py", code, Some(b"on_load = false\nmode = \"handler\"\n"));
    let good = put_with(
        fnd,
        "calls",
        &[],
        &handler("def handler(event, context):\n    return 1\n"),
    );
    assert_eq!(good.status.as_u16(), 201, "{}", good.text());
    assert_eq!(fnd.invoke("calls", "").text(), "1");
    let bad = put_with(
        fnd,
        "calls",
        &[],
        &handler("import nowhere\ndef handler(event, context):\n    return 2\n"),
    );
    assert_eq!(bad.status.as_u16(), 422, "{}", bad.text());
    assert!(bad.text().contains("nowhere"), "{}", bad.text());
    wait_until("the version before", PATIENCE, || {
        (fnd.invoke("calls", "").text() == "1").then_some(())
    });
    let detail: serde_json::Value = fnd.client().get(&path("calls")).json();
    assert_eq!(detail["error"], serde_json::Value::Null, "{detail}");
    assert_eq!(uploads(fnd), ["calls.py", "calls.toml", "hello.sh"]);
    assert_eq!(delete(fnd, "hello").status.as_u16(), 200);
    assert_eq!(delete(fnd, "calls").status.as_u16(), 200);
}

/// Whoever may upload a function grants it nothing that only root may, whoever owns the files.
#[test]
fn an_uploaded_manifest_grants_nothing() {
    let settings = "[users]\nallow_root = true\nallow = [\"daemon\"]\n[sandbox]\nprofile = \"standard\"\n";
    let fnd = Fnd::start_with(&Setup::default().config(settings));
    for manifest in [
        "user = \"root\"",
        "user = \"daemon\"",
        "[sandbox]\nprofile = \"off\"",
        "[sandbox]\nread_write = [\"/etc\"]",
        "[access]\ninvoke = [\"*\"]",
        "[secrets]\nkey = \"key\"",
    ] {
        let text = format!("{}on_load = false\n{}", "", manifest);
        let (first, rest) = text.split_once('\n').unwrap();
        let body = form("a.sh", "id\n", Some(format!("{first}\n{rest}\n").as_bytes()));
        let refused = put_with(&fnd, "greedy", &[], &body);
        assert_eq!(refused.status.as_u16(), 422, "{manifest}: {}", refused.text());
    }
    // Past the check before the upload: the spawner refuses the same.
    for (name, manifest) in [
        ("a", "user = \"root\"\n"),
        ("b", "[sandbox]\nprofile = \"off\"\n"),
        ("c", "[access]\ninvoke = [\"*\"]\n"),
    ] {
        fs::write(
            fnd.path(&format!("state/functions/{name}.toml")),
            format!("on_load = false\n{manifest}"),
        )
        .unwrap();
        fs::write(fnd.path(&format!("state/functions/{name}.sh")), "id\n").unwrap();
        let _ = fnd.wait_error(name);
    }
}

fn conditions_and_other_directories(fnd: &Fnd) {
    fnd.drop_file("etc.sh", &says("etc"));
    fnd.wait_ready("etc");
    for refused in [put(fnd, "etc", "mine"), delete(fnd, "etc")] {
        assert_eq!(
            (refused.status.as_u16(), refused.problem().code.as_str()),
            (409, "not-uploaded"),
            "{}",
            refused.text()
        );
        assert!(refused.text().contains("functions/etc.sh"), "{}", refused.text());
    }
    assert!(delete(fnd, "etc").text().contains("sudo rm "));
    let body = |text: &str| form("a.sh", &says(text), None);
    let created = put_with(fnd, "hello", &[("if-none-match", "*")], &body("one"));
    assert_eq!(created.status.as_u16(), 201, "{}", created.text());
    let tag = created.header("etag").unwrap().to_owned();
    let again = put_with(fnd, "hello", &[("if-none-match", "*")], &body("two"));
    assert_eq!(
        (again.status.as_u16(), again.problem().code.as_str()),
        (409, "conflict"),
        "{}",
        again.text()
    );
    assert_eq!(
        put_with(fnd, "hello", &[("if-match", &tag)], &body("two"))
            .status
            .as_u16(),
        200
    );
    let old = put_with(fnd, "hello", &[("if-match", &tag)], &body("three"));
    assert_eq!(
        (old.status.as_u16(), old.problem().code.as_str()),
        (409, "conflict"),
        "{}",
        old.text()
    );
    assert_eq!(
        put_with(fnd, "hello", &[("if-match", "7")], &body("three"))
            .status
            .as_u16(),
        400
    );
    let dry = fnd
        .client()
        .call("PUT", "/v1/functions/hello?dry_run=1", &[FORM], &body("three"));
    assert_eq!(
        (dry.status.as_u16(), dry.json::<serde_json::Value>()["valid"].clone()),
        (200, true.into())
    );
    assert_eq!(fnd.invoke("hello", "").text(), "two\n");
    // A file of the first directory wins over an upload, and that is said; then the upload can still be removed.
    fnd.drop_file("hello.sh", &says("etc"));
    wait_until("the file", PATIENCE, || {
        (fnd.invoke("hello", "").text() == "etc\n").then_some(())
    });
    let problem = fnd.wait_problem("is not used");
    assert!(
        problem.contains("state/functions/hello.sh") && problem.contains("functions/hello.sh"),
        "{problem}"
    );
    let removed = delete(fnd, "hello");
    assert_eq!(removed.status.as_u16(), 200, "{}", removed.text());
    assert!(
        removed.json::<serde_json::Value>()["serves"]
            .as_str()
            .unwrap()
            .ends_with("functions/hello.sh")
    );
    assert_eq!(fnd.invoke("hello", "").text(), "etc\n");
    assert_eq!(uploads(fnd), [""; 0]);
}

fn bad_input_is_refused_and_leaves_nothing(fnd: &Fnd) {
    let good = form("a.sh", &says("one"), None);
    let call = |function: &str, kind: &str, body: &[u8]| {
        fnd.client().call(
            "PUT",
            &format!("/v1/functions/{function}"),
            &[("content-type", kind)],
            body,
        )
    };
    let twice = [&good[..good.len() - 9], &good[..]].concat();
    for (function, kind, body) in [
        ("hello", "text/plain", &good[..]),
        ("hello", "multipart/form-data", &good),
        ("hello", FORM.1, b""),
        ("hello", FORM.1, &good[..good.len() - 20]),
        ("hello", FORM.1, &twice),
        ("hello", FORM.1, &form("../../etc/a.sh", "x", None)),
        ("hello", FORM.1, &form("/etc/a.sh", "x", None)),
        ("hello", FORM.1, &form("a\0.sh", "x", None)),
        ("hello", FORM.1, &form("a.sh", "", None)),
        ("Hello", FORM.1, &good),
        ("..%2Fhello", FORM.1, &good),
        ("a%2Fb%2Fc", FORM.1, &good),
        ("%2Fetc%2Fpasswd", FORM.1, &good),
        ("hello%00", FORM.1, &good),
        (".staging", FORM.1, &good),
    ] {
        let refused = call(function, kind, body);
        assert!(
            [400, 404].contains(&refused.status.as_u16()),
            "{function} {kind}: {} {}",
            refused.status.as_u16(),
            refused.text()
        );
    }
    let large = vec![b'x'; (64 << 20) + 1];
    assert_eq!(call("hello", "application/zip", &large).status.as_u16(), 413);
    assert_eq!(call("hello", "application/gzip", &large[..1000]).status.as_u16(), 422);
    assert_eq!(uploads(fnd), [""; 0]);
    // The connection ends in the middle.
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    let head = format!(
        "PUT /v1/functions/hello HTTP/1.1\r\nhost: fnd\r\ncontent-type: {}\r\ncontent-length: 5000\r\n\r\n",
        FORM.1
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&good[..50]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(fnd.client().get("/v1/functions/hello").status.as_u16(), 404);
    assert_eq!(put(fnd, "hello", "one").status.as_u16(), 201);
    assert_eq!(uploads(fnd), ["hello.sh"]);
    assert_eq!(delete(fnd, "hello").status.as_u16(), 200);
}

fn of_a_hundred_uploads_at_once_one_serves_whole(fnd: &Fnd) {
    assert_eq!(put(fnd, "hello", "start").status.as_u16(), 201);
    let socket = fnd.client();
    let answers: Vec<(usize, Answer)> = thread::scope(|scope| {
        let one = |number: usize| {
            let client = &socket;
            scope.spawn(move || {
                let manifest = format!("on_load = false\nlabels = {{ number = \"{number}\" }}\n");
                let body = form("a.sh", &format!("echo {number}\n"), Some(manifest.as_bytes()));
                (number, client.call("PUT", "/v1/functions/hello", &[FORM], &body))
            })
        };
        let all: Vec<_> = (0..100).map(one).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut done = Vec::new();
    for (number, answer) in &answers {
        match answer.status.as_u16() {
            200 => {
                let detail: serde_json::Value = answer.json();
                assert_eq!(detail["labels"]["number"], number.to_string(), "{detail}");
                done.push(number.to_string());
            }
            409 => assert_eq!(answer.problem().code, "conflict"),
            status => panic!("{status} {}", answer.text()),
        }
    }
    assert!(!done.is_empty());
    let text = fnd.invoke("hello", "").text();
    assert!(done.contains(&text.trim().to_owned()), "{text} {done:?}");
    let detail: serde_json::Value = fnd.client().get("/v1/functions/hello").json();
    assert_eq!(detail["labels"]["number"], text.trim(), "{detail}");
    assert_eq!(uploads(fnd), ["hello.sh", "hello.toml"]);
    assert_eq!(delete(fnd, "hello").status.as_u16(), 200);
}

#[test]
fn a_killed_fnd_has_the_old_upload_or_the_new_one() {
    let mut fnd = Fnd::start();
    assert_eq!(put(&fnd, "hello", "0").status.as_u16(), 201);
    let mut last = "0".to_owned();
    for round in 1..=8_u64 {
        let (client, text) = (fnd.client(), round.to_string());
        let body = form("a.py", &format!("print({text})\n"), Some(b"on_load = false\n"));
        let answered = thread::spawn(move || client.try_call("PUT", "/v1/functions/hello", &[FORM], &body));
        // At another step in each round, if the upload is not faster.
        let step = ["", "new/hello.py", "old.part", "old", "../../hello.py"][usize::try_from(round).unwrap() % 5];
        let place = fnd.path("state/functions/.staging/hello").join(step);
        wait_until("the upload", PATIENCE, || {
            (place.exists() || answered.is_finished()).then_some(())
        });
        fnd.kill();
        let answer = answered.join().unwrap();
        fnd.launch();
        fnd.wait_ready("hello");
        let now = fnd.invoke("hello", "").text().trim().to_owned();
        match answer {
            Ok(answer) => assert_eq!((answer.status.as_u16(), &now), (200, &text), "{}", answer.text()),
            Err(_) => assert!(now == text || now == last, "{now} is neither {last} nor {text}"),
        }
        let files = uploads(&fnd);
        assert!(
            files == ["hello.sh"] || files == ["hello.py", "hello.toml"],
            "{files:?}"
        );
        last = now;
    }
}

/// `nobody` is admin of `web/*` only, and operates everything.
const ROLES: &str = "[[access]]\nuser = \"nobody\"\nrole = \"admin\"\nfunctions = [\"web/*\"]\n\
                     [[access]]\nuser = \"nobody\"\nrole = \"operator\"\n\
                     [[access]]\nuser = \"daemon\"\nrole = \"admin\"\nfunctions = [\"other\"]\n";

#[test]
fn only_an_admin_of_the_function_uploads_it() {
    use std::os::unix::process::CommandExt as _;
    require!(root);
    let fnd = Fnd::start_with(&Setup::default().config(ROLES));
    fs::set_permissions(fnd.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let fndctl = fnd.path("fndctl");
    fs::copy(fnd_tests::programs::program("fndctl"), &fndctl).unwrap();
    let shared = fnd.shared_directory("work");
    fs::write(shared.join("a.sh"), says("by nobody")).unwrap();
    let run = |user: &str, arguments: &[&str]| {
        let user = nix::unistd::User::from_name(user).unwrap().unwrap();
        let mut command = std::process::Command::new(&fndctl);
        command
            .args(arguments)
            .env_clear()
            .env("FND_SOCKET", fnd.socket())
            .current_dir(&shared);
        let output = command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (
            output.status.code().unwrap(),
            String::from_utf8_lossy(&printed).into_owned(),
        )
    };
    let (code, printed) = run("nobody", &["deploy", "a.sh", "--name", "web/a"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(fnd.invoke("web/a", "").text(), "by nobody\n");
    for (user, arguments, expected) in [
        ("nobody", &["deploy", "a.sh", "--name", "ops"][..], 5),
        ("daemon", &["deploy", "a.sh", "--name", "web/a"], 3),
        ("bin", &["deploy", "a.sh", "--name", "web/a"], 5),
        ("daemon", &["remove", "web/a", "--yes"], 3),
        ("bin", &["remove", "web/a", "--yes"], 5),
    ] {
        let (code, printed) = run(user, arguments);
        assert_eq!(code, expected, "{user} {arguments:?}: {printed}");
    }
    assert_eq!(uploads(&fnd), ["web"]);
    let (code, printed) = run("nobody", &["remove", "web/a", "--yes"]);
    assert_eq!(code, 0, "{printed}");
    assert_eq!(uploads(&fnd), [""; 0]);
}

fn fndctl_deploys_files_directories_and_archives(fnd: &Fnd) {
    let work = fnd.shared_directory("work");
    let at = |name: &str| work.join(name).display().to_string();
    fs::write(work.join("hello.sh"), "echo \"$GREETING\"\n").unwrap();
    fs::write(
        work.join("hello.toml"),
        "on_load = false\nsize = \"S\"\n[env]\nGREETING = \"moin\"\n",
    )
    .unwrap();
    let run = fnd.ctl(&["deploy", &at("hello.sh")]).expect_code(0);
    assert!(run.out().contains("hello: created, bash"), "{}", run.out());
    assert_eq!(fnd.invoke("hello", "").text(), "moin\n");
    let run = fnd
        .ctl(&[
            "deploy",
            &at("hello.sh"),
            "--env",
            "GREETING=hi",
            "--set",
            "labels.team=web",
        ])
        .expect_code(0);
    assert!(run.out().contains("hello: replaced"), "{}", run.out());
    assert!(run.stderr.contains("wins over `env.GREETING`"), "{}", run.stderr);
    assert_eq!(fnd.invoke("hello", "").text(), "hi\n");
    // A directory.
    let shop = work.join("shop");
    fs::create_dir_all(shop.join("lib")).unwrap();
    fs::create_dir_all(shop.join("node_modules/x")).unwrap();
    fs::write(shop.join("function.toml"), "on_load = false\n").unwrap();
    fs::write(shop.join("main.sh"), ". ./lib/words.sh\nwords\n").unwrap();
    fs::write(shop.join("lib/words.sh"), "words() { echo from the library; }\n").unwrap();
    let run = fnd.ctl(&["deploy", &at("shop"), "-o", "json"]).expect_code(0);
    let version = run.json()["version"].as_str().unwrap().to_owned();
    assert!(
        run.stderr.contains("not sent: ") && run.stderr.contains("node_modules"),
        "{}",
        run.stderr
    );
    assert_eq!(fnd.invoke("shop", "").text(), "from the library\n");
    assert_eq!(uploads(fnd), ["hello.sh", "hello.toml", "shop.tar.gz"]);
    let wrong = fnd
        .ctl(&["deploy", &at("shop"), "--if-version", "sha256:0000"])
        .expect_code(7);
    assert!(wrong.stderr.contains("nothing was changed"), "{}", wrong.stderr);
    let _ = fnd
        .ctl(&["deploy", &at("shop"), "--if-version", &version[..14], "--size", "L"])
        .expect_code(0);
    // The same files make the same archive.
    let run = fnd.ctl(&["deploy", &at("shop"), "-o", "json"]).expect_code(0);
    assert_eq!(run.json()["version"], version);
    // Mistakes are shown where they were made, and nothing changes.
    fs::write(shop.join("function.toml"), "on_laod = false\n").unwrap();
    let refused = fnd.ctl(&["deploy", &at("shop")]).expect_code(8);
    assert!(
        refused.stderr.contains(&format!("{}:1:1", at("shop/function.toml"))),
        "{}",
        refused.stderr
    );
    let refused = fnd.ctl(&["deploy", &at("shop"), "--dry-run"]).expect_code(8);
    assert!(refused.stderr.contains("on_load"), "{}", refused.stderr);
    let _ = fnd.ctl(&["deploy", &at("nowhere.sh")]).expect_code(2);
    let _ = fnd.ctl(&["deploy", &at("hello.sh"), "--new"]).expect_code(7);
    let _ = fnd.ctl(&["deploy", &at("hello.sh"), "--name", "No"]).expect_code(2);
    std::os::unix::fs::symlink("/etc/passwd", shop.join("link")).unwrap();
    let _ = fnd.ctl(&["deploy", &at("shop")]).expect_code(2);
    assert!(
        fnd.ctl(&["cat", "hello", "-o", "raw"])
            .expect_code(0)
            .out()
            .contains("GREETING")
    );
    let run = fnd.ctl(&["remove", "shop", "hello"]).expect_code(0);
    assert!(
        run.out().contains("shop: removed") && run.stderr.contains("history"),
        "{} {}",
        run.out(),
        run.stderr
    );
    assert_eq!(uploads(fnd), [""; 0]);
}

/// Uploads are state: a backup has them, and a restored fnd serves them.
#[test]
fn a_backup_has_uploads() {
    let fnd = Fnd::start();
    assert_eq!(put(&fnd, "hello", "kept").status.as_u16(), 201);
    let archive = fnd.path("backup.tar").display().to_string();
    let _ = fnd.ctl(&["backup", &archive]).expect_code(0);
    let other = Fnd::prepare(&Setup::default());
    let to = |name: &str| other.path(name).display().to_string();
    let arguments = [
        "restore",
        &archive,
        "--functions",
        &to("functions"),
        "--state",
        &to("state"),
        "--config",
        &to("fnd.toml"),
        "--force",
    ]
    .map(str::to_owned);
    let _ = other.ctl(&arguments).expect_code(0);
    // The restored configuration has the users of the first one.
    drop(fnd);
    let mut other = other;
    other.launch();
    other.wait_ready("hello");
    assert_eq!(other.invoke("hello", "").text(), "kept\n");
    let detail: serde_json::Value = other.client().get(&path("hello")).json();
    assert_eq!(detail["uploaded"], true);
}

/// A6: a drain starts no worker, so a trial would never end.
#[test]
fn an_upload_during_a_drain_is_refused_at_once() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let gate = fnd.shared_directory("gate").join("open");
    let handler = |n: u32| format!("def handler(event, context):\n    return {n}\n");
    let file = fnd.path("f.py");
    fs::write(&file, handler(1)).unwrap();
    let deploy = ["deploy", file.to_str().unwrap()];
    let _ = fnd.ctl(&deploy).expect_code(0);
    let waits = format!("while [ ! -e {} ]; do sleep 0.02; done\n", gate.display());
    fnd.install("waits.sh", "on_load = false\n", &waits);
    let _ = fnd.ctl(&["invoke", "waits", "--async"]).expect_code(0);
    thread::scope(|scope| {
        let drained = scope.spawn(|| fnd.ctl(&["drain"]));
        wait_until("the drain", PATIENCE, || {
            (fnd.status().state.as_str() == "draining").then_some(())
        });
        fs::write(&file, handler(2)).unwrap();
        let refused = fnd.ctl(&deploy).expect_code(7);
        assert!(refused.stderr.contains("fnd is draining"), "{refused}");
        let _ = fnd.ctl(&["drain", "--cancel"]).expect_code(0);
        fs::write(&gate, "").unwrap();
        drop(drained.join().unwrap());
    });
    assert_eq!(fnd.invoke("f", "null").text().trim(), "1", "nothing was changed");
    fnd.finish();
}
