//! Functions in Go are compiled before they serve.

use super::{Index, answers, builds, trees};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;

/// A function as people write it for Kubeless.
const HELLO: &str = "package kubeless

import (
\t\"fmt\"

\t\"github.com/kubeless/kubeless/pkg/functions\"
)

// Hello greets.
func Hello(event functions.Event, context functions.Context) (string, error) {
\treturn fmt.Sprintf(\"one %s\", event.Data), nil
}
";

fn error_of(fnd: &Fnd, function: &str, part: &str) -> String {
    wait_until(part, PATIENCE, || {
        fnd.function(function)?.error.filter(|error| error.contains(part))
    })
}

/// The count of installations comes first.
#[test]
fn programs_in_go() {
    require!(root, cgroup, go);
    let index = Index::start();
    let fnd = Fnd::start_with(&index.setup("", ""));
    a_function_in_go_is_compiled_and_the_old_program_serves_until_then(&fnd);
    a_script_in_go_gets_its_arguments_and_says_how_it_ended(&fnd);
    modules_come_from_a_proxy_and_a_lock_is_kept(&fnd);
    fnd.finish();
}

fn a_function_in_go_is_compiled_and_the_old_program_serves_until_then(fnd: &Fnd) {
    fnd.drop_file("hello.go", HELLO);
    answers(fnd, "hello", "one \"Ada\"");
    let serving = fnd.function("hello").unwrap().version;
    fnd.drop_file("hello.go", &HELLO.replace("event.Data", "event.Date"));
    let error = error_of(fnd, "hello", "compiling it failed");
    assert!(error.contains("hello.go:11:37: event.Date undefined"), "{error}");
    answers(fnd, "hello", "one \"Ada\"");
    assert_eq!(fnd.function("hello").unwrap().version, serving);
    fnd.drop_file("hello.go", &HELLO.replace("one", "two"));
    answers(fnd, "hello", "two \"Ada\"");
    // A change of the manifest compiles nothing.
    let before = builds(fnd);
    fnd.drop_file("hello.toml", "[limits]\ntimeout = \"7s\"\n");
    wait_until("the new limit", PATIENCE, || {
        fnd.ctl(&["show", "hello"]).out().contains("7s").then_some(())
    });
    answers(fnd, "hello", "two \"Ada\"");
    assert_eq!((builds(fnd), trees(fnd).len()), (before, 2));
}

fn a_script_in_go_gets_its_arguments_and_says_how_it_ended(fnd: &Fnd) {
    let code = "// /// fnd\n// on_load = false\n// args = [\"a b\"]\n// ///\npackage main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\n\
        func main() {\n\tfmt.Println(len(os.Args), os.Args[1], os.Getenv(\"DATA\"))\n\tif os.Getenv(\"DATA\") == \"7\" {\n\t\tos.Exit(7)\n\t}\n}\n";
    fnd.drop_file("tool.go", code);
    answers(fnd, "tool", "2 a b \"Ada\"");
    assert!(fnd.invoke("tool", "7").text().contains("exit-7"));
}

fn modules_come_from_a_proxy_and_a_lock_is_kept(fnd: &Fnd) {
    let code = HELLO.replace("\t\"fmt\"\n", "\t\"example.com/fndpad\"\n").replace(
        "fmt.Sprintf(\"one %s\", event.Data)",
        "\"one\" + fndpad.Pad(event.Data)",
    );
    // Without a list, the imports say what is needed.
    fnd.drop_file("imports.go", &code);
    answers(fnd, "imports", "one   \"Ada\"");
    let shown = fnd.ctl(&["show", "imports"]).expect_code(0).out();
    assert!(shown.contains("example.com/fndpad v1.0.0"), "{shown}");
    let sum = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let lock = format!("example.com/fndpad v1.0.0 {sum}\nexample.com/fndpad v1.0.0/go.mod {sum}\n");
    fnd.drop_file(
        "locked/go.mod",
        "module shop\n\ngo 1.19\n\nrequire example.com/fndpad v1.0.0\n",
    );
    fnd.drop_file("locked/go.sum", &lock);
    fnd.drop_file("locked/main.go", &code);
    fnd.drop_file("locked/function.toml", "");
    let error = error_of(fnd, "locked", "compiling it failed");
    assert!(error.contains("checksum mismatch"), "{error}");
    fs::remove_file(fnd.path("functions/locked/go.sum")).unwrap();
    answers(fnd, "locked", "one   \"Ada\"");
}
