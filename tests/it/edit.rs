//! `fndctl cat` and `fndctl edit`, on a terminal that `script` of util-linux provides.

use fnd_tests::programs::program;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Run, wait_until};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

const HELLO: &str = "# /// fnd\n# on_load = false\n# ///\necho one\n";

fn ground() -> Fnd {
    let fnd = Fnd::start();
    fnd.drop_file("hello.sh", HELLO);
    fnd.wait_ready("hello");
    fnd
}

/// Restores the first content, and waits until it serves.
fn begin_again(fnd: &Fnd) {
    fnd.drop_file("hello.sh", HELLO);
    wait_until("the first content", PATIENCE, || {
        let is_valid = fnd.function("hello")?.error.is_none();
        (is_valid && fnd.invoke("hello", "").text() == "one\n").then_some(())
    });
}

/// Runs `fndctl edit` with an editor that is a line of shell: `$1` is the file. The answers are typed.
fn edit(fnd: &Fnd, arguments: &str, editor: &str, answers: &str) -> (i32, String) {
    let program = program("fndctl");
    let line = format!("{} edit {arguments}", program.display());
    let editor_file = fnd.path("editor");
    fs::write(&editor_file, format!("#!/bin/sh\n{editor}\n")).unwrap();
    fs::set_permissions(&editor_file, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("/usr/bin/script");
    command.args(["-qec", &line, "/dev/null"]);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb");
    command
        .env("FND_SOCKET", fnd.socket())
        .env("HOME", "/nonexistent")
        .env("EDITOR", &editor_file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(answers.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"),
    )
}

/// Each of these begins with the first content of `hello`.
#[test]
fn code_is_shown_and_edited() {
    let fnd = ground();
    cat_prints_code_and_manifest_with_their_paths(&fnd);
    a_bad_edit_asks_and_saves_only_if_told_to(&fnd);
    a_good_edit_serves_and_keeps_owner_and_mode(&fnd);
    an_edit_that_cannot_be_done_says_why(&fnd);
    fnd.finish();
}

fn cat_prints_code_and_manifest_with_their_paths(fnd: &Fnd) {
    fnd.drop_file("two.toml", "on_load = false\n");
    fnd.drop_file("two.py", "print(2)\n");
    fnd.drop_file("whole/main.sh", "echo whole\n");
    fnd.drop_file("whole/function.toml", "on_load = false\nentry = \"main.sh\"\n");
    fnd.wait_ready("two");
    fnd.wait_ready("whole");
    let at = |name: &str| fnd.function_path(name).display().to_string();
    let cat = |arguments: &[&str]| fnd.ctl(&[&["cat"], arguments].concat());
    assert_eq!(
        cat(&["hello"]).expect_code(0).out(),
        format!("# {}\n{HELLO}", at("hello.sh"))
    );
    assert_eq!(
        cat(&["two"]).expect_code(0).out(),
        format!(
            "# {}\nprint(2)\n\n# {}\non_load = false\n",
            at("two.py"),
            at("two.toml")
        )
    );
    assert_eq!(
        cat(&["whole", "-o", "name"]).expect_code(0).out(),
        format!("{}\n{}\n", at("whole/function.toml"), at("whole/main.sh"))
    );
    assert_eq!(cat(&["two", "-o", "raw"]).expect_code(0).out(), "print(2)\n");
    let json = cat(&["two", "-o", "json"]).expect_code(0).json();
    assert_eq!(
        (&json["files"][0]["text"], &json["files"][1]["path"]),
        (&"print(2)\n".into(), &at("two.toml").into())
    );
    let run: Run = cat(&["nobody"]).expect_code(3);
    assert!(run.stderr.contains("nobody"), "{run}");
    // Content that does not serve is shown, and said to be.
    fnd.drop_file("two.toml", "enabld = true\n");
    let _ = fnd.wait_error("two");
    let run = cat(&["two"]).expect_code(0);
    assert!(
        run.out().contains("enabld") && run.stderr.contains("does not serve"),
        "{run}"
    );
}

fn a_good_edit_serves_and_keeps_owner_and_mode(fnd: &Fnd) {
    begin_again(fnd);
    let path = fnd.function_path("hello.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let before = fs::metadata(&path).unwrap();
    let (code, shown) = edit(fnd, "hello", "sed -i s/one/two/ \"$1\"", "");
    assert_eq!(code, 0, "{shown}");
    assert!(
        shown.contains("saved ") && shown.contains("hello serves the new version"),
        "{shown}"
    );
    assert_eq!(fnd.ctl(&["invoke", "hello"]).expect_code(0).out(), "two\n");
    let after = fs::metadata(&path).unwrap();
    assert_eq!(
        (after.mode(), after.uid(), after.gid()),
        (before.mode(), before.uid(), before.gid())
    );
    let (code, shown) = edit(fnd, "hello", "true", "");
    assert!(code == 0 && shown.contains("nothing was changed"), "{shown}");
    let (code, shown) = edit(
        fnd,
        "hello --manifest",
        "grep -q '#:schema' \"$1\" && echo 'size = \"M\"' >> \"$1\"",
        "d\n",
    );
    assert!(
        code == 0 && shown.contains("are dropped"),
        "beside a block, a manifest is an error: {shown}"
    );
    assert!(!fnd.function_path("hello.toml").exists());
}

fn a_bad_edit_asks_and_saves_only_if_told_to(fnd: &Fnd) {
    let path = fnd.function_path("hello.sh");
    let bad = "sed -i s/on_load/onload/ \"$1\"";
    let (code, shown) = edit(fnd, "hello", bad, "d\n");
    assert!(code == 0 && shown.contains("unknown key `onload`"), "{shown}");
    assert!(
        shown.contains(&format!("{}:2:3", path.display())),
        "the path is that of the function: {shown}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), HELLO);
    // Edited again, it is right.
    let twice = "if grep -q onload \"$1\"; then sed -i -e s/onload/on_load/ -e s/one/two/ \"$1\"; else sed -i s/on_load/onload/ \"$1\"; fi";
    let (code, shown) = edit(fnd, "hello", twice, "what\ne\n");
    assert!(code == 0 && shown.contains("serves the new version"), "{shown}");
    let (code, shown) = edit(fnd, "hello", bad, "s\n");
    assert!(code == 8 && shown.contains("goes on serving"), "{shown}");
    assert_eq!(fnd.ctl(&["invoke", "hello"]).expect_code(0).out(), "two\n");
}

fn an_edit_that_cannot_be_done_says_why(fnd: &Fnd) {
    begin_again(fnd);
    let path = fnd.function_path("hello.sh");
    let run = fnd.ctl(&["edit", "hello"]).expect_code(2);
    assert!(run.stderr.contains("needs a terminal"), "{run}");
    let (code, shown) = edit(fnd, "hello", "exit 3", "");
    assert!(code == 1 && shown.contains("nothing was saved"), "{shown}");
    let (code, shown) = edit(fnd, "nobody", "true", "");
    assert!(code == 3, "{shown}");
    // Somebody else's change is not overwritten.
    let other = format!("echo \"echo mine\" >> \"$1\"; echo 'echo other' >> {}", path.display());
    let (code, shown) = edit(fnd, "hello", &other, "");
    assert!(
        code == 7 && shown.contains("meanwhile") && shown.contains("diff "),
        "{shown}"
    );
    assert!(fs::read_to_string(&path).unwrap().ends_with("echo other\n"));
    let kept = shown
        .split_whitespace()
        .find(|word| word.contains("fndctl-edit-"))
        .unwrap()
        .trim_matches('`');
    assert!(fs::read_to_string(kept).unwrap().ends_with("echo mine\n"));
    fs::remove_dir_all(std::path::Path::new(kept).parent().unwrap()).unwrap();
}
