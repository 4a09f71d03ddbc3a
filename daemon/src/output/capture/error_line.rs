//! The line of standard error that says why a program failed. Pure: lines in, one line out.
//!
//! It is the last line, except where an interpreter reports an error in several lines. Then it is the error itself, not
//! the source code, stack frames, causes and notes around it:
//!
//! ```text
//! python, node    `Traceback` or `^`, then the error; notes and causes follow
//! deno, V8, Go    the error, known by its first words; source code and stack frames follow
//! bash, perl      the error; a line that repeats it follows
//! ruby            the error, known by its place and its class; source code, stack frames and causes follow
//! php, lua, java  the error, known by its first words or its place; stack frames follow
//! gcc, pip        the error, known by its place or its first words; source code and advice follow
//! git, npm        the error; advice follows, which is known by its first words: a script may go on after such an error
//! ```
//! The rules are the same for all runtimes, since a script of one may call the interpreter of another. No rule looks at
//! more than one line, or reads a line more than once.

/// Most of a line that is kept, and looked at.
const LINE_MAX: usize = 4 << 10;
/// Lines after an error that belong to it: the rest of its message, notes, source code. Indented lines do not count.
/// A program that goes on after it has logged an error prints more than that.
const REPORT_MAX: u8 = 16;
/// First words of an error that its source code and stack frames follow.
const ERRORS: [&[u8]; 5] = [
    b"error: Uncaught ",
    b"error: SyntaxError: ",
    b"FATAL ERROR: ",
    b"# Fatal ",
    b"panic: ",
];
/// First words of an error that its causes may follow in the same form; the first one counts.
const FIRST_ERRORS: [&[u8]; 6] = [
    b"Fatal error: ",
    b"Parse error: ",
    b"PHP Fatal error: ",
    b"PHP Parse error: ",
    b"Exception in thread ",
    // pip: advice follows.
    b"error: externally-managed-environment",
];
/// First words of every line of a report of npm; the first line that is no detail is the error.
const NPM: [&[u8]; 2] = [b"npm error", b"npm ERR!"];
/// First words of lines that say nothing about the error: of node, Rust, perl, php and lua, then the words that `set -x` of
/// a shell prints, then those of git and pip, gcc, tar and npm.
const DETAILS: [&[u8]; 21] = [
    b"Node.js v",
    b"(Use `node --trace",
    b"note: run with `RUST_BACKTRACE",
    b"BEGIN failed--",
    b"Execution of ",
    b"Stack trace:",
    b"stack traceback:",
    b"+ ",
    b"++",
    b"hint:",
    b"To add an exception for this directory",
    b"Please make sure you have the correct access rights",
    b"and the repository exists.",
    b"[notice] ",
    b"compilation terminated.",
    b"tar: Exiting with failure",
    b"tar: Error is not recoverable",
    b"npm error code ",
    b"npm ERR! code ",
    b"npm error A complete log",
    b"npm ERR! A complete log",
];
/// Bits of the encoded form.
const EXPECTS: u8 = 1;
const DETAIL: u8 = 2;

/// The line, and what is known about the lines that follow.
#[derive(Debug, Default)]
pub(super) struct ErrorLine {
    /// Without line end and outer spaces; empty: nothing was printed.
    line: Vec<u8>,
    /// The line is a detail: there was no better one.
    is_detail: bool,
    /// The next line that is no detail is an error.
    expects: bool,
    /// Lines that may still belong to the report of the error that was kept.
    report: u8,
}

impl ErrorLine {
    /// Takes the next line of standard error.
    pub(super) fn see(&mut self, line: &[u8]) {
        let mut line = line.get(..LINE_MAX).unwrap_or(line);
        if is_traceback(line) {
            (self.expects, self.report) = (true, 0);
            return;
        }
        if self.expects {
            // A group of exceptions is drawn as a tree.
            line = line.strip_prefix(b"  | ").unwrap_or(line);
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            return;
        }
        if is_detail(line, text) {
            // Deno marks the place in the source code after the error.
            self.expects |= self.report == 0 && is_mark(text);
            // The first line of a report of npm: the error of an earlier report does not count any more.
            self.is_detail |= npm(text).is_some_and(|rest| rest.starts_with(b" code "));
            if self.line.is_empty() || self.is_detail {
                self.keep(text, true);
            }
        } else if self.expects
            || ERRORS.iter().any(|words| text.starts_with(words))
            || (self.report == 0 && is_first_error(text))
            || (self.report > 0 && is_next(text))
        {
            (self.expects, self.report) = (false, REPORT_MAX);
            self.keep(text, false);
        } else if self.report > 0 {
            self.report -= 1;
        } else if self.is_detail || npm(text).is_none() || npm(&self.line).is_none() {
            self.keep(text, false);
        }
    }

