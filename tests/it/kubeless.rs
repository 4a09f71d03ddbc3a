//! `fndctl kubeless`: the lines of Kubeless's Makefiles and documents against a real fnd.

use fnd_tests::client::Client;
use fnd_tests::ctl::Run;
use fnd_tests::wait::{PATIENCE, wait_until};
use fnd_tests::{Fnd, Setup, require};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

const GET: &str = "def foo(event, context):\n    return \"hello world\"\n";
const POST: &str = "import sys\ndef handler(event, context):\n    \
                    print(event['event-namespace'], event['event-type'], len(event['event-id']), event['event-time'][-1])\n    \
                    return event['data']\n";

/// An fnd, with the program under the name `kubeless` and a directory of files to deploy.
struct Cluster {
    fnd: Fnd,
    kubeless: PathBuf,
    files: PathBuf,
}

impl Cluster {
    fn start() -> Self {
        Self::start_with(&Setup::default())
    }

    fn start_with(setup: &Setup) -> Self {
        let mut fnd = Fnd::prepare(setup);
        let (kubeless, files) = (fnd.path("kubeless"), fnd.path("files"));
        symlink(fnd_tests::programs::program("fndctl"), &kubeless).unwrap();
        fs::create_dir(&files).unwrap();
        let configuration = fnd.path("fnd.toml");
        let listen = format!("\n[http]\nlisten = \"unix:{}\"\n", fnd.path("run/http.sock").display());
        let before = fs::read_to_string(&configuration).unwrap();
        fs::write(&configuration, before + &listen).unwrap();
        fnd.launch();
        for (name, text) in [("helloget.py", GET), ("hellowithdata.py", POST)] {
            fs::write(files.join(name), text).unwrap();
        }
        Self { fnd, kubeless, files }
    }

    fn command(&self, line: &str) -> Command {
        let words = words(line);
        let mut command = Command::new(&self.kubeless);
        command.args(words).env_clear().env("FND_SOCKET", self.fnd.socket());
        command.env("PATH", "/usr/bin:/bin").current_dir(&self.files);
        command
    }

    /// Runs a line of a Makefile, without the name of the program.
    fn run(&self, line: &str) -> Run {
        run(&mut self.command(line))
    }

    /// Runs a line, and returns what it prints.
    #[track_caller]
    fn out(&self, line: &str) -> String {
        self.run(line).expect_code(0).out()
    }

    /// Runs a line that has to fail; returns its standard error.
    #[track_caller]
    fn fails(&self, code: i32, line: &str) -> String {
        self.run(line).expect_code(code).stderr
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.files.join(name), text).unwrap();
    }
}

fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Splits a line as a shell does, with single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The list of all functions comes first.
#[test]
fn functions_triggers_and_refusals() {
    let cluster = Cluster::start();
    the_lines_of_an_example_makefile_run_in_order(&cluster);
    the_link_completes_the_words_of_kubeless(&cluster);
    cronjob_triggers_run_functions(&cluster);
    http_triggers_are_routes_of_the_listener(&cluster);
    options_arrive_and_an_update_keeps_what_it_does_not_name(&cluster);
    refusals_have_the_words_of_kubeless(&cluster);
    cluster.fnd.finish();
}

fn the_lines_of_an_example_makefile_run_in_order(cluster: &Cluster) {
    let deployed = cluster
        .run("function deploy get-python --runtime python3.7 --handler helloget.foo --from-file helloget.py")
        .expect_code(0);
    assert_eq!(deployed.out(), "Function get-python deployed\n");
    assert!(deployed.stderr.contains("`python3.7` is not installed"), "{deployed}");
    assert_eq!(cluster.out("function call get-python"), "hello world\n");
    let top = cluster.out("function top --function get-python --out yaml");
    assert!(top.contains("total_calls: 1\n") && top.contains("method: GET"), "{top}");
    // The file has another name than the module of the handler.
    cluster.write("hello-updated.py", &GET.replace("world", "world updated"));
    cluster.out("function update get-python --from-file hello-updated.py");
    assert_eq!(cluster.out("function call get-python"), "hello world updated\n");

    cluster.out("function deploy post-python -r python --handler hellowithdata.handler -f hellowithdata.py");
    let answer = cluster.out("function call post-python --data '{\"it-s\": \"alive\"}'");
    assert_eq!(answer, "{\"it-s\":\"alive\"}\n");
    wait_until("the output to be kept", PATIENCE, || {
        let logs = cluster.out("function logs post-python");
        (logs == "cli.kubeless.io application/json 11 Z\n").then_some(())
    });

    let list = cluster.out("function ls");
    let header: Vec<&str> = list.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        ["NAME", "NAMESPACE", "HANDLER", "RUNTIME", "DEPENDENCIES", "STATUS"]
    );
    assert_eq!(list.matches("1/1 READY").count(), 2, "{list}");
    let one = cluster.out("function ls get-python -o json");
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one[0]["metadata"]["name"], "get-python", "{one}");
    assert_eq!(one[0]["spec"]["handler"], "helloget.foo", "{one}");
    let described = cluster.out("function describe get-python");
    assert!(described.contains("Handler:      helloget.foo"), "{described}");
    assert!(
        cluster
            .out("get-server-config")
            .starts_with("Supported Runtimes are: bash, ")
    );

    // The module of the handler, without new code: the file follows it.
    cluster.out("function update get-python --handler other.foo");
    assert_eq!(cluster.out("function call get-python"), "hello world updated\n");
    cluster.out("function delete get-python");
    assert!(
        cluster
            .fails(1, "function call get-python")
            .contains("there is no function `get-python`")
    );
    let top = cluster.out("function stats");
    assert!(top.contains("post-python") && !top.contains("get-python"), "{top}");
}

