//! Syntax errors in code, found by its own interpreter. The code is only read: no line of it runs, and nothing is
//! fetched. An interpreter that fails in another way says nothing about the code.

use crate::health::installed::Ground;
use fnd_manifest::check::{Checked, CheckedSource};
use fnd_manifest::diagnostic::{Diagnostic, EXCERPT_MAX, Place};
use fnd_manifest::regular_file;
use fnd_wire::plan::CODE_MAX;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Longest time of one check. It takes milliseconds, on a busy machine seconds.
const LIMIT: Duration = Duration::from_secs(20);

/// Largest number of files of one function that are checked: each one costs a process.
const FILES_MAX: usize = 20;

/// Compiles standard input and prints line, column and message of the error.
const PYTHON: &str = "\
import json, sys, warnings
warnings.simplefilter('ignore')
try:
    compile(sys.stdin.buffer.read(), '-', 'exec', dont_inherit=True)
except SyntaxError as error:
    print(json.dumps([error.lineno or 1, error.offset or 1, error.msg]))
except ValueError as error:
    print(json.dumps([1, 1, str(error)]))
";

/// Reads standard input only, without the settings of the machine.
const PHP: [&str; 6] = ["-n", "-d", "display_errors=stderr", "-d", "log_errors=0", "-l"];

/// Compiles standard input and prints the error.
const LUA: &str = "local _, why = load(io.read('a'), '=-') if why then io.stderr:write(why, '\\n') end";

/// An error in a text: line and column from 1, and what is wrong.
#[derive(Debug, PartialEq, Eq)]
struct SyntaxError {
    line: u32,
    column: u32,
    message: String,
}

/// Returns the syntax errors of all functions that fnd would accept otherwise.
pub(crate) async fn problems(checked: &Checked, ground: &Ground) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for source in &checked.sources {
        if let (Some(plan), Ok(Some(interpreter))) = (&source.plan, ground.of_interpreter(source)) {
            for (file, bytes) in files(source) {
                if let Some(found) = check(&plan.runtime, &interpreter, &file, &bytes).await {
                    problems.push(diagnostic(&file, &bytes, found));
                }
            }
        }
    }
    problems
}

/// Returns the file that runs, and those of its language beside it.
fn files(source: &CheckedSource) -> Vec<(String, Vec<u8>)> {
    let suffix = |file: &str| Path::new(file).extension().map(ToOwned::to_owned);
    let entry = source.plan.as_ref().map(|plan| plan.entry.as_str()).unwrap_or_default();
    let wanted = suffix(entry);
    let is_one = move |file: &str| match &wanted {
        Some(_) => suffix(file) == wanted,
        // Without a suffix nothing tells the language, so only the file that runs is checked.
        None => file.ends_with(entry),
    };
    let archive = source.files.first().map(String::as_str).unwrap_or_default();
    // A file of which only the beginning is known would look cut off.
    let unpacked = source.unpacked.iter().filter(|file| file.bytes.0.len() < CODE_MAX);
    let unpacked = unpacked.map(|file| (format!("{archive}/{}", file.path), file.bytes.0.clone()));
    let read = |file: &String| Some((file.clone(), regular_file::read(file.as_ref()).ok()?));
    let on_disk = source.files.iter().filter(|file| is_one(file)).filter_map(read);
    let in_archive = unpacked.filter(|(file, _)| is_one(file));
    on_disk.chain(in_archive).take(FILES_MAX).collect()
}

/// Returns the error that an interpreter finds in a file.
async fn check(runtime: &str, interpreter: &Path, file: &str, bytes: &[u8]) -> Option<SyntaxError> {
    let suffix = Path::new(file).extension().and_then(|suffix| suffix.to_str());
    // The formatter is the part of deno that parses a file and looks at no import.
    let format = ["fmt", "--no-config", "--ext", suffix.unwrap_or("ts"), "-"];
    match runtime {
        "python" => {
            // With `-I` and `-S` python ignores `PYTHON*` variables, the packages of the user, and `site.py`.
            let (out, _) = run(interpreter, &["-I", "-S", "-c", PYTHON], bytes).await?;
            let (line, column, message) = serde_json::from_str(&out).ok()?;
            Some(SyntaxError { line, column, message })
        }
        "bash" => of_shell(&run(interpreter, &["-n"], &unix(bytes)).await?.1),
        "node" => of_node(&run(interpreter, &["--check", "-"], bytes).await?.1),
        "go" => {
            // go has no option that only parses. gofmt, which lies beside go, reports syntax errors without compiling.
            let gofmt = interpreter.with_file_name("gofmt");
            of_gofmt(&run(&gofmt, &["-e"], bytes).await?.1)
        }
        "lua" => of_place(&run(interpreter, &["-e", LUA], bytes).await?.1),
        "php" => of_php(&run(interpreter, &PHP, bytes).await?.1),
        "ruby" => of_place(&run(interpreter, &["-c", "-"], bytes).await?.1),
        "deno" => of_deno(&run(interpreter, &format, bytes).await?.1),
        _ => None,
    }
}

