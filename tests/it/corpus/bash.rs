//! Bash.

use super::{Case, Send, Want, case, check_all, fails};
use fnd_tests::Fnd;

pub(super) const CASES: &[Case] = &[
    // How the file is written.
    case("no-newline.sh", Want::Text("hi there")),
    case("crlf-bash.sh", Want::Text("one\ntwo")),
    case("bom-bash.sh", Want::Text("bom")),
    case("no-shebang.sh", Want::Text("no shebang")),
    case("sh-shebang.sh", Want::Text("plain sh")),
    case("heredoc.sh", Want::Text("hello world\nnot $expanded")),
    case("quotes.sh", Want::Text("it's \"quoted\" and $5 `back`")),
    // How it ends.
    fails("strict.sh", "exit-1"),
    fails("strict-unset.sh", "exit-1").says("unbound variable"),
    fails("trap-exit.sh", "exit-3"),
    fails("trap-cleanup.sh", "exit-8").result(Want::Text("code 8")),
    fails("exit-75.sh", "transient").says("try later"),
    fails("exit-65.sh", "failed").says("wrong input"),
    fails("exit-99.sh", "exit-99"),
    fails("exit-255.sh", "exit-255"),
    fails("segfault.sh", "signal-SEGV"),
    fails("last-words.sh", "exit-7")
        .says("last words")
        .result(Want::Text("output")),
    fails("closed-everything.sh", "exit-6"),
    // Processes that the script leaves running end with it.
    case("background.sh", Want::Text("started")),
    case("setsid.sh", Want::Text("away")),
    case("many-children.sh", Want::Text("reaped")),
    // Payload.
    case("stdin-unread.sh", Want::Text("did not look")).sent(Send::Letters(5 << 20)),
    case("stdin-count.sh", Want::Json("5242880")).sent(Send::Letters(5 << 20)),
    case("stdin-head.sh", Want::Json("100")).sent(Send::Lines(20_000)),
    case("data-env.sh", Want::Bytes(br#"{"a":[1,2],"z":"x y"}"#)).sent(Send::Text(r#"{ "z": "x y", "a": [1, 2] }"#)),
    case("data-absent.sh", Want::Text("absent")),
    case("data-too-large.sh", Want::Json("70000")).sent(Send::Letters(70_000)),
    case("context.sh", Want::Json(r#"{"appName": "shop"}"#)).manifest("context = { appName = \"shop\" }"),
    case("args.sh", Want::Text("[-i][a b][*][$HOME]")).manifest(r#"args = ["-i", "a b", "*", "$HOME"]"#),
    case("interpreter-args.sh", Want::Text("-e")).manifest(r#"interpreter_args = ["-e"]"#),
    // Result.
    case("result-json.sh", Want::Json(r#"{"answer": 42}"#)),
    case("result-text.sh", Want::Text("plain words")),
    case("result-appended.sh", Want::Json("[1, 2]")),
    case("stdout-json.sh", Want::Json(r#"{"b": [1, 2]}"#)),
    case("stdout-two-json.sh", Want::Text("{\"a\": 1}\n{\"a\": 2}")),
    case("silent.sh", Want::Nothing),
    case("unterminated.sh", Want::Text("no line end")),
    case("binary.sh", Want::Bytes(b"\0\xff\xfe\x01\0")),
    case("latin1.sh", Want::Bytes(b"caf\xe9\n")),
    case("carriage-output.sh", Want::Bytes(b"one\r\ntwo\r\n")),
    case(
        "terminal-escapes.sh",
        Want::Bytes(b"\x1b]0;title\x07\x1b[31mred\x1b[0m\n"),
    ),
    case("huge-line.sh", Want::Text("fine")),
    case("closed-stdout.sh", Want::Nothing),
    case("dev-stdout.sh", Want::Text("by name")),
    fails("dev-stderr.sh", "exit-4").says("on the way out"),
    // The environment that a script finds.
    case("tmpdir-retry.sh", Want::Text("seen in attempt 2"))
        .manifest("[retry]\nretries = 1\ninterval = \"10ms\"\njitter = \"none\""),
    case("poll-previous.sh", Want::Json("3")).manifest("[poll]\nrepeat = \"10ms\"\nuntil = \"30s\""),
    case("home.sh", Want::Text("kept")),
    case("cwd-read-only.sh", Want::Text("refused")).manifest("[sandbox]\nprofile = \"strict\""),
    case("sigpipe.sh", Want::Text("y\n141")),
    case("limits-inherited.sh", Want::Text("1024 0022")),
    case(
        "environment.sh",
        Want::Text("/usr/local/bin:/usr/bin:/bin|C.UTF-8|environment|manual|1|0|bash|bash"),
    ),
    case("unicode-env.sh", Want::Text("grüß dich, 世界")).manifest("[env]\nGREETING = \"grüß dich, 世界\""),
    case("descriptors.sh", Want::Text("0 1 2 3 ")),
];

#[test]
fn bash_scripts() {
    let fnd = Fnd::start();
    check_all(&fnd, CASES);
    fnd.finish();
}