fn options_arrive_and_an_update_keeps_what_it_does_not_name(cluster: &Cluster) {
    let show = "import os\nimport helper\ndef foo(event, context):\n    \
                return {'env': {name: os.environ.get(name) for name in ('foo', 'bar', 'one')}, 'limit': context['memory-limit'], \
                'timeout': context['timeout'], 'helper': helper.NAME}\n";
    cluster.write("show.py", show);
    cluster.write("helper.py", "NAME = 'helper'\n");
    let packed = Command::new("tar")
        .args(["czf", "show.tgz", "show.py", "helper.py"])
        .current_dir(&cluster.files)
        .status();
    assert!(packed.unwrap().success());
    let deployed = cluster
        .run(
            "function deploy meta -r python --handler show.foo -f show.tgz --env foo:bar,bar=foo --memory 64Mi --cpu 500m \
             --timeout 20 --label foo:bar,bar=foo,foobar -n mine --port 8081 --headless --image-pull-policy Never",
        )
        .expect_code(0);
    for option in [
        "--namespace mine",
        "--port 8081",
        "--headless",
        "--image-pull-policy Never",
    ] {
        let line = format!("warning: `{option}` has no effect: ");
        assert_eq!(deployed.stderr.matches(&line).count(), 1, "{option}: {deployed}");
    }
    let call = || -> serde_json::Value { serde_json::from_str(&cluster.out("function call meta")).unwrap() };
    let first = call();
    assert_eq!(
        first["env"],
        serde_json::json!({"foo": "bar", "bar": "foo", "one": null}),
        "{first}"
    );
    assert_eq!(first["helper"], "helper", "{first}");
    let labels = |detail: &serde_json::Value| detail["labels"].clone();
    let detail = || -> serde_json::Value { cluster.fnd.client().get("/v1/functions/meta").json() };
    let expected = serde_json::json!({
        "foo": "bar", "bar": "foo", "foobar": "", "created-by": "kubeless", "function": "meta",
    });
    assert_eq!(labels(&detail()), expected);
    assert_eq!(detail()["manifest"]["limits"]["memory"], "64M");
    assert_eq!(detail()["manifest"]["limits"]["cpu"], "500m");

    cluster.out("function update meta --env one=1 --label bar=baz");
    let second = call();
    assert_eq!(
        second["env"],
        serde_json::json!({"foo": null, "bar": null, "one": "1"}),
        "{second}"
    );
    assert_eq!(
        (&second["limit"], &second["timeout"]),
        (&first["limit"], &first["timeout"])
    );
    assert_eq!(labels(&detail())["bar"], "baz");
    assert_eq!(labels(&detail())["foo"], "bar");

    let printed =
        cluster.out("function deploy dry -r python --handler a.foo -f helloget.py -d show.py --dryrun -o json");
    let object: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(object["kind"], "Function", "{object}");
    assert_eq!(object["spec"]["function"], GET);
    assert_eq!(object["spec"]["function-content-type"], "text");
    assert_eq!(object["spec"]["deps"], show);
    assert_eq!(cluster.fnd.client().get("/v1/functions/dry").status.as_u16(), 404);

    let autoscaled = cluster
        .run("autoscale create meta --min 1 --max 3 --metric qps --value 70")
        .expect_code(0);
    assert!(
        autoscaled.stderr.contains("`--metric qps --value 70` has no effect"),
        "{autoscaled}"
    );
    assert_eq!(detail()["manifest"]["pool"]["max"], 3);
    let list = cluster.out("autoscale ls");
    let row: Vec<&str> = list.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["meta", "default", "meta", "1", "3", "qps", "70"]);
    cluster.out("autoscale delete meta");
    assert_eq!(detail()["manifest"]["pool"]["max"], 4);
    assert!(cluster.fails(3, "autoscale delete meta").contains("has no autoscale"));
    assert_eq!(call()["helper"], "helper");
    // A directory that `fndctl deploy` has uploaded, without a runtime and a handler in its manifest.
    let plain = cluster.files.join("plain");
    fs::create_dir(&plain).unwrap();
    fs::write(
        plain.join("main.py"),
        "import os\ndef handler(event, context):\n    return os.environ['one']\n",
    )
    .unwrap();
    let _ = cluster.fnd.ctl(&["deploy", plain.to_str().unwrap()]).expect_code(0);
    cluster.out("function update plain --env one=1");
    assert_eq!(cluster.out("function call plain"), "1\n");
    assert!(
        cluster
            .fails(2, "function update plain -f helloget.py")
            .contains("You must specify handler")
    );
}