/// Runs an interpreter with a text as standard input, and returns what it prints; nothing where it cannot be started or
/// takes too long.
async fn run(interpreter: &Path, arguments: &[&str], input: &[u8]) -> Option<(String, String)> {
    let mut command = Command::new(interpreter);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .kill_on_drop(true);
    // The messages are parsed below: in English and without colours.
    command.envs([("NO_COLOR", "1"), ("DENO_NO_UPDATE_CHECK", "1"), ("LC_ALL", "C.UTF-8")]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut pipe = child.stdin.take()?;
    let both = async {
        // An interpreter that stops at the first error does not read the rest.
        let write = async move { pipe.write_all(input).await.ok() };
        tokio::join!(write, child.wait_with_output()).1
    };
    let output = tokio::time::timeout(LIMIT, both).await.ok()?.ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&output.stdout), text(&output.stderr)))
}

/// Returns the text as fnd installs it for shells: without carriage returns and without a byte-order mark.
fn unix(bytes: &[u8]) -> Vec<u8> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut result: Vec<u8> = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(bare) => result.extend(bare.iter().chain(b"\n")),
            None => result.extend(line),
        }
    }
    result
}

/// Returns an error at a line, whose number is a text.
fn error(line: &str, column: u32, message: &str) -> Option<SyntaxError> {
    Some(SyntaxError {
        line: line.parse().ok()?,
        column,
        message: message.to_owned(),
    })
}

/// `bash: line 3: syntax error near ...`, `dash: 3: Syntax error: ...`.
fn of_shell(errors: &str) -> Option<SyntaxError> {
    // bash reports an open quotation as an unexpected EOF, without the words `syntax error`.
    let line = errors
        .lines()
        .find(|line| line.to_lowercase().contains(": syntax error") || line.contains("unexpected EOF"))?;
    let (_, rest) = line.split_once(": ")?;
    let (number, message) = rest.strip_prefix("line ").unwrap_or(rest).split_once(": ")?;
    error(number, 1, message)
}

/// `[stdin]:2`, the line, a mark below the column, and `SyntaxError: ...` after an empty line.
fn of_node(errors: &str) -> Option<SyntaxError> {
    let lines: Vec<&str> = errors.lines().collect();
    let message = lines.iter().find_map(|line| line.strip_prefix("SyntaxError: "))?;
    let at = lines.iter().position(|line| line.starts_with("[stdin]:"))?;
    let number = lines.get(at)?.strip_prefix("[stdin]:")?;
    let column = lines.get(at + 2).and_then(|mark| mark.find('^')).unwrap_or(0);
    error(number, u32::try_from(column + 1).ok()?, message)
}

/// `-:2: message`: ruby and lua. Ruby marks the column in another line, and not in all versions.
fn of_place(errors: &str) -> Option<SyntaxError> {
    let place = errors.lines().find_map(|line| line.strip_prefix("-:"))?;
    let (number, message) = place.split_once(": ")?;
    error(number, 1, message)
}

/// `<standard input>:2:7: message`.
fn of_gofmt(errors: &str) -> Option<SyntaxError> {
    let (line, rest) = errors
        .lines()
        .next()?
        .strip_prefix("<standard input>:")?
        .split_once(':')?;
    let (column, message) = rest.split_once(':')?;
    error(line, column.parse().ok()?, message.trim_start())
}

/// `Parse error: message in Standard input code on line 2`, or `Fatal error: ...` for code that cannot be compiled.
fn of_php(errors: &str) -> Option<SyntaxError> {
    let (what, number) = errors
        .lines()
        .find_map(|line| line.rsplit_once(" in Standard input code on line "))?;
    let message = what
        .strip_prefix("Parse error: ")
        .or_else(|| what.strip_prefix("Fatal error: "))?;
    error(number.trim_end(), 1, message.trim_start())
}

/// `error: SyntaxError: Expression expected`, and `at file:///.../_stdin.ts:2:10` below the line.
fn of_deno(errors: &str) -> Option<SyntaxError> {
    let message = errors.lines().find_map(|line| line.split_once("SyntaxError: "))?.1;
    let place = errors
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("at file://"))?;
    // Split from the end, since the path before may have colons.
    let mut numbers = place.rsplitn(3, ':');
    let column = numbers.next()?.parse().ok()?;
    error(numbers.next()?, column, message)
}