    fn keep(&mut self, text: &[u8], is_detail: bool) {
        self.line.clear();
        self.line.extend_from_slice(text);
        self.is_detail = is_detail;
    }

    /// Returns the line, unprintable bytes replaced.
    pub(super) fn text(&self) -> Option<String> {
        (!self.line.is_empty()).then(|| String::from_utf8_lossy(&self.line).into_owned())
    }

    /// Returns the line and, after a line end, what else is known. An earlier fnd kept only the line.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut bytes = self.line.clone();
        let bits = u8::from(self.expects) * EXPECTS + u8::from(self.is_detail) * DETAIL;
        if (bits, self.report) != (0, 0) {
            bytes.extend([b'\n', bits, self.report]);
        }
        bytes
    }

    /// Returns what [`encoded`](Self::encoded) was made of.
    pub(super) fn decode(mut bytes: Vec<u8>) -> Self {
        let mut line = Self::default();
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            if let [_, bits, report] = bytes[end..] {
                line.expects = bits & EXPECTS != 0;
                line.is_detail = bits & DETAIL != 0;
                line.report = report;
            }
            bytes.truncate(end);
        }
        Self { line: bytes, ..line }
    }
}

/// Says whether a line begins the report of a python exception, or of a group of them.
fn is_traceback(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    text.starts_with(b"Traceback (most recent call last)") || text.starts_with(b"+ Exception Group Traceback ")
}

/// Says whether a line begins the report of an error after which others in the same form are its causes.
fn is_first_error(text: &[u8]) -> bool {
    FIRST_ERRORS.iter().any(|words| text.starts_with(words)) || is_at_a_place(text)
}

/// Returns a line of npm without its first words.
fn npm(text: &[u8]) -> Option<&[u8]> {
    NPM.iter().find_map(|words| text.strip_prefix(*words))
}

/// Says whether php shows the exception that was thrown because of the one above: `Next Error: outer in x.php:2`.
fn is_next(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"Next ").unwrap_or_default();
    rest.split(|byte| *byte == b' ')
        .next()
        .is_some_and(|word| word.ends_with(b":"))
}

/// Says whether a line is an error at a place, as ruby and javac print it: ``x.rb:2:in `f': broken (RuntimeError)``,
/// `x.rb:2: syntax error, ...`, `x.java:2: error: ...`, `x.c:1:10: fatal error: ...`.
fn is_at_a_place(text: &[u8]) -> bool {
    let mut parts = text.split(|byte| *byte == b':').skip(1);
    let (Some(line), Some(mut what)) = (parts.next(), parts.next()) else {
        return false;
    };
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    // gcc prints the column, too.
    if is_number(what) {
        what = parts.next().unwrap_or_default();
    }
    let begins = [&b"in `"[..], b"in '", b" syntax error", b" error", b" fatal error"];
    is_number(line) && begins.iter().any(|words| what.starts_with(words))
}

/// Says whether a line is a stack frame of php: `#0 x.php(3): f()`.
fn is_frame(text: &[u8]) -> bool {
    text.strip_prefix(b"#")
        .and_then(|rest| rest.first())
        .is_some_and(u8::is_ascii_digit)
}

/// Says whether a line marks a place in the line above.
fn is_mark(text: &[u8]) -> bool {
    text.contains(&b'^') && text.iter().all(|byte| b" ^~".contains(byte))
}