fn cronjob_triggers_run_functions(cluster: &Cluster) {
    cluster.write("data.py", "def handler(event, context):\n    return event['data']\n");
    cluster.out("function deploy post -r python --handler data.handler -f data.py");
    cluster.out("function deploy other -r python --handler helloget.foo -f helloget.py --schedule '0 0 1 1 *'");
    cluster.out("trigger cronjob create often --function post --schedule '* * * * * *' --payload '{\"a\": [1]}'");
    let ended = wait_until("a scheduled run", PATIENCE, || {
        let list: serde_json::Value = cluster.fnd.ctl(&["history", "post", "-o", "json"]).json();
        let runs = list["invocations"].as_array().unwrap().clone();
        runs.into_iter().find(|run| run["state"] == "succeeded")
    });
    assert_eq!(ended["trigger"], "schedule", "{ended}");
    let id = ended["id"].as_str().unwrap();
    assert_eq!(cluster.fnd.ctl(&["result", id]).expect_code(0).out(), "{\"a\":[1]}");
    let rows = || {
        let list = cluster.out("trigger cronjob ls --no-headers");
        let rows = list
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(
        rows(),
        ["other default 0 0 1 1 * other", "often default * * * * * * post"]
    );
    cluster.out("trigger cronjob update often --schedule '0 0 2 1 *'");
    assert_eq!(rows()[1], "often default 0 0 2 1 * post");
    // To another function, which has a trigger already.
    cluster.out("trigger cronjob update often --function other");
    assert_eq!(
        rows(),
        ["other default 0 0 1 1 * other", "often default 0 0 2 1 * other"]
    );
    assert!(
        cluster
            .fails(7, "trigger cronjob create often --function post --schedule '0 0 1 1 *'")
            .contains("exists already, for `other`")
    );
    // An update of the code keeps the triggers.
    cluster.out("function update other -f helloget.py");
    assert_eq!(rows().len(), 2);
    cluster.out("trigger cronjob delete other");
    assert_eq!(rows(), ["often default 0 0 2 1 * other"]);
    for (code, line, words) in [
        (
            3,
            "trigger cronjob create x --function nobody --schedule '0 0 1 1 *'",
            "there is no function `nobody`",
        ),
        (
            3,
            "trigger cronjob delete nothing",
            "there is no cronjob trigger `nothing`",
        ),
        (
            8,
            "trigger cronjob create x --function post --schedule '99 * * * *'",
            "cron",
        ),
        (
            2,
            "trigger cronjob create x --function post --schedule '0 0 1 1 *' -p '{'",
            "Unable to parse the payload",
        ),
        (
            2,
            "trigger kafka create x --function-selector a=b --trigger-topic t",
            "fndctl emit",
        ),
        (2, "topic publish --topic t --data x", "docs/cloudevents.md"),
    ] {
        let said = cluster.fails(code, line);
        assert!(said.contains(words), "{line}: {said}");
    }
    cluster.out("function delete other");
    assert_eq!(rows(), [""; 0]);
}

fn http_triggers_are_routes_of_the_listener(cluster: &Cluster) {
    cluster.out("function deploy get -r python --handler helloget.foo -f helloget.py");
    let created = cluster
        .run("trigger http create web --function-name get --path hello --cors-enable --gateway nginx --enableTLSAcme")
        .expect_code(0);
    assert!(!created.stderr.contains("listener is off"), "{created}");
    for option in ["--gateway nginx", "--enableTLSAcme"] {
        assert!(
            created.stderr.contains(&format!("`{option}` has no effect")),
            "{created}"
        );
    }
    let caller = Client::new(&cluster.fnd.path("run/http.sock"));
    let answer = |path: &str| {
        let answer = caller.get(path);
        (answer.status.as_u16(), answer.text())
    };
    wait_until("the route", PATIENCE, || {
        (answer("/hello") == (200, "hello world".to_owned())).then_some(())
    });
    // As by an ingress, the paths below it match, too.
    assert_eq!(["/hello/", "/hello/a/b"].map(|path| answer(path).0), [200, 200]);
    assert_ne!(answer("/hello2").0, 200);
    let list = cluster.out("trigger http list --no-headers");
    let row: Vec<&str> = list.split_whitespace().collect();
    assert_eq!(row, ["web", "default", "get", "-", "/hello"]);
    cluster.out("trigger http update web --path /other");
    wait_until("the other route", PATIENCE, || {
        (answer("/other").0 == 200).then_some(())
    });
    assert_ne!(answer("/hello").0, 200);
    assert_ne!(answer("/hello/a").0, 200);
    assert_eq!(answer("/other/a").0, 200);
    let said = cluster.fails(3, "trigger http create x --function-name nobody --path x");
    assert!(said.contains("there is no function `nobody`"), "{said}");
    cluster.out("trigger http delete web");
    wait_until("no route", PATIENCE, || (answer("/other").0 != 200).then_some(()));
    assert_ne!(answer("/other/a").0, 200);
}

fn refusals_have_the_words_of_kubeless(cluster: &Cluster) {
    cluster.write("hello-loop.py", "def foo(event, context):\n    while 1: pass\n");
    cluster.write(
        "fails.py",
        "def foo(event, context):\n    raise ValueError('what is wrong')\n",
    );
    cluster.out("function deploy timeout-python -r python3.7 --handler helloget.foo -f hello-loop.py --timeout 1");
    cluster.out("function deploy fails -r python --handler fails.foo -f fails.py");
    cluster
        .fnd
        .drop_file("file.py", "def handler(event, context):\n    return 'a file'\n");
    cluster.fnd.wait_ready("file");
    for (code, line, words) in [
        (1, "function call timeout-python", "Request timeout exceeded"),
        (1, "function call fails", "what is wrong"),
        (1, "function call nobody", "there is no function `nobody`"),
        (
            3,
            "function update nobody -f helloget.py",
            "there is no function `nobody`",
        ),
        (3, "function delete nobody", "there is no function `nobody`"),
        (3, "function describe nobody", "there is no function `nobody`"),
        (3, "function logs nobody", "there is no function `nobody`"),
        (
            2,
            "function deploy x -r python --handler foo -f helloget.py",
            "failed: incorrect handler format. It should be module_name.handler_name",
        ),
        (
            2,
            "function deploy x -r cobol1 --handler a.foo -f helloget.py",
            "Invalid runtime: cobol1. Supported runtimes are: bash",
        ),
        (
            2,
            "function deploy x --handler a.foo -f helloget.py",
            "Either `--runtime` or `--runtime-image`",
        ),
        (
            2,
            "function deploy x -r python -f helloget.py",
            "You must specify handler for the runtime.",
        ),
        (
            2,
            "function deploy x --runtime-image kubeless/x",
            "fnd runs no container images",
        ),
        (
            8,
            "function deploy x -r python --handler helloget.foo -f helloget.py --secrets my-secret,t",
            "/etc/fnd/functions/x with `secrets = { my_secret = \"my-secret\", t = \"t\" }` in its `function.toml`",
        ),
        (
            8,
            "trigger http create x --function-name fails --basic-auth-secret s",
            "/etc/fnd/functions/fails with `auth = \"basic:s\"` in `[[http]]` in its `function.toml`",
        ),
        (2, "function deploy x -r python --handler a.foo", "--from-file"),
        (
            2,
            "function deploy x -r python --handler a.foo -f nothing.py",
            "nothing.py",
        ),
        (
            2,
            "function deploy x -r python --handler a.foo -f helloget.py --memory much",
            "wrong format of the memory",
        ),
        (
            2,
            "function deploy x -r python --handler a.foo -f helloget.py --image-pull-policy Often",
            "IfNotPresent",
        ),
        (
            7,
            "function deploy fails -r python --handler fails.foo -f fails.py",
            "kubeless function update fails",
        ),
        (8, "function update fails --handler fails.nothing", "nothing"),
        (
            5,
            "trigger cronjob create x --function file --schedule '0 0 1 1 *'",
            "is the file",
        ),
        (5, "function delete file", "sudo rm"),
    ] {
        let said = cluster.fails(code, line);
        assert!(said.contains(words), "{line}: {said}");
    }
    // Nothing of a refused deployment stays; a file is called and listed, but not changed.
    assert_eq!(cluster.fnd.client().get("/v1/functions/x").status.as_u16(), 404);
    assert_eq!(cluster.out("function call file"), "a file\n");
    assert!(cluster.out("function ls file").contains("1/1 READY"));
    let single = cluster.files.join("single.py");
    fs::write(&single, "def handler(event, context):\n    return 1\n").unwrap();
    let _ = cluster.fnd.ctl(&["deploy", single.to_str().unwrap()]).expect_code(0);
    assert!(
        cluster
            .fails(2, "function update single -f helloget.py")
            .contains("an upload of one file")
    );
}

/// The Makefile of our own that the documents name, as far as it needs only Python.
#[test]
fn the_makefile_of_the_examples_works() {
    let cluster = Cluster::start();
    let source = fnd_tests::programs::repository().join("examples/kubeless");
    let copied = Command::new("cp").arg("-R").arg(source).arg(&cluster.files).status();
    assert!(copied.unwrap().success());
    let mut make = Command::new("make");
    make.args(["python", "clean"])
        .current_dir(cluster.files.join("kubeless"))
        .env_clear();
    let path = format!("{}:/usr/bin:/bin", cluster.kubeless.parent().unwrap().display());
    make.env("PATH", path).env("FND_SOCKET", cluster.fnd.socket());
    let made = run(&mut make).expect_code(0);
    for name in ["get-python", "post-python", "timeout-python"] {
        assert!(made.out().contains(&format!("Function {name} deleted")), "{made}");
    }
    assert!(cluster.fnd.ctl(&["list", "-o", "name"]).expect_code(0).out().is_empty());
    cluster.fnd.finish();
}

/// Somebody who may not read the uploaded archive changes a function by what the API shows of it.
#[test]
fn an_administrator_without_access_to_the_files_changes_triggers() {
    require!(root);
    let setup = Setup::default().config("[[access]]\nuser = \"nobody\"\nrole = \"admin\"\n");
    let cluster = Cluster::start_with(&setup);
    cluster.out("function deploy get -r python --handler helloget.foo -f helloget.py");
    fs::set_permissions(cluster.fnd.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(cluster.fnd.path("state/functions"), fs::Permissions::from_mode(0o700)).unwrap();
    // The program is in a build directory, which other users may not enter.
    fs::remove_file(&cluster.kubeless).unwrap();
    fs::copy(fnd_tests::programs::program("fndctl"), &cluster.kubeless).unwrap();
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    let as_nobody = |line: &str| {
        let mut command = cluster.command(line);
        command
            .uid(nobody.uid.as_raw())
            .gid(nobody.gid.as_raw())
            .current_dir("/");
        run(&mut command)
    };
    let _ = as_nobody("trigger cronjob create yearly --function get --schedule '0 0 1 1 *'").expect_code(0);
    assert!(cluster.out("trigger cronjob list").contains("yearly"));
    assert_eq!(cluster.out("function call get"), "hello world\n");
    // Bytes that are no text cannot be had that way.
    fs::write(cluster.files.join("data.bin"), b"\xff\xfe\x00").unwrap();
    let packed = Command::new("tar")
        .args(["czf", "bin.tar.gz", "helloget.py", "data.bin"])
        .current_dir(&cluster.files)
        .status();
    assert!(packed.unwrap().success());
    cluster.out("function update get -f bin.tar.gz");
    let refused = as_nobody("trigger cronjob delete yearly").expect_code(5);
    assert!(refused.stderr.contains("`data.bin` of `get` is no text"), "{refused}");
    assert!(cluster.out("trigger cronjob list").contains("yearly"));
    cluster.fnd.finish();
}

fn the_link_completes_the_words_of_kubeless(cluster: &Cluster) {
    let script = cluster.out("completion bash");
    assert!(script.contains("kubeless") && !script.contains("fndctl "), "{script}");
    let mut command = cluster.command("");
    command.env("FNDCTL_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
    command.args(["--", "kubeless", "function", ""]);
    let words = run(&mut command).expect_code(0).out();
    for word in ["deploy", "update", "call", "logs", "describe"] {
        assert!(words.contains(word), "{words}");
    }
    assert!(cluster.out("--help").contains("function"));
}
