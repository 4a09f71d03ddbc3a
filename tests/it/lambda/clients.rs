//! Clients of several languages: each is called, fails with its own words, and is called again.

use super::{ask, bash, executable, install, reason, stage, start, zip};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, programs, require, wait_until};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Says what the function is told.
const FACTS: &str =
    "  answer='{\"handler\": \"'$_HANDLER'\", \"function\": \"'$AWS_LAMBDA_FUNCTION_NAME'\", \"event\": '$event'}'";

#[test]
fn a_directory_and_a_zip_with_a_bootstrap_are_functions() {
    let (fnd, _) = start();
    fnd.drop_executable("greet/bootstrap", &bash(FACTS));
    let stage = stage(&fnd, "uploaded");
    executable(&stage.join("bootstrap"), &bash(FACTS));
    zip(&stage, &stage.join("packed.zip"), &["bootstrap"]);
    fs::rename(stage.join("packed.zip"), fnd.function_path("packed.zip")).unwrap();
    for name in ["greet", "packed"] {
        assert_eq!(fnd.wait_ready(name).error, None, "{name}");
        let told = ask(&fnd, name, "{\"a\": [1, \"two\"]}");
        assert_eq!(told["event"], json!({"a": [1, "two"]}), "{told}");
        assert_eq!(told["function"], name, "{told}");
    }
    let deployed = fnd.ctl(&["deploy", stage.to_str().unwrap(), "--name", "uploaded"]);
    let _ = deployed.expect_code(0);
    assert_eq!(ask(&fnd, "uploaded", "")["event"], json!({}));
    fnd.finish();
}

const PYTHON: &str = "import json, os
def handler(event, context):
    if event.get('fail'):
        raise KeyError(event['fail'])
    return {'event': event, 'arn': context.invoked_function_arn, 'id': context.aws_request_id,
            'memory': context.memory_limit_in_mb, 'left': context.get_remaining_time_in_millis()}
";

/// Installs a function of AWS's client for Python, with its packages in the directory, as people pack it.
fn install_python(fnd: &Fnd, name: &str, code: &str, manifest: &str) {
    let packages = programs::lambda_python().unwrap();
    let to = stage(fnd, name);
    for entry in fs::read_dir(&packages).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // The rest is pip's own.
        if ["awslambdaric", "simplejson", "snapshot_restore_py", "runtime_client"]
            .iter()
            .any(|part| name.starts_with(part))
        {
            copy(&packages.join(&name), &to.join(&name));
        }
    }
    fs::write(to.join("app.py"), code).unwrap();
    let bootstrap =
        "#!/bin/sh\nexport PYTHONPATH=\"$LAMBDA_TASK_ROOT\"\nexec /usr/bin/python3 -m awslambdaric \"$_HANDLER\"\n";
    let manifest = format!("handler = \"app.handler\"\n[limits]\ntimeout = \"20s\"\nmemory = \"128M\"\n{manifest}");
    install(fnd, name, &manifest, bootstrap.as_bytes());
}

#[test]
fn the_client_for_python_runs_unmodified() {
    require!(lambda_python);
    let (fnd, _) = start();
    install_python(&fnd, "shop", PYTHON, "");
    let told = ask(&fnd, "shop", "{\"order\": 7}");
    assert_eq!(told["event"], json!({"order": 7}));
    assert_eq!(told["arn"], "arn:aws:lambda:us-east-1:000000000000:function:shop");
    assert_eq!(told["memory"], "128");
    assert!((1..=20_000).contains(&told["left"].as_u64().unwrap()), "{told}");
    let (answer, view) = fnd.run("shop", "{\"fail\": \"no such order\"}");
    assert!(answer.status.is_server_error(), "{}", answer.status);
    assert!(view.message.starts_with("KeyError: "), "{}", view.message);
    wait_until("the stack in the output", PATIENCE, || {
        let lines = fnd.logs(view.id);
        lines.iter().any(|line| line.text.contains("app.py")).then_some(())
    });
    assert_eq!(ask(&fnd, "shop", "{\"order\": 8}")["event"], json!({"order": 8}));
    fnd.finish();
}

/// Answers with its process id, once three calls run at the same time.
const TOGETHER: &str = "import os, time

def handler(event, context):
    gate = os.environ['GATE']
    open(os.path.join(gate, context.aws_request_id), 'w').close()
    while len(os.listdir(gate)) < 3:
        time.sleep(0.01)
    return os.getpid()