/// Says whether a line only explains another: it is indented, has no word, or is known by its first words.
fn is_detail(line: &[u8], text: &[u8]) -> bool {
    line.starts_with(b" ")
        || line.starts_with(b"\t")
        || !text.iter().any(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
        || DETAILS.iter().any(|words| text.starts_with(words))
        || repeats_source(text)
        || is_frame(text)
}

/// Says whether bash repeats the line of a syntax error: ``x.sh: line 3: `fi'``.
fn repeats_source(text: &[u8]) -> bool {
    let Some(quoted) = text.strip_suffix(b"'") else {
        return false;
    };
    let Some(at) = quoted.windows(3).position(|bytes| bytes == b": `") else {
        return false;
    };
    let before = quoted[..at].trim_ascii_end();
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && before[..before.len() - digits].ends_with(b": line ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(printed: &str, expected: &str) {
        let mut line = ErrorLine::default();
        for (number, text) in printed.lines().enumerate() {
            if number % 2 == 1 {
                line = ErrorLine::decode(line.encoded());
            }
            line.see(text.as_bytes());
        }
        assert_eq!(line.text().unwrap_or_default(), expected, "{printed}");
    }

    /// The first line counts.
    #[track_caller]
    fn check_first(printed: &str) {
        check(printed, printed.lines().next().unwrap_or_default());
    }

    #[test]
    fn without_a_report_the_last_line_counts() {
        check("", "");
        check("one\ntwo\n\n", "two");
        check("disk is full\n  /dev/sda1: 100 %\n", "disk is full");
        check("  only\n  indented\n", "indented");
        check("---\n", "---");
        check("no such user\n---\n}\n", "no such user");
        check("ümlaut\n…\n", "…");
        check("no such user\n+ exit 1\n++ date\n", "no such user");
    }

    #[test]
    fn advice_and_trailers_of_programs_do_not_count() {
        check_first(
            "fatal: detected dubious ownership in repository at '/srv/x'\nTo add an exception for this directory, call:\n\n\tgit config --global\n",
        );
        check_first(
            "error: failed to push some refs to 'x'\nhint: Updates were rejected\nhint:\nhint: See 'git push --help'\n",
        );
        check(
            "npm error code E404\nnpm error 404 Not Found - GET https://example.com/nope\nnpm error 404\nnpm error A complete log of this run is in: /x\n",
            "npm error 404 Not Found - GET https://example.com/nope",
        );
        check_first("tar: x.tar: Cannot open: No such file or directory\ntar: Error is not recoverable: exiting now\n");
        check_first(
            "tar: x: Cannot stat: No such file or directory\ntar: Exiting with failure status due to previous errors\n",
        );
        check_first(
            "x.c:1:10: fatal error: nope.h: No such file or directory\n    1 | #include <nope.h>\n      |          ^~~~~~~~\ncompilation terminated.\n",
        );
        check(
            "ERROR: No matching distribution found for nope\n[notice] A new release of pip is available\n",
            "ERROR: No matching distribution found for nope",
        );
        check_first(
            "error: externally-managed-environment\n\n× This environment is externally managed\n╰─> try apt\nhint: See PEP 668\n",
        );
    }

    /// A script may do without what git or npm could not do.
    #[test]
    fn an_error_after_that_of_a_program_counts() {
        for before in [
            "fatal: not a git repository (or any of the parent directories): .git\n",
            "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.\n",
            "npm error code E404\nnpm error 404 Not Found\nnpm error\nnpm error A complete log of this run is in: /x\n",
        ] {
            let error = before.lines().find(|line| !line.starts_with("npm error code"));
            check(before, error.unwrap_or_default());
            check(&format!("{before}disk is full\n"), "disk is full");
        }
        check(
            "npm error code E404\nnpm error 404 Not Found\nnpm error code EACCES\nnpm error syscall mkdir\nnpm error path /x\n",
            "npm error syscall mkdir",
        );
    }

    #[test]
    fn python_gives_the_exception() {
        let frames = "Traceback (most recent call last):\n  File \"x.py\", line 3, in <module>\n    f()\n    ^^^\n";
        check(&format!("begin\n{frames}ValueError: x\n"), "ValueError: x");
        check(&format!("{frames}shop.Gone: x\nsecond line\na note\n"), "shop.Gone: x");
        let chained = format!(
            "{frames}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n{frames}ValueError: 2\n"
        );
        check(&chained, "ValueError: 2");
        check(
            "  + Exception Group Traceback (most recent call last):\n  |   File \"x.py\", line 1\n  | ExceptionGroup: several (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n    | ValueError: one\n    +---------------- 2 ----------------\n    | TypeError: two\n    +------------------------------------\n",
            "ExceptionGroup: several (2 sub-exceptions)",
        );
        check(
            "  File \"x.py\", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n",
            "SyntaxError: invalid syntax",
        );
    }

    #[test]
    fn an_error_that_was_logged_long_ago_does_not_count() {
        let log = "Traceback (most recent call last):\n  File \"x.py\", line 3\nValueError: x\n";
        let later = "INFO next\n".repeat(usize::from(REPORT_MAX));
        check(&format!("{log}{later}disk is full\n"), "disk is full");
    }

    #[test]
    fn node_gives_the_error() {
        let trailer = "\nNode.js v20.20.2\n";
        check(
            &format!(
                "/x.cjs:1\nthrow new Error();\n^\n\nError: outer\nsecond\n    at x (/x.cjs:1:7) {{\n  [cause]: TypeError: inner\n      at x\n}}\n{trailer}"
            ),
            "Error: outer",
        );
        check(
            &format!("/x.cjs:1\nthrow 42;\n^\n42\n(Use `node --trace-uncaught ...` to show where)\n{trailer}"),
            "42",
        );
        check(
            &format!(
                "node:internal:1\n  throw err;\n  ^\n\nError: Cannot find module 'a'\nRequire stack:\n- /x.cjs\n    at x\n{trailer}"
            ),
            "Error: Cannot find module 'a'",
        );
        check(
            "<--- Last few GCs --->\n\n[1:0x1] 1 ms: Mark-Compact\n\nFATAL ERROR: Reached heap limit\n----- Native stack trace -----\n 1: 0x1 [node]\n10: 0x2 [node]\n",
            "FATAL ERROR: Reached heap limit",
        );
    }

    #[test]
    fn deno_gives_the_error() {
        check_first(
            "error: Uncaught (in promise) Error: outer\nsecond\nthrow new Error();\n      ^\n    at file:///x.ts:1:7\nCaused by: TypeError: inner\n    at file:///x.ts:1:42\n",
        );
        check_first(
            "error: SyntaxError: Expression expected\n  |\n1 | let = ;\n  |       ~\n    at file:///x.ts:1:7\n",
        );
        check_first("error: Import \"nope\" not a dependency\n  hint: try\n    at file:///x.ts:1:15\n");
    }

    #[test]
    fn a_line_that_repeats_the_error_does_not_count() {
        check_first("x.sh: line 3: syntax error near unexpected token `fi'\nx.sh: line 3: `fi fi'\n");
        check_first("x.sh: line 1: unexpected EOF while looking for matching `\"'\n");
        check_first(
            "Can't locate Nope.pm in @INC at x.pl line 1.\nBEGIN failed--compilation aborted at x.pl line 1.\n",
        );
        check(
            "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
            "boom",
        );
        check_first("panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:4 +0x25\nexit status 2\n");
    }

    #[test]
    fn ruby_gives_the_error() {
        check_first("x.rb:2:in `f': broken (RuntimeError)\nsecond line\n\tfrom x.rb:4:in `<main>'\n");
        check_first(
            "x.rb:1:in `<main>': undefined local variable or method `nope' for main:Object (NameError)\n\nnope\n^^^^\nDid you mean?  no\n",
        );
        check_first(
            "x.rb:4:in 'Object#f': outer (ArgumentError)\n\tfrom x.rb:1:in '<main>'\nx.rb:2:in 'File#initialize': inner (Errno::ENOENT)\n",
        );
        check_first(
            "<internal:kernel_require>:85:in `require': cannot load such file -- nope (LoadError)\n\tfrom x.rb:1:in `<main>'\n",
        );
        check_first("x.rb:2: syntax error, unexpected local variable or method, expecting '}'\nputs 1\n^~~~\n");
    }

    #[test]
    fn php_gives_the_error() {
        let frames: String = (0..40).map(|n| format!("#{n} x.php({n}): f()\n")).collect();
        check(
            &format!(
                "\nWarning: Undefined variable $x in x.php on line 1\n\nFatal error: Uncaught Exception: broken\nsecond in x.php:2\nStack trace:\n{frames}  thrown in x.php on line 2\n"
            ),
            "Fatal error: Uncaught Exception: broken",
        );
        check(
            "Fatal error: Uncaught Exception: in in x.php:2\nStack trace:\n#0 {main}\n\nNext Error: out in x.php:2\nStack trace:\n#0 {main}\n  thrown in x.php on line 2\n",
            "Next Error: out in x.php:2",
        );
        check_first("PHP Parse error:  syntax error, unexpected token \"=\" in x.php on line 2\n");
    }

    #[test]
    fn lua_and_java_give_the_error() {
        check_first(
            "lua5.4: x.lua:1: broken\nstack traceback:\n\t[C]: in function 'error'\n\tx.lua:1: in main chunk\n\t[C]: in ?\n",
        );
        check_first(
            "Exception in thread \"main\" java.lang.RuntimeException: broken\nsecond\n\tat A.main(x.java:1)\nCaused by: java.lang.Exception: in\n\tat A.main(x.java:1)\n",
        );
        check_first(
            "x.java:2: error: illegal start of expression\n int x = ;\n         ^\nx.java:3: error: ';' expected\ny\n ^\n2 errors\nerror: compilation failed\n",
        );
        // A program that logs a place and goes on.
        check("x.c:3: warning: unused\ndisk is full\n", "disk is full");
    }

    #[test]
    fn the_line_of_an_earlier_fnd_is_kept() {
        let mut line = ErrorLine::decode(b"no disk".to_vec());
        line.see(b"  indented");
        assert_eq!(line.text().as_deref(), Some("no disk"));
        for damaged in [&b"a\n"[..], b"a\nbcde", b"\n\xff\xff"] {
            let again = ErrorLine::decode(ErrorLine::decode(damaged.to_vec()).encoded());
            assert_eq!(again.encoded(), ErrorLine::decode(damaged.to_vec()).encoded());
        }
    }
}