fn diagnostic(file: &str, bytes: &[u8], found: SyntaxError) -> Diagnostic {
    let text = String::from_utf8_lossy(bytes);
    // An error at the end of the text is behind its last line.
    let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX).max(1);
    let line = found.line.clamp(1, lines);
    let excerpt = text
        .lines()
        .nth(usize::try_from(line - 1).unwrap_or(0))
        .unwrap_or_default();
    let width = u32::try_from(excerpt.chars().count()).unwrap_or(u32::MAX).max(1);
    let mut diagnostic = Diagnostic::error("code-syntax", found.message).in_file(file);
    diagnostic.place = Some(Place {
        line,
        column: found.column.clamp(1, width),
        length: 1,
        excerpt: excerpt.chars().take(EXCERPT_MAX).collect(),
    });
    diagnostic
}

#[cfg(test)]
mod tests {
    use crate::health::syntax::*;

    /// Runtimes whose interpreters only `scripts/setup.sh --ci` installs.
    const MAY_BE_MISSING: [&str; 4] = ["go", "lua", "php", "ruby"];

    #[tokio::test]
    async fn interpreters_name_the_place_of_an_error() {
        for (runtime, program, file, text, expected) in [
            ("python", "python3", "x.py", "x = 1\ndef f(:\n", "2:7 invalid syntax"),
            (
                "python",
                "python3",
                "x.py",
                "x = 1\nreturn\n",
                "2:1 'return' outside function",
            ),
            (
                "bash",
                "bash",
                "x.sh",
                "echo\r\nif true; then\r\n",
                "3:1 unexpected end of file",
            ),
            ("bash", "bash", "x.sh", "echo )\n", "1:1 unexpected token"),
            ("bash", "dash", "x.sh", "echo\necho )\n", "2:1 \")\" unexpected"),
            ("node", "node", "x.cjs", "let a;\nfoo(;\n", "2:5 Unexpected token ';'"),
            ("php", "php", "x.php", "<?php\n$x = = 1;\n", "2:1 unexpected token"),
            ("lua", "lua5.4", "x.lua", "x = 1\ny = = 1\n", "2:1 unexpected symbol"),
            (
                "go",
                "go",
                "x.go",
                "package main\n\nfunc main() { = }\n",
                "3:15 expected statement",
            ),
            ("ruby", "ruby", "x.rb", "x = 1\ny = = 1\n", "2:1 syntax error"),
        ] {
            let interpreter = Path::new("/usr/bin").join(program);
            if !interpreter.exists() && MAY_BE_MISSING.contains(&runtime) {
                continue;
            }
            let found = check(runtime, &interpreter, file, text.as_bytes()).await;
            let found = found.unwrap_or_else(|| panic!("{text}"));
            let (place, message) = expected.split_once(' ').unwrap();
            assert_eq!(format!("{}:{}", found.line, found.column), place, "{text}: {found:?}");
            assert!(found.message.contains(message), "{found:?}");
            let shown = diagnostic(file, text.as_bytes(), found).render(fnd_manifest::diagnostic::Colour::Plain);
            assert!(shown.contains(file), "{shown}");
        }
        for (runtime, interpreter, text) in [
            ("python", "/usr/bin/python3", "raise SystemExit('it ran')\n"),
            ("bash", "/usr/bin/bash", "echo it ran >&2; exit 1\n"),
            ("node", "/usr/bin/node", "throw new SyntaxError('it ran');\n"),
            (
                "php",
                "/usr/bin/php",
                "<?php fwrite(STDERR, \"Parse error: it ran in Standard input code on line 1\");\n",
            ),
            ("lua", "/usr/bin/lua5.4", "io.stderr:write('-:1: it ran')\n"),
            ("ruby", "/usr/bin/ruby", "BEGIN { warn '-:1: syntax error, it ran' }\n"),
            ("python", "/nonexistent", "(\n"),
            ("perl", "/usr/bin/perl", "(\n"),
        ] {
            assert_eq!(
                check(runtime, Path::new(interpreter), "x", text.as_bytes()).await,
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn the_place_in_deno_is_found() {
        let errors = "error: SyntaxError: Expression expected\n  |\n2 | let x = (;\n  |          ~\n    at file:///x/_stdin.ts:2:10\n";
        let found = SyntaxError {
            line: 2,
            column: 10,
            message: "Expression expected".to_owned(),
        };
        assert_eq!(of_deno(errors), Some(found));
        assert_eq!(of_deno("error: Module not found\n"), None);
    }
}