";

/// `[pool] concurrency` is the variable by which the client makes a process for each call.
#[test]
fn the_client_for_python_has_several_calls_at_once() {
    require!(lambda_python);
    let (fnd, _) = start();
    let gate = fnd.shared_directory("gate");
    let manifest = format!(
        "[env]\nGATE = \"{}\"\n[pool]\nmax = 1\nconcurrency = 3\n",
        gate.display()
    );
    install_python(&fnd, "wide", TOGETHER, &manifest);
    let callee = &fnd;
    let mut processes: Vec<u64> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(move || ask(callee, "wide", "{}"))).collect();
        let answers = calls.into_iter().map(|call| call.join().unwrap().as_u64().unwrap());
        answers.collect()
    });
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 3, "{processes:?}");
    fnd.finish();
}

/// Copies a file or a directory.
fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

#[test]
fn the_library_for_rust_runs_unmodified() {
    require!(lambda_rust);
    let (fnd, _) = start();
    let program = fs::read(programs::lambda_rust().unwrap()).unwrap();
    fnd.drop_executable("rust/bootstrap", &program);
    let _ = fnd.wait_ready("rust");
    let told = ask(&fnd, "rust", "{\"order\": 7}");
    assert_eq!(told["event"], json!({"order": 7}));
    assert_eq!(told["arn"], "arn:aws:lambda:us-east-1:000000000000:function:rust");
    assert_eq!(told["memory"], 256);
    let (_, view) = fnd.run("rust", "{\"fail\": \"no such order\"}");
    assert!(view.message.ends_with(": no such order"), "{}", view.message);
    assert_eq!(ask(&fnd, "rust", "{}")["event"], json!({}));
    fnd.finish();
}

/// A client in Go, by the documents of the runtime interface: the library of AWS comes from no registry of Debian.
const GO: &str = r#"package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
)

func post(url, body string, header map[string]string) {
	request, _ := http.NewRequest("POST", url, bytes.NewBufferString(body))
	for name, value := range header {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != 202 {
		fmt.Println("refused:", err, answer)
		os.Exit(1)
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
}

func main() {
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/"
	for {
		answer, err := http.Get(api + "invocation/next")
		if err != nil {
			os.Exit(1)
		}
		event, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		call := api + "invocation/" + answer.Header.Get("Lambda-Runtime-Aws-Request-Id")
		if bytes.Contains(event, []byte("fail")) {
			body := `{"errorMessage": "no such order", "errorType": "OrderError", "stackTrace": ["main.go:42"]}`
			post(call+"/error", body, map[string]string{"Lambda-Runtime-Function-Error-Type": "OrderError"})
			continue
		}
		post(call+"/response", string(event), map[string]string{"Content-Type": "application/json"})
	}
}
"#;

#[test]
fn a_program_in_go_speaks_the_runtime_interface() {
    require!(go);
    let (fnd, _) = start();
    let stage = stage(&fnd, "sources");
    fs::write(stage.join("main.go"), GO).unwrap();
    let built = Command::new("/usr/bin/go")
        .args(["build", "-o", "bootstrap", "main.go"])
        .current_dir(&stage)
        .env("GOCACHE", stage.join("cache"))
        .env("CGO_ENABLED", "0")
        .status();
    assert!(built.unwrap().success());
    fnd.drop_executable("go/bootstrap", &fs::read(stage.join("bootstrap")).unwrap());
    let _ = fnd.wait_ready("go");
    assert_eq!(ask(&fnd, "go", "{\"order\": 7}"), json!({"order": 7}));
    check_failure(&fnd, "go");
    assert_eq!(ask(&fnd, "go", "[1]"), json!([1]));
    fnd.finish();
}

/// Checks that a failure has the words of the client.
#[track_caller]
fn check_failure(fnd: &Fnd, name: &str) {
    let (answer, view) = fnd.run(name, "\"fail\"");
    assert!(answer.status.is_server_error(), "{}", answer.status);
    assert_eq!(view.message, "OrderError: no such order", "{}", reason(&view));
    wait_until("the stack in the output", PATIENCE, || {
        let lines = fnd.logs(view.id);
        lines.iter().any(|line| line.text.contains("main.go:42")).then_some(())
    });
}
