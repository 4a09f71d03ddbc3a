//! The examples of the pages on HTTP functions and services do what the pages say.

use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

/// Returns the fenced blocks of a language in a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let parts: Vec<&str> = text.split("\n```").collect();
    let found = parts
        .iter()
        .filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n'));
    found.map(|code| format!("{code}\n")).collect()
}

#[track_caller]
fn only(page: &str, language: &str) -> String {
    let [one] = <[String; 1]>::try_from(blocks(page, language)).unwrap();
    one
}

#[test]
fn http_functions() {
    require!(deno);
    let fnd = Fnd::start();
    for (file, language, expected) in [
        ("hello.py", "python", "hello from python\n"),
        ("greet.ts", "typescript", "hello Ada\n"),
        ("count.cjs", "javascript", "0 bytes\n"),
    ] {
        fnd.drop_file(file, &only("http-functions.md", language));
        let (name, _) = file.split_once('.').unwrap();
        fnd.wait_ready(name);
        let answer = fnd
            .client()
            .get(&format!("/v1/functions/{name}/http/any/path?name=Ada"));
        assert_eq!(
            (answer.status.as_u16(), answer.text().as_str()),
            (200, expected),
            "{file}"
        );
    }
    assert_eq!(fnd.invoke("count", "\"four\"").text(), "6 bytes\n");
    fnd.finish();
}

#[test]
fn services() {
    let fnd = Fnd::start();
    fnd.drop_file("disk.sh", &only("services.md", "bash"));
    let _ = fnd.wait_function("disk", "to run", |function| function.running == 1);
    wait_until("its first line", PATIENCE, || {
        let run = fnd.history("disk").into_iter().next()?;
        let lines = fnd.logs(run.id);
        lines.iter().any(|line| line.text == "watching").then_some(())
    });
    fnd.remove("disk.sh");
    fnd.wait_gone("disk");
    fnd.finish();
}
